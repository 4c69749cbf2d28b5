//! Stores that live in the process and end with it.

mod cache;
mod glob;
mod idempotency;
pub mod journal;
mod rate_windows;

pub use cache::MemoryCache;
pub use idempotency::MemoryIdempotency;
pub use journal::MemoryJournal;
pub use rate_windows::MemoryWindows;
