//! MongoDB, to keep runs in a document store (`MONGODB_URL`).
//!
//! Three collections: `run_events`, the journals, `run_records`, and `conversations`; a fourth, `sweeps`, has
//! the leases under which old ones are removed (`lease.rs`). What makes an event or a record the only one
//! of its kind is its `_id`, which every collection has an index of from its first moment: nothing has to be
//! made before the first write, by one replica or by ten, and no replica can write where nothing is unique
//! yet. The other indexes, of when runs ended, of their jobs and of their users, only find: they are made
//! when they are first needed (`indexes.rs`).

mod conversation_retention;
mod conversations;
mod documents;
mod error;
mod indexes;
mod lease;
mod probe;
mod retention;
mod runs;
mod time_pages;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{ConversationStore, HttpRecordings, Leases, Probe, Retention, RunStore};
use mongodb::options::{Acknowledgment, ClientOptions, ReadPreference, SelectionCriteria, WriteConcern};
use mongodb::{Client, Database};

use conversation_retention::MongoConversationRetention;
use conversations::MongoConversations;
use lease::MongoLeases;
use probe::MongoProbe;
use retention::MongoRetention;

use crate::Writer;

/// The database when the address names none.
const DATABASE: &str = "agent_host";

/// Most connections of one process to a server (host/docs/interface/errors-and-limits.md#limits).
const MOST_CONNECTIONS: u32 = 20;

/// How long a connection may be idle before it is closed (host/docs/interface/errors-and-limits.md#limits).
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long finding a server and connecting to it may take (host/docs/interface/errors-and-limits.md#limits).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A document store. Clones are the same one.
#[derive(Debug, Clone)]
pub struct MongoStore {
    database: Database,
}

/// An address that names no document store. It is not quoted: it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("MONGODB_URL cannot be used: it is not the address of a MongoDB server, or has an unknown option")]
pub struct MongoAddressError;

impl MongoStore {
    /// The store at `mongodb://…`. Nothing is connected yet: a server that is down at start-up is a matter of
    /// health, not of configuration. Limits that the address itself sets are kept.
    pub async fn open(url: &str) -> Result<Self, MongoAddressError> {
        let mut options = ClientOptions::parse(url).await.map_err(|_may_quote_it| MongoAddressError)?;
        options.app_name.get_or_insert_with(|| "agent-host".into());
        options.connect_timeout.get_or_insert(CONNECT_TIMEOUT);
        options.server_selection_timeout.get_or_insert(CONNECT_TIMEOUT);
        options.max_pool_size.get_or_insert(MOST_CONNECTIONS);
        options.max_idle_time.get_or_insert(IDLE_TIMEOUT);
        // A run that is resumed from what an old copy says would pay for its last model calls again. For the
        // same reason reads are of what the primary has and not of what it knows a majority to have, which
        // just after a failover may lack what was acknowledged. An event that is read and then taken back
        // does no harm: nothing is written behind it (`writer.rs`).
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        // Neither a failover nor a power cut may take back what was acknowledged.
        options.write_concern =
            Some(WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build());
        let name = options.default_database.clone().unwrap_or_else(|| DATABASE.into());
        let client = Client::with_options(options).map_err(|_may_quote_it| MongoAddressError)?;
        Ok(Self { database: client.database(&name) })
    }

    /// The runs kept there, and what writes their events, which has to be run beside them.
    pub fn runs(&self) -> (Arc<dyn RunStore>, Writer) {
        runs::open(&self.database)
    }

    /// Removes runs that ended long ago. `recordings` has what their tools were answered over HTTP, if
    /// anything does.
    pub fn retention(&self, recordings: Option<Arc<dyn HttpRecordings>>) -> Arc<dyn Retention> {
        Arc::new(MongoRetention::new(&self.database, recordings))
    }

    /// The conversations kept there.
    pub fn conversations(&self) -> Arc<dyn ConversationStore> {
        Arc::new(MongoConversations::new(&self.database))
    }

    /// Removes conversations that nobody has gone on with for long.
    pub fn conversation_retention(&self) -> Arc<dyn Retention> {
        Arc::new(MongoConversationRetention::new(&self.database))
    }

    /// The leases of what is done again and again.
    pub fn leases(&self) -> Arc<dyn Leases> {
        Arc::new(MongoLeases::new(&self.database))
    }

    /// Asks whether the store answers.
    pub fn probe(&self) -> Arc<dyn Probe> {
        Arc::new(MongoProbe::new(self.database.clone()))
    }

    /// Closes every connection, waiting for those in use.
    pub async fn close(&self) {
        self.database.client().clone().shutdown().await;
    }
}
