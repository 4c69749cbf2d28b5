//! What stands in MongoDB's place in a binary without the Cargo feature `mongodb`: a store that nobody can
//! open, with the methods of the one that is built in. Whoever uses a store needs no `cfg` of its own.

use std::sync::Arc;

use agent_core::ports::{ConversationStore, HttpRecordings, Leases, Probe, Retention, RunStore};

use crate::Writer;

/// A document store. There is none.
#[derive(Debug, Clone)]
pub enum MongoStore {}

/// Why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("MONGODB_URL is set, but this binary was built without MongoDB: build it with `--features mongodb`")]
pub struct MongoAddressError;

impl MongoStore {
    /// Fails always.
    #[expect(clippy::unused_async, reason = "as the one that connects")]
    pub async fn open(_url: &str) -> Result<Self, MongoAddressError> {
        Err(MongoAddressError)
    }

    /// The runs kept there.
    pub fn runs(&self) -> (Arc<dyn RunStore>, Writer) {
        match *self {}
    }

    /// Removes old runs.
    pub fn retention(&self, _recordings: Option<Arc<dyn HttpRecordings>>) -> Arc<dyn Retention> {
        match *self {}
    }

    /// The conversations kept there.
    pub fn conversations(&self) -> Arc<dyn ConversationStore> {
        match *self {}
    }

    /// Removes old conversations.
    pub fn conversation_retention(&self) -> Arc<dyn Retention> {
        match *self {}
    }

    /// The leases of what is done again and again.
    pub fn leases(&self) -> Arc<dyn Leases> {
        match *self {}
    }

    /// Asks whether the store answers.
    pub fn probe(&self) -> Arc<dyn Probe> {
        match *self {}
    }

    /// Closes every connection.
    #[expect(clippy::unused_async, reason = "as the one that connects")]
    pub async fn close(&self) {
        match *self {}
    }
}
