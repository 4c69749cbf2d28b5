//! Reference stores: what a port promises, in memory and without any fault. Each passes the contract suite
//! that the real stores pass (`backends/tests/it/memory.rs`), so that what is found here would be found
//! there. Journals, records and conversations are those of `agent_core::testing`, idempotency keys those
//! of `backends::memory`.

mod queue;
mod queue_state;
mod webhooks;

pub use queue::ReferenceQueue;
pub use webhooks::ReferenceOutbox;
