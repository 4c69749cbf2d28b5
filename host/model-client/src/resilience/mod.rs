//! What is done when a model fails: [`retry`] asks it again, as [`retry_schedule`] says; [`fallback`] asks
//! another one.
//!
//! Each is a `Model` around a `Model` and decides by the kind of the error alone.

pub(crate) mod fallback;
pub(crate) mod retry;
pub(crate) mod retry_schedule;
