//! How the histories of runs get to their store: behind the answer for requests, before the next step for
//! jobs.
//!
//! - [`Behind`]: takes everything at once and writes it later. For the runs of requests, which end with them.
//! - [`Patient`]: writes before it answers, and again when the store fails. For the runs of jobs.

mod behind;
mod patient;
mod weight;

pub use behind::{Behind, Bounds, Drain};
pub use patient::Patient;
