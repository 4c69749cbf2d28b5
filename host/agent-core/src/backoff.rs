//! Pauses that grow while something keeps failing.

use std::time::Duration;

/// How long to wait after so many failures in a row beyond the first: `first`, doubled for each.
pub fn exponential(first: Duration, further: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(further))
}

/// Doubles from a first pause up to a last one.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    last: Duration,
    next: Duration,
}

impl Backoff {
    /// The first pause is `first`, and none is longer than `last`.
    pub fn new(first: Duration, last: Duration) -> Self {
        Self { first, last, next: first }
    }

    /// How long to pause this time.
    #[expect(
        clippy::should_implement_trait,
        reason = "pauses never end, so it would be no use as an iterator"
    )]
    pub fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = self.last.min(exponential(self.next, 1));
        pause
    }

    /// The attempt worked: the next pause is the first one again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit_until_something_works() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(100), ms(350));
        let pauses: Vec<_> = (0..4).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(pauses, [100, 200, 350, 350]);
        backoff.reset();
        assert_eq!(backoff.next(), ms(100));
        assert_eq!([0, 1, 5].map(|further| exponential(ms(100), further)), [ms(100), ms(200), ms(3200)]);
        assert_eq!(exponential(Duration::MAX, u32::MAX), Duration::MAX);
    }
}
