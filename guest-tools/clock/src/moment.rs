//! An instant, told in a time zone.

use jiff::Zoned;
use jiff::civil::Weekday;
use schemars::JsonSchema;
use serde::Serialize;

use crate::zone;

/// An instant and how it reads on a clock and a calendar.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Moment {
    /// Date, time and offset from UTC (RFC 3339): `2026-07-14T09:30:00+02:00`.
    pub(crate) time: String,
    /// The time zone it is told in.
    pub(crate) time_zone: String,
    /// The day of the week, in English.
    pub(crate) weekday: &'static str,
    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub(crate) unix_seconds: i64,
}

impl Moment {
    /// Tells an instant in its zone.
    pub(crate) fn of(instant: &Zoned) -> Self {
        Self {
            time: instant.timestamp().display_with_offset(instant.offset()).to_string(),
            time_zone: zone::name_of(instant.time_zone()),
            weekday: name_weekday(instant.weekday()),
            unix_seconds: instant.timestamp().as_second(),
        }
    }
}

/// The day's name in English.
pub(crate) fn name_weekday(weekday: Weekday) -> &'static str {
    match weekday {
        Weekday::Monday => "Monday",
        Weekday::Tuesday => "Tuesday",
        Weekday::Wednesday => "Wednesday",
        Weekday::Thursday => "Thursday",
        Weekday::Friday => "Friday",
        Weekday::Saturday => "Saturday",
        Weekday::Sunday => "Sunday",
    }
}
