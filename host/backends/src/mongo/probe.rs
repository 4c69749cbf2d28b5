//! Whether the document store answers.

use std::time::Duration;

use agent_core::ports::{Probe, ProbeError};
use boxed_async::boxed_async;
use mongodb::Database;
use mongodb::bson::doc;

use super::error::answer;

/// Sends a ping to the server that takes the writes.
#[derive(Debug)]
pub(super) struct MongoProbe {
    database: Database,
}

impl MongoProbe {
    pub(super) fn new(database: Database) -> Self {
        Self { database }
    }
}

#[boxed_async]
impl Probe for MongoProbe {
    fn name(&self) -> &'static str {
        "mongodb"
    }

    async fn check(&self) -> Result<Option<Duration>, ProbeError> {
        match answer(self.database.run_command(doc! { "ping": 1 })).await {
            Ok(_pong) => Ok(None),
            Err(error) => Err(ProbeError(error.to_string())),
        }
    }
}
