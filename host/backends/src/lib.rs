//! Stores behind agent-core's ports. One file per backend; only this crate names a store.
//!
//! | port | embedded | real |
//! |---|---|---|
//! | `Journal` | [`memory::journal`] | – |
//! | `ResultCache` | [`memory::MemoryCache`] | [`redis::RedisCache`] |
//! | `RateWindows` | [`memory::MemoryWindows`] | [`redis::RedisWindows`] |
//! | `JobQueue` | – | [`bullmq::BullQueue`] |
//! | `Probe` "database" | SQLite | PostgreSQL: [`sql`] |
//! | `Probe` "redis" | – | [`redis::RedisProbe`] |
//!
//! What does not belong here: what is stored and why. That is the core's.

pub mod bullmq;
pub mod memory;
pub mod redis;
pub mod sql;
