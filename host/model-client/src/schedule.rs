//! When to ask again: a pure function of how often it failed, what the provider asks for, how much time is
//! left, and a random number.

use std::time::Duration;

/// How often and how soon a call is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// How many times a call is made again after its first failure.
    pub retries: u32,
    /// The longest wait before the first retry; it doubles with each. Zero: no waits, for tests.
    pub base: Duration,
    /// No wait of our own choice is longer.
    pub cap: Duration,
}

impl Default for Schedule {
    /// 3 retries (interface, Limits, "Model call"), within 0.5, 1 and 2 s.
    fn default() -> Self {
        Self { retries: 3, base: Duration::from_millis(500), cap: Duration::from_secs(8) }
    }
}

impl Schedule {
    /// How long to wait after the call has failed `failures` times; nothing when it is not made again.
    ///
    /// Without a wish of the provider the wait is anywhere below the bound (full jitter), so that callers
    /// that failed together do not come back together. A wish is obeyed, with a little jitter on top for
    /// the same reason. A retry that could not even start within the time `left` is none: whoever waits
    /// would rather know now. `jitter` is in 0..1.
    pub fn wait(
        &self,
        failures: u32,
        retry_after: Option<Duration>,
        left: Duration,
        jitter: f64,
    ) -> Option<Duration> {
        if failures > self.retries {
            return None;
        }
        let wait = match retry_after {
            Some(wish) => wish.saturating_add(self.bound(1).mul_f64(jitter)),
            None => self.bound(failures).mul_f64(jitter),
        };
        (wait < left).then_some(wait)
    }

    /// The longest wait of our own choice after that many failures, counted from 1.
    fn bound(&self, failures: u32) -> Duration {
        let doublings = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.base.saturating_mul(doublings).min(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn millis(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }

    #[test]
    fn waits_double_up_to_the_cap_and_are_spread_from_zero() {
        let schedule = Schedule { retries: 99, ..Schedule::default() };
        for (failures, bound) in [(1, 500), (2, 1000), (3, 2000), (4, 4000), (5, 8000), (6, 8000), (99, 8000)]
        {
            assert_eq!(schedule.wait(failures, None, LONG, 0.0), millis(0));
            assert_eq!(schedule.wait(failures, None, LONG, 0.5), millis(bound / 2));
            assert_eq!(schedule.wait(failures, None, LONG, 1.0), millis(bound));
        }
    }

    #[test]
    fn there_are_three_retries() {
        let schedule = Schedule::default();
        let made = (1..9).filter(|failures| schedule.wait(*failures, None, LONG, 0.5).is_some());
        assert_eq!(made.collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn the_providers_wish_is_obeyed_beyond_the_cap() {
        let wait = |wish, jitter| Schedule::default().wait(3, millis(wish), LONG, jitter);
        assert_eq!(wait(0, 0.0), millis(0));
        assert_eq!(wait(20_000, 0.0), millis(20_000));
        assert_eq!(wait(20_000, 1.0), millis(20_500));
    }

    #[test]
    fn nothing_is_waited_for_that_starts_too_late() {
        let schedule = Schedule::default();
        for (wish, left, expected) in [
            (millis(1000), 1001, millis(1000)),
            (millis(1000), 1000, None),
            (Some(Duration::MAX), 1000, None),
            (None, 0, None),
            (millis(0), 0, None),
        ] {
            assert_eq!(schedule.wait(1, wish, Duration::from_millis(left), 0.0), expected);
        }
        assert_eq!(schedule.wait(1, None, Duration::from_millis(300), 0.9), None);
    }
}
