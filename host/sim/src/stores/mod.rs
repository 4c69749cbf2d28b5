//! Reference stores: what a port promises, in memory and without any fault. Each passes the contract suite
//! that the real stores pass (`backends/tests/it/memory.rs`), so that what is found here would be found
//! there. The queue, journals, records, conversations and webhooks are those of `agent_core::testing`,
//! idempotency keys those of `backends::memory`. What a server forgets that keeps them is in `redis.rs`.

mod redis;

pub use redis::{Redis, ReferenceKeys};
