//! Times as clients read them: moments as JavaScript writes them, and whole seconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat};

/// `2026-11-21T12:00:00.000Z`: ISO 8601 in UTC with milliseconds. A moment that no calendar has, which only a
/// damaged store could hold, is the epoch.
pub(super) fn iso_8601(moment: SystemTime) -> String {
    write(match moment.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).ok(),
        Err(before) => i64::try_from(before.duration().as_millis()).ok().map(|before| -before),
    })
}

/// ISO 8601 of milliseconds since the epoch.
pub(super) fn iso_8601_of_millis(milliseconds: u64) -> String {
    write(i64::try_from(milliseconds).ok())
}

fn write(milliseconds: Option<i64>) -> String {
    let moment = milliseconds.and_then(DateTime::from_timestamp_millis).unwrap_or_default();
    moment.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Rounded up, so that nobody is told to come back before it helps.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_with_milliseconds_in_utc() {
        let after = |milliseconds| iso_8601(UNIX_EPOCH + Duration::from_millis(milliseconds));
        assert_eq!(after(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(after(1_795_262_400_000), "2026-11-21T12:00:00.000Z");
        assert_eq!(after(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        assert_eq!(iso_8601(UNIX_EPOCH - Duration::from_millis(1)), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn milliseconds_are_moments_as_well() {
        assert_eq!(iso_8601_of_millis(1_795_262_400_001), "2026-11-21T12:00:00.001Z");
        for beyond in [u64::MAX, i64::MAX as u64] {
            assert_eq!(iso_8601_of_millis(beyond), "1970-01-01T00:00:00.000Z");
        }
    }

    #[test]
    fn a_moment_beyond_all_calendars_is_no_panic() {
        let far = UNIX_EPOCH + Duration::from_secs(i64::MAX as u64 / 2);
        assert_eq!(iso_8601(far), "1970-01-01T00:00:00.000Z");
    }
}
