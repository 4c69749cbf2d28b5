//! Stores that live in the process and end with it.

pub mod journal;

pub use journal::MemoryJournal;
