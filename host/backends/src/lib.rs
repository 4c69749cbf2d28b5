//! Stores behind agent-core's ports. One file per backend; only this crate names a store.
//!
//! | port | embedded | real |
//! |---|---|---|
//! | `Journal`, `RunStore` | SQLite: [`sql::SqlRuns`]; [`memory::MemoryJournal`] | PostgreSQL: [`sql::SqlRuns`]; MongoDB: [`mongo::MongoRuns`] |
//! | `JobQueue` | SQLite: [`sql::SqlQueue`] | PostgreSQL: [`sql::SqlQueue`]; Redis: [`bullmq::BullQueue`] |
//! | `ResultCache` | [`memory::MemoryCache`] | [`redis::RedisCache`] |
//! | `RateWindows` | [`memory::MemoryWindows`] | [`redis::RedisWindows`] |
//! | `Probe` "database" | SQLite: [`sql::SqlProbe`] | PostgreSQL: [`sql::SqlProbe`] |
//! | `Probe` "redis" | – | [`redis::RedisProbe`] |
//!
//! What does not belong here: what is stored and why. That is the core's.

mod batch;
pub mod bullmq;
pub mod memory;
pub mod mongo;
pub mod redis;
pub mod sql;
