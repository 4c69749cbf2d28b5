//! Stores behind agent-core's ports: in memory, SQLite, PostgreSQL and MongoDB. Those in Redis are a crate of
//! their own, `redis-stores`; only these two name a store.
//!
//! | port | embedded | real |
//! |---|---|---|
//! | `Journal`, `RunStore` | SQLite: [`sql::SqlRuns`]; [`memory::MemoryJournal`] | PostgreSQL: [`sql::SqlRuns`]; MongoDB: [`mongo::MongoStore`] |
//! | `JobQueue` | SQLite: [`sql::SqlQueue`] | PostgreSQL: [`sql::SqlQueue`]; Redis: `redis_stores::bullmq::BullQueue` |
//! | `ConversationStore` | SQLite: [`sql::SqlConversations`] | PostgreSQL: [`sql::SqlConversations`]; MongoDB: [`mongo::MongoStore`] |
//! | `ResultCache` | [`memory::MemoryCache`] | `redis_stores::redis::RedisCache` |
//! | `RateWindows` | [`memory::MemoryWindows`] | `redis_stores::redis::RedisWindows` |
//! | `KeyValueStore` | SQLite: [`sql::SqlKeyValues`] | PostgreSQL: [`sql::SqlKeyValues`]; `redis_stores::redis::RedisKeyValues` |
//! | `IdempotencyStore` | SQLite: [`sql::SqlIdempotency`]; [`memory::MemoryIdempotency`] | PostgreSQL: [`sql::SqlIdempotency`]; `redis_stores::redis::RedisIdempotency` |
//! | `ToolVersions` | SQLite: [`sql::SqlToolVersions`] | PostgreSQL: [`sql::SqlToolVersions`] |
//! | `HttpRecordings` | SQLite: [`sql::SqlHttpRecordings`] | PostgreSQL: [`sql::SqlHttpRecordings`] |
//! | `Retention` | SQLite: [`sql::SqlRetention`] | PostgreSQL: [`sql::SqlRetention`]; MongoDB: [`mongo::MongoStore`]; Redis: `redis_stores::bullmq::BullRetention` |
//! | `Leases` | SQLite: [`sql::SqlLeases`] | PostgreSQL: [`sql::SqlLeases`]; MongoDB: [`mongo::MongoStore`]; Redis: `redis_stores::bullmq::BullRetention` |
//! | `WebhookOutbox` | SQLite: [`sql::SqlWebhooks`] | PostgreSQL: [`sql::SqlWebhooks`] |
//! | `Probe` "database" | SQLite: [`sql::SqlProbe`] | PostgreSQL: [`sql::SqlProbe`] |
//! | `Probe` "redis" | – | `redis_stores::redis::RedisProbe` |
//!
//! What does not belong here: what is stored and why. That is the core's.

use futures::future::BoxFuture;

mod group_commit;
pub mod memory;
#[cfg(feature = "mongodb")]
pub mod mongo;
#[cfg(not(feature = "mongodb"))]
#[path = "mongo/not_built_in.rs"]
pub mod mongo;
pub mod sql;

/// What writes for a store. Nothing is written unless it runs. It can be run again after it broke off, and
/// goes on with what waits; two of them at once take turns.
pub struct Writer(Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>);

impl Writer {
    /// A task that runs a new future of these each time it is started.
    pub(crate) fn new<F>(write: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Box::new(move || Box::pin(write())))
    }

    /// Writes until the store has been dropped and everything is written.
    pub fn run(&self) -> BoxFuture<'static, ()> {
        (self.0)()
    }
}
