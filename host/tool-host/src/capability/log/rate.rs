//! Rate limit of a component's log lines, all its calls together: a token bucket.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Lines that may come at once: several calls that each write all they may.
const BURST: f64 = 1_000.0;

/// Lines a second after that.
const LINES_PER_SECOND: f64 = 50.0;

/// Shortest time between two lines that say how many were dropped.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A token bucket.
#[derive(Debug)]
pub(crate) struct LogRate(Mutex<Bucket>);

#[derive(Debug)]
struct Bucket {
    lines: f64,
    filled: Instant,
    dropped: u64,
    reported: Option<Instant>,
}

impl Default for LogRate {
    fn default() -> Self {
        let bucket = Bucket { lines: BURST, filled: Instant::now(), dropped: 0, reported: None };
        Self(Mutex::new(bucket))
    }
}

impl LogRate {
    /// Takes room for one line, if there is any.
    pub(crate) fn try_take(&self, now: Instant) -> bool {
        let mut bucket = self.0.lock();
        let since = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.lines = (bucket.lines + since * LINES_PER_SECOND).min(BURST);
        bucket.filled = now;
        let has_room = bucket.lines >= 1.0;
        if has_room {
            bucket.lines -= 1.0;
        }
        has_room
    }

    /// Counts lines that were dropped. Returns how many were since the last report when another report is
    /// due.
    pub(crate) fn dropped(&self, lines: u32, now: Instant) -> Option<u64> {
        let mut bucket = self.0.lock();
        bucket.dropped += u64::from(lines);
        if bucket.reported.is_some_and(|reported| now.saturating_duration_since(reported) < REPORT_INTERVAL) {
            return None;
        }
        bucket.reported = Some(now);
        Some(std::mem::take(&mut bucket.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_over_time_and_what_is_dropped_is_said_now_and_then() {
        let rate = LogRate::default();
        let start = Instant::now();
        let taken = (0..5_000).filter(|_| rate.try_take(start)).count();
        assert_eq!(taken, 1_000);
        let later = start + Duration::from_secs(2);
        assert_eq!((0..5_000).filter(|_| rate.try_take(later)).count(), 100);
        assert_eq!(rate.dropped(7, later), Some(7), "the first time at once");
        assert_eq!(rate.dropped(3, later), None);
        assert_eq!(rate.dropped(4, later + REPORT_INTERVAL), Some(7));
    }
}
