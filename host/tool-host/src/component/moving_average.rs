//! A moving mean of durations, kept without a lock.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How much of the difference a new sample makes up for: one part in this many.
const SHARE: i64 = 8;

/// An exponentially weighted mean, in microseconds; 0 until there is a sample.
#[derive(Debug, Default)]
pub(crate) struct MeanTime(AtomicU32);

impl MeanTime {
    /// Takes a sample. Of two at the same time one may be lost, which a mean can bear.
    pub(crate) fn add(&self, sample: Duration) {
        let sample = u32::try_from(sample.as_micros()).unwrap_or(u32::MAX).max(1);
        let mean = match self.0.load(Ordering::Relaxed) {
            0 => sample,
            mean => {
                let step = (i64::from(sample) - i64::from(mean)) / SHARE;
                u32::try_from(i64::from(mean) + step).unwrap_or(mean)
            }
        };
        self.0.store(mean, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_what_is_usual_and_not_what_was_once() {
        let mean = MeanTime::default();
        assert_eq!(mean.get(), Duration::ZERO);
        mean.add(Duration::from_millis(5));
        assert_eq!(mean.get(), Duration::from_millis(5), "the first one counts whole");
        for _ in 0..64 {
            mean.add(Duration::from_micros(100));
        }
        assert!(mean.get() < Duration::from_micros(120), "{:?}", mean.get());
        mean.add(Duration::from_millis(1));
        assert!(mean.get() < Duration::from_micros(300), "{:?}", mean.get());
    }
}
