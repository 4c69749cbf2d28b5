//! How the journals of runs get to their store: after the answer for requests, before the next step for jobs.
//!
//! - [`encode`], [`decode`]: the stored form of an event, with its version.
//! - [`NotifyingJournal`]: wakes the readers of a run when this process appends to it.
//! - [`WriteBehind`]: takes everything at once and writes it later. For the runs of requests, which end with them.
//! - [`RetryingJournal`]: writes before it answers, and again when the store fails. For the runs of jobs.

mod format;
mod reader_wakeup;
mod retrying;
mod size;
mod write_behind;

pub use format::{VERSION, decode, encode};
pub use reader_wakeup::NotifyingJournal;
pub use retrying::RetryingJournal;
pub use write_behind::{Backlog, Flusher, WriteBehind};
