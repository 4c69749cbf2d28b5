//! Exponential backoff: delays that double while something keeps failing. Jitter and limits on the number of attempts
//! are the caller's.

use std::time::Duration;

/// Delays that double from a first one up to a longest one.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    last: Duration,
    next: Duration,
}

impl Backoff {
    /// Begins with `first`; no delay is longer than `last`.
    pub fn new(first: Duration, last: Duration) -> Self {
        Self { first, last, next: first.min(last) }
    }

    /// How long to wait this time.
    #[allow(clippy::should_implement_trait, reason = "delays never end, so this is no iterator")]
    pub fn next(&mut self) -> Duration {
        let delay = self.next;
        self.next = self.last.min(delay.saturating_mul(2));
        delay
    }

    /// It worked: the next delay is the first one again.
    pub fn reset(&mut self) {
        self.next = self.first.min(self.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit_until_something_works() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(100), ms(350));
        let delays: Vec<_> = (0..4).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(delays, [100, 200, 350, 350]);
        backoff.reset();
        assert_eq!(backoff.next(), ms(100));
    }
}
