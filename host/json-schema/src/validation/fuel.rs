//! The budget of one piece of host work that a guest caused: steps, and the time at which it has to end.

use std::time::Instant;

/// Steps of a check that runs where the call was asked for: at most a few hundred microseconds.
const INLINE_STEPS: u64 = 32_000;

/// Steps of a check on the threads for such work: a fraction of a second. A megabyte of numbers against a
/// schema of a few keywords takes two million.
const OFFLOADED_STEPS: u64 = 20_000_000;

/// Steps between two looks at the clock: some milliseconds.
const CLOCK_STEPS: u64 = 200_000;

/// The budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

/// Steps that are left. One step is the work of some nanoseconds.
#[derive(Debug)]
pub struct Fuel {
    /// Steps until the clock is looked at again.
    window: u64,
    /// Steps after those.
    rest: u64,
    deadline: Option<Instant>,
}

impl Fuel {
    /// For a check on the thread that serves: so few steps that no clock is needed.
    pub fn inline() -> Self {
        Self { window: INLINE_STEPS, rest: 0, deadline: None }
    }

    /// For a check on the threads for such work, which ends at `deadline` at the latest.
    pub fn until(deadline: Instant) -> Self {
        Self { window: 0, rest: OFFLOADED_STEPS, deadline: Some(deadline) }
    }

    /// Whether the check runs beside the threads that serve.
    pub fn is_offloaded(&self) -> bool {
        self.deadline.is_some()
    }

    /// Pays for work that is about to be done.
    #[inline]
    pub fn spend(&mut self, steps: u64) -> Result<(), Exhausted> {
        if let Some(left) = self.window.checked_sub(steps) {
            self.window = left;
            return Ok(());
        }
        self.spend_over_window(steps)
    }

    #[cold]
    fn spend_over_window(&mut self, steps: u64) -> Result<(), Exhausted> {
        let left = (self.window + self.rest).checked_sub(steps);
        let in_time = self.deadline.is_none_or(|deadline| Instant::now() < deadline);
        // What is exhausted stays exhausted.
        let left = left.filter(|_| in_time).unwrap_or(0);
        self.window = left.min(CLOCK_STEPS);
        self.rest = left - self.window;
        if left == 0 { Err(Exhausted) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn steps_are_counted_over_all_windows_and_never_come_back() {
        let mut fuel = Fuel::until(Instant::now() + Duration::from_secs(600));
        for _ in 0..19 {
            assert_eq!(fuel.spend(1_000_000), Ok(()));
        }
        assert_eq!(fuel.spend(1_000_001), Err(Exhausted));
        assert_eq!(fuel.spend(1), Err(Exhausted));
        assert_eq!(Fuel::inline().spend(u64::MAX), Err(Exhausted));
    }

    #[test]
    fn the_deadline_ends_work_that_has_steps_left() {
        let mut fuel = Fuel::until(Instant::now());
        assert_eq!(fuel.spend(1), Err(Exhausted));
    }
}
