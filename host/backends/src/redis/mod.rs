//! Redis: results, rate windows and a sign of life over one shared connection.
//!
//! What does not belong here: the queue of jobs, which speaks BullMQ's protocol: [`crate::bullmq`].

mod cache;
mod failure;
mod gate;
mod link;
mod probe;
mod windows;

pub use cache::RedisCache;
pub use link::{AddressError, Redis};
pub use probe::RedisProbe;
pub use windows::RedisWindows;

pub(crate) use failure::Failure;
