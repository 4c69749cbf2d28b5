//! When a webhook is looked at again: while its job runs, and after an attempt that the receiver did not
//! confirm.

use std::time::Duration;

/// After the attempt of that number, counted from 0. A receiver that is down for most of a day gets its
/// webhook.
const RETRIES: [Duration; 11] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(2),
    Duration::from_mins(5),
    Duration::from_mins(15),
    Duration::from_mins(30),
    Duration::from_hours(1),
    Duration::from_hours(2),
    Duration::from_hours(4),
    Duration::from_hours(6),
    Duration::from_hours(8),
];

/// Longest wait that a receiver may ask for: the longest that the schedule has itself.
const LONGEST_RETRY_AFTER: Duration = Duration::from_hours(8);

const FIRST_POLL: Duration = Duration::from_secs(1);
const LAST_POLL: Duration = Duration::from_secs(30);
const LAST_PARKED_POLL: Duration = Duration::from_mins(5);

/// When to try again after the attempt of that number; none when it was the last. `spread`, 0 to 1, keeps
/// many from coming back at once: up to a tenth is added.
pub(super) fn retry(tries: u32, retry_after: Option<Duration>, spread: f64) -> Option<Duration> {
    let wait = *RETRIES.get(tries as usize)?;
    let asked = retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER);
    Some(wait.max(asked).mul_f64(1.0 + spread.clamp(0.0, 1.0) / 10.0))
}

/// When to look again at a job that was submitted that long ago: after a tenth of its age, so that an end is
/// noticed soon and jobs that wait for long cost little.
pub(super) fn poll(age: Duration) -> Duration {
    (age / 10).clamp(FIRST_POLL, LAST_POLL)
}

/// When to look again at a job whose run waits for somebody: it may do so for weeks.
pub(super) fn poll_parked(age: Duration) -> Duration {
    poll(age).max((age / 10).min(LAST_PARKED_POLL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_go_on_for_most_of_a_day_and_end() {
        let all: Vec<_> = (0..).map_while(|tries| retry(tries, None, 0.0)).collect();
        assert_eq!(all.len(), 11);
        assert!(all.is_sorted() && all.iter().sum::<Duration>() > Duration::from_hours(20));
    }

    #[test]
    fn a_receiver_is_left_alone_for_as_long_as_it_asks_within_bounds() {
        assert_eq!(retry(0, Some(Duration::from_secs(60)), 0.0), Some(Duration::from_secs(60)));
        assert_eq!(retry(0, Some(Duration::from_secs(1)), 0.0), Some(Duration::from_secs(5)));
        assert_eq!(retry(0, Some(Duration::MAX), 0.0), Some(LONGEST_RETRY_AFTER));
        assert_eq!(retry(0, None, 1.0), Some(Duration::from_millis(5500)));
    }

    #[test]
    fn a_job_is_looked_at_after_a_tenth_of_its_age() {
        assert_eq!(poll(Duration::ZERO), FIRST_POLL);
        assert_eq!(poll(Duration::from_secs(100)), Duration::from_secs(10));
        assert_eq!(poll(Duration::from_hours(10)), LAST_POLL);
    }
}
