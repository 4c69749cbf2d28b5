//! When something that failed is tried again: the one schedule for new versions and for last good ones.

use std::time::{Duration, Instant};

use crate::error::{FailureClass, LoadError};

/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How often a compiler is started for a file that it was killed over: a busy machine may be at fault, or the
/// file.
const MOST_AMBIGUOUS: u32 = 3;

/// The failures of one load in a row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Retry {
    failures: u32,
    due: Option<Instant>,
}

impl Retry {
    /// Counts a failure at `now`. Says whether there will be another attempt.
    pub(super) fn record_failure(&mut self, error: &LoadError, now: Instant) -> bool {
        self.failures = self.failures.saturating_add(1);
        let again = match error.class() {
            FailureClass::Permanent => false,
            FailureClass::Ambiguous => self.failures < MOST_AMBIGUOUS,
            FailureClass::Transient => true,
        };
        let doublings = (self.failures - 1).min(10);
        let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
        self.due = again.then(|| now + pause);
        again
    }

    /// When the next attempt is due, if there is one.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Whether nothing failed, or another attempt is due.
    pub(super) fn may_try(&self, now: Instant) -> bool {
        self.failures == 0 || self.is_due(now)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Pauses in seconds until there is no other attempt, ten at most.
    fn pauses(error: &LoadError) -> Vec<u64> {
        let (mut retry, mut now, mut pauses) = (Retry::default(), Instant::now(), vec![]);
        assert!(retry.may_try(now) && !retry.is_due(now));
        while pauses.len() < 10 && retry.record_failure(error, now) {
            let due = retry.due.unwrap();
            assert!(!retry.may_try(due - Duration::from_nanos(1)) && retry.may_try(due));
            pauses.push((due - now).as_secs());
            now = due;
        }
        pauses
    }

    #[test]
    fn what_fails_is_tried_again_as_often_as_that_may_help() {
        assert_eq!(pauses(&LoadError::Compile("bad".into())), [0; 0]);
        assert_eq!(pauses(&LoadError::CompilerKilled("too slow".into())), [1, 2]);
        let forgotten = |kind: io::ErrorKind| LoadError::Forgotten(kind.into());
        assert_eq!(pauses(&forgotten(io::ErrorKind::NotFound)), [0; 0]);
        for passing in [LoadError::CompilerUnavailable("no space".into()), forgotten(io::ErrorKind::TimedOut)]
        {
            assert_eq!(pauses(&passing), [1, 2, 4, 8, 16, 32, 60, 60, 60, 60], "{passing}");
        }
    }
}
