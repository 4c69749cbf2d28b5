//! Clocks and random numbers as a guest sees them: those of the machine in a call, and fixed ones while it
//! describes itself. A description that depended on either could be another one after it was approved.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wasmtime_wasi::{Deterministic, HostMonotonicClock, HostWallClock, WasiCtxBuilder};

/// The time of day of every description: the beginning of 2025.
const FIXED_TIME: Duration = Duration::from_secs(1_735_689_600);

/// The time that every description is told to have left.
const FIXED_REMAINING: Duration = Duration::from_secs(1);

/// Where a guest's clocks and random numbers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nondeterminism {
    /// From the machine.
    Live,
    /// From constants: clocks stand still, timers are over at once, and random numbers are the same every
    /// time.
    Fixed,
}

impl Nondeterminism {
    /// The time of day, since the beginning of 1970.
    pub(super) fn time_of_day(self) -> Duration {
        match self {
            Self::Live => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            Self::Fixed => FIXED_TIME,
        }
    }

    /// The time that is left of a call.
    pub(super) fn remaining(self, deadline: Instant) -> Duration {
        match self {
            Self::Live => deadline.saturating_duration_since(Instant::now()),
            Self::Fixed => FIXED_REMAINING,
        }
    }

    /// How long, or until when, a timer of the monotonic clock runs: not at all when that stands still.
    pub(super) fn timer(self, asked: u64) -> u64 {
        match self {
            Self::Live => asked,
            Self::Fixed => 0,
        }
    }

    /// Gives WASI its clocks and random numbers.
    pub(super) fn give_to(self, wasi: &mut WasiCtxBuilder) {
        if self == Self::Live {
            return;
        }
        wasi.wall_clock(StoppedClock).monotonic_clock(StoppedClock);
        let numbers = || Deterministic::new((0..=u8::MAX).collect());
        wasi.secure_random(numbers()).insecure_random(numbers()).insecure_random_seed(0);
    }
}

/// A clock that stands still.
struct StoppedClock;

impl HostWallClock for StoppedClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        FIXED_TIME
    }
}

impl HostMonotonicClock for StoppedClock {
    fn resolution(&self) -> u64 {
        1_000_000
    }

    fn now(&self) -> u64 {
        0
    }
}
