//! The wall clock and the randomness of a simulated process. Both belong to the thread: a simulation runs on
//! one, and other tests of the same program keep the real ones.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Where simulated time begins: some time in 2026.
const BEGINNING: Duration = Duration::from_secs(1_790_000_000);

thread_local! {
    static SIMULATED: RefCell<Option<Simulated>> = const { RefCell::new(None) };
}

struct Simulated {
    began: Instant,
    random: fastrand::Rng,
    /// How far the clock of whoever runs at this moment is ahead, in milliseconds.
    skew: i64,
}

/// The simulation of this thread, until it is dropped.
#[derive(Debug)]
pub struct SimulatedClock(());

impl SimulatedClock {
    /// From now on the wall clock of this thread follows tokio's, and `seed` decides what is random.
    pub fn begin(seed: u64) -> Self {
        let simulated = Simulated { began: Instant::now(), random: fastrand::Rng::with_seed(seed), skew: 0 };
        SIMULATED.set(Some(simulated));
        Self(())
    }
}

/// From now on the simulated process of this thread has a clock that is ahead by that, or behind.
pub fn set_skew(milliseconds: i64) {
    SIMULATED.with_borrow_mut(|simulated| {
        if let Some(simulated) = simulated {
            simulated.skew = milliseconds;
        }
    });
}

impl Drop for SimulatedClock {
    fn drop(&mut self) {
        SIMULATED.set(None);
    }
}

/// The time of the process that runs on this thread: simulated, or that of tokio's clock, which a
/// test may stop, as a date.
pub fn wall_clock() -> SystemTime {
    let Some((simulated, skew)) = simulated() else { return stoppable_clock() };
    let skewed = Duration::from_millis(skew.unsigned_abs());
    if skew < 0 { simulated - skewed } else { simulated + skewed }
}

/// What time it is for the stores, whose clock is not that of a process.
pub fn store_clock() -> SystemTime {
    simulated().map_or_else(stoppable_clock, |(simulated, _skew)| simulated)
}

fn stoppable_clock() -> SystemTime {
    // In a runtime whose clock is stopped its instants are ahead of the system's, or behind.
    let (tokio, system) = (Instant::now().into_std(), std::time::Instant::now());
    SystemTime::now() + tokio.saturating_duration_since(system) - system.saturating_duration_since(tokio)
}

/// The date of the simulation of this thread, and how far the clock of whoever runs is ahead.
fn simulated() -> Option<(SystemTime, i64)> {
    SIMULATED.with_borrow(|simulated| {
        let simulated = simulated.as_ref()?;
        Some((UNIX_EPOCH + BEGINNING + simulated.began.elapsed(), simulated.skew))
    })
}

/// Random bytes of the simulation of this thread, if there is one.
pub fn random_bytes() -> Option<[u8; 10]> {
    SIMULATED.with_borrow_mut(|simulated| {
        let random = &mut simulated.as_mut()?.random;
        let mut bytes = [0; 10];
        random.fill(&mut bytes);
        Some(bytes)
    })
}
