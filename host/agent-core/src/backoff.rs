//! Pauses that grow while something keeps failing.

use std::time::Duration;

/// Doubles from a first pause up to a last one.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    last: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, last: Duration) -> Self {
        Self { first, last, next: first }
    }

    /// How long to pause this time.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = self.last.min(self.next * 2);
        pause
    }

    /// It worked: the next pause is the first one again.
    pub(crate) fn reset(&mut self) {
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
    }
}
