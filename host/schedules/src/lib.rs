//! The files of the service that hold locks and wake others, compiled once more over [shuttle], whose
//! scheduler decides by a seed which task goes on at each use of a lock, a channel or a notification.
//!
//! - [`PLACES`]: what is tried, each with promises and with a bug that was planted into its sources.
//! - [`run`]: a number of schedules of one of them.
//! - `locks`, `sync`, `time`: what these sources find under the names `tokio`, `parking_lot` and `arc_swap`.
//!   This crate goes by those names itself (`extern crate self as`), so that no line of the sources differs.
//! - `real`, `planted`: these sources, copied by `build.rs`, and the same with a bug each. `places/`: what is
//!   done with them, and promised.
//!
//! Why not the crate `shuttle-tokio`: its broadcast channel is not there yet, and its bounded channel has no
//! weak sender. The primitives here are tokio's own, which do everything without waiting for a thread: a
//! point at which another task may go on stands before each use of them.
//!
//! What is not seen: orders of memory (all atomics are as if in one order), and code between two uses.

extern crate self as arc_swap;
extern crate self as parking_lot;
extern crate self as tokio;

mod locks;
#[allow(clippy::duplicate_mod, reason = "the scenarios are the same")]
mod planted;
mod real;
mod subjects;
pub mod sync;
mod table;
pub mod time;

use std::thread;

use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

pub use locks::{ArcSwap, Mutex, MutexGuard};
pub use real_arc_swap::Guard;
pub use real_tokio::select;
pub use table::{PLACES, Place};

#[allow(dead_code, unreachable_pub, reason = "the place uses less than the service")]
#[path = "../../run-service/src/shared_future.rs"]
mod shared_future;

/// A stand-in for what `tool-host` keeps of a component, as far as a swap is concerned.
mod component {
    #[derive(Debug)]
    pub(crate) struct Component {
        pub(crate) id: String,
        pub(crate) name: String,
        pub(crate) digest: String,
    }
}

/// A stand-in for the flags of a run, which no schedule looks at.
mod loop_driver {
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Flag(());
}

/// Most points of one schedule. A place that does not come to its end within these goes round in circles.
const MOST_STEPS: usize = 20_000;

/// Bytes of a task's stack: code without optimization takes more than what is usual.
const STACK_BYTES: usize = 256 << 10;

/// Runs so many schedules, drawn by the seed, or says what went wrong in one of them. A deadlock is one:
/// somebody waits, and nobody is left to wake them.
pub fn run(scenario: fn(), schedules: usize, seed: u64) -> Result<(), String> {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.failure_persistence = FailurePersistence::None;
    // On a thread of its own: what a schedule that failed leaves behind on its thread changes the next ones.
    let running = thread::spawn(move || {
        Runner::new(RandomScheduler::new_from_seed(seed, schedules), config).run(scenario);
    });
    running.join().map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
    })
}
