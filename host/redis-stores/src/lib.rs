//! Stores behind agent-core's ports that are kept in Redis. The table of all ports and stores stands in
//! `backends/src/lib.rs`. Their contract suites run in `backends/tests/`, beside those of the other stores.
//!
//! - [`bullmq`]: the queue of jobs, in BullMQ's own protocol, and its retention.
//! - [`redis`]: the connection, and everything else that is kept there.

pub mod bullmq;
pub mod redis;

#[cfg(feature = "testing")]
pub use bullmq::testing;
