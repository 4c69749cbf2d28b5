//! How the journals of runs get to their store: after the answer for requests, before the next step for jobs.
//!
//! - [`WriteBehind`]: takes everything at once and writes it later. For the runs of requests, which end with
//!   them.
//! - [`RetryingJournal`]: writes before it answers, and again when the store fails. For the runs of jobs.
//! - [`LastEventsBehind`]: the same, but for the events that end a job's run, which go with its record.

mod last_events;
mod pending;
mod retrying;
mod size;
mod write_behind;

pub use last_events::LastEventsBehind;
pub use retrying::RetryingJournal;
pub(crate) use retrying::persist;
pub use write_behind::{Backlog, Flusher, WriteBehind};
