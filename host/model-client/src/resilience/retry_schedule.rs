//! When a failed call is retried: exponential backoff with full jitter, `Retry-After`, and the time that is
//! left. No clock, no sleep: those are [`super::retry`]'s.

use std::time::Duration;

use agent_core::backoff::Backoff;

/// How often a failed call is retried (host/docs/interface/errors-and-limits.md#limits).
pub const RETRIES: u32 = 3;

/// How often and how soon a failed call is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many times a call is made again after its first failure.
    pub retries: u32,
    /// The upper bound of the delay before the first retry; it doubles with each. Zero: no delays, for tests.
    pub first_delay: Duration,
    /// The upper bound of every delay that no provider asks for.
    pub longest_delay: Duration,
}

impl Default for RetryPolicy {
    /// [`RETRIES`], after at most 0.5, 1 and 2 s.
    fn default() -> Self {
        Self {
            retries: RETRIES,
            first_delay: Duration::from_millis(500),
            longest_delay: Duration::from_secs(8),
        }
    }
}

/// The delays between the attempts of one call.
#[derive(Debug)]
pub(super) struct Delays {
    retries_left: u32,
    backoff: Backoff,
    /// The range of the jitter beside a `Retry-After`.
    spread: Duration,
}

impl RetryPolicy {
    /// The delays of one call.
    pub(super) fn delays(&self) -> Delays {
        Delays {
            retries_left: self.retries,
            backoff: Backoff::new(self.first_delay, self.longest_delay),
            spread: self.first_delay.min(self.longest_delay),
        }
    }
}

impl Delays {
    /// How long to wait after one more failure; `None` when the call is not retried.
    ///
    /// Without a `retry_after` of the provider the delay is anywhere between zero and the bound (full
    /// jitter), so that callers that failed together do not come back together. A `retry_after` is honoured,
    /// with a little jitter on top for the same reason. A retry that could not begin within the time `left`
    /// is not waited for, because the caller would rather know now. `jitter` is from 0 to 1.
    pub(super) fn next(
        &mut self,
        retry_after: Option<Duration>,
        left: Duration,
        jitter: f64,
    ) -> Option<Duration> {
        self.retries_left = self.retries_left.checked_sub(1)?;
        let bound = self.backoff.next();
        let delay = match retry_after {
            Some(retry_after) => retry_after.saturating_add(self.spread.mul_f64(jitter)),
            None => bound.mul_f64(jitter),
        };
        (delay < left).then_some(delay)
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
    fn delays_double_up_to_the_longest_and_are_spread_from_zero() {
        let policy = RetryPolicy { retries: 99, ..RetryPolicy::default() };
        let (mut none, mut half, mut whole) = (policy.delays(), policy.delays(), policy.delays());
        for bound in [500, 1000, 2000, 4000, 8000, 8000].into_iter().chain([8000; 93]) {
            assert_eq!(none.next(None, LONG, 0.0), millis(0));
            assert_eq!(half.next(None, LONG, 0.5), millis(bound / 2));
            assert_eq!(whole.next(None, LONG, 1.0), millis(bound));
        }
        assert_eq!(whole.next(None, LONG, 1.0), None);
    }

    #[test]
    fn there_are_three_retries() {
        let mut delays = RetryPolicy::default().delays();
        let made: Vec<_> = (1..9).map(|_| delays.next(None, LONG, 0.5).is_some()).collect();
        assert_eq!(made, [true, true, true, false, false, false, false, false]);
    }

    #[test]
    fn a_retry_after_is_honoured_beyond_the_longest_delay() {
        let after_two = |retry_after, jitter| {
            let mut delays = RetryPolicy::default().delays();
            assert!((0..2).all(|_| delays.next(None, LONG, 0.5).is_some()));
            delays.next(millis(retry_after), LONG, jitter)
        };
        assert_eq!(after_two(0, 0.0), millis(0));
        assert_eq!(after_two(20_000, 0.0), millis(20_000));
        assert_eq!(after_two(20_000, 1.0), millis(20_500));
    }

    #[test]
    fn the_bound_grows_with_every_failure_whoever_chose_the_delay() {
        let mut delays = RetryPolicy::default().delays();
        let waited = [None, millis(7000), None].map(|retry_after| delays.next(retry_after, LONG, 1.0));
        assert_eq!(waited, [millis(500), millis(7500), millis(2000)]);
    }

    #[test]
    fn a_retry_that_would_begin_too_late_is_not_waited_for() {
        let first = |retry_after, left, jitter| {
            RetryPolicy::default().delays().next(retry_after, Duration::from_millis(left), jitter)
        };
        for (retry_after, left, expected) in [
            (millis(1000), 1001, millis(1000)),
            (millis(1000), 1000, None),
            (Some(Duration::MAX), 1000, None),
            (None, 0, None),
            (millis(0), 0, None),
        ] {
            assert_eq!(first(retry_after, left, 0.0), expected);
        }
        assert_eq!(first(None, 300, 0.9), None);
    }
}
