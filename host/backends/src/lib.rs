//! Stores behind agent-core's ports. One file per backend; only this crate names a store.
//!
//! | port | embedded | real |
//! |---|---|---|
//! | `Journal` | [`memory::journal`] | – |
//! | `RunStore` | – | MongoDB: [`mongo`] |
//! | `Probe` "database" | SQLite | PostgreSQL: [`sql`] |
//!
//! What does not belong here: what is stored and why. That is the core's.

pub mod memory;
pub mod mongo;
pub mod sql;
