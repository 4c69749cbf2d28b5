//! Clocks and random numbers as a guest sees them: those of the machine in a call, fixed ones while it
//! describes itself, and recorded ones in a call that may be made again. A description that depended on
//! either could be another one after it was approved, and a call could ask for something else when it is made
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agent_core::ports::RecordedWorld;
use sha2::{Digest, Sha256};
use wasmtime_wasi::{Deterministic, HostMonotonicClock, HostWallClock, WasiCtxBuilder};

/// The time of day of every description: the beginning of 2025.
const FIXED_TIME: Duration = Duration::from_secs(1_735_689_600);

/// The time that every description is told to have left.
const FIXED_REMAINING: Duration = Duration::from_secs(1);

/// How many digests of 32 bytes recorded random numbers consist of before they begin anew.
const RECORDED_DIGESTS: u32 = 1 << 10;

/// Where a guest's clocks and random numbers come from.
#[derive(Debug, Clone)]
pub(crate) enum Nondeterminism {
    /// From the machine.
    Live,
    /// From constants: clocks stand still, timers are over at once, and random numbers are the same every
    /// time.
    Fixed,
    /// From what is recorded of the call: clocks move with each answer that the guest is given, timers run as
    /// long as they are asked to, and random numbers are the same every time.
    Recorded(Arc<RecordedClock>),
}

/// The clock of a call that may be made again, and what its random numbers are made from.
#[derive(Debug)]
pub(crate) struct RecordedClock {
    /// The time, in milliseconds since 1970.
    now: AtomicU64,
    seed: String,
}

impl RecordedClock {
    pub(crate) fn new(world: RecordedWorld) -> Self {
        Self { now: AtomicU64::new(world.now), seed: world.seed }
    }

    /// The guest has been given an answer.
    pub(crate) fn set(&self, now: u64) {
        self.now.store(now, Relaxed);
    }

    fn time(&self) -> Duration {
        Duration::from_millis(self.now.load(Relaxed))
    }

    fn numbers(&self, purpose: &str) -> Deterministic {
        let digest = |part: u32| Sha256::digest(format!("{} {purpose} {part}", self.seed));
        Deterministic::new((0..RECORDED_DIGESTS).flat_map(digest).collect())
    }
}

impl Nondeterminism {
    /// The time of day, since the beginning of 1970.
    pub(super) fn time_of_day(&self) -> Duration {
        match self {
            Self::Live => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            Self::Fixed => FIXED_TIME,
            Self::Recorded(clock) => clock.time(),
        }
    }

    /// The time that is left of a call.
    pub(super) fn remaining(&self, deadline: Instant) -> Duration {
        match self {
            Self::Live | Self::Recorded(_) => deadline.saturating_duration_since(Instant::now()),
            Self::Fixed => FIXED_REMAINING,
        }
    }

    /// How long, or until when, a timer of the monotonic clock runs: not at all when that stands still for
    /// ever.
    pub(super) fn timer(&self, asked: u64) -> u64 {
        match self {
            Self::Live | Self::Recorded(_) => asked,
            Self::Fixed => 0,
        }
    }

    /// Gives WASI its clocks and random numbers.
    pub(super) fn give_to(&self, wasi: &mut WasiCtxBuilder) {
        match self {
            Self::Live => {}
            Self::Fixed => {
                wasi.wall_clock(StoppedClock).monotonic_clock(StoppedClock);
                let numbers = || Deterministic::new((0..=u8::MAX).collect());
                wasi.secure_random(numbers()).insecure_random(numbers()).insecure_random_seed(0);
            }
            Self::Recorded(clock) => {
                wasi.wall_clock(SharedClock(clock.clone())).monotonic_clock(SharedClock(clock.clone()));
                wasi.secure_random(clock.numbers("secure")).insecure_random(clock.numbers("insecure"));
                let seed = Sha256::digest(&clock.seed);
                let seed = seed.iter().take(16).fold(0_u128, |seed, byte| seed << 8 | u128::from(*byte));
                wasi.insecure_random_seed(seed);
            }
        }
    }
}

/// A clock that moves with the answers of a call.
struct SharedClock(Arc<RecordedClock>);

impl HostWallClock for SharedClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        self.0.time()
    }
}

impl HostMonotonicClock for SharedClock {
    fn resolution(&self) -> u64 {
        1_000_000
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.time().as_nanos()).unwrap_or(u64::MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_clock_moves_only_when_it_is_told() {
        let clock = Arc::new(RecordedClock::new(RecordedWorld { now: 7, seed: "s".into() }));
        let world = Nondeterminism::Recorded(clock.clone());
        assert_eq!(world.time_of_day(), Duration::from_millis(7));
        clock.set(9_000);
        assert_eq!(world.time_of_day(), Duration::from_secs(9));
        assert_eq!(HostMonotonicClock::now(&SharedClock(clock)), 9_000_000_000);
        assert_eq!(world.timer(5), 5, "a guest that sleeps does");
    }
}
