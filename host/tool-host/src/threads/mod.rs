//! On which threads guests run, and what the host computes for them.

pub(crate) mod guest_runtime;
pub(crate) mod host_work_pool;
