//! Every parser of strangers' bytes under bytes of a stranger: cases mutated from a corpus that is kept.
//!
//! - [`TARGETS`]: the one table of parsers, with the files that each target reaches. A test of the
//!   architecture (`tests/it/architecture/readers.rs`) fails for a reader that no target reaches.
//! - `targets/`: what each of them asserts: no panic, bounded work, what is written is read back.
//! - [`corpus`]: the inputs that are kept, one text file for each target.
//! - [`mutation`]: changes of these, as a strategy of proptest, which also shrinks what fails.
//! - [`executions`]: how often each target was executed, over all runs.
//! - [`guided`]: targets under libFuzzer, which `coverage.rs` is linked with.
//! - `main.rs`: `cargo xtask fuzz`, minutes of it.
//!
//! The tests run the corpus and some thousand cases of each target. Only tests and these programs know this
//! crate.

pub mod corpus;
pub mod executions;
pub mod guided;
pub mod mutation;
pub mod table;
mod targets;

pub use table::{TARGETS, Target};
pub use targets::edge::statuses;
