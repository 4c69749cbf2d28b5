//! The tool `date_difference`.

use agent_tool_sdk::Failure;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::when::{Reading, When, join_notes, place, read, read_zone};

/// What to measure.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Difference {
    /// ISO 8601, today or now
    from: String,
    to: String,
    #[serde(default)]
    unit: Unit,
    time_zone: Option<String>,
}

// The units to measure in. No doc comment: it would stand in every model call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Unit {
    Years,
    Months,
    Weeks,
    #[default]
    Days,
    Hours,
    Minutes,
    Seconds,
}

/// How far it is.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Distance {
    /// The unit measured in.
    unit: Unit,
    /// The difference in that unit, with a fraction.
    total: f64,
    /// The whole units in it.
    whole: i64,
    /// What is left after the whole units, as an ISO 8601 duration: `P3DT4H` is 3 days and 4 hours, `PT0S`
    /// nothing.
    rest: String,
    /// Present when a time given does not exist or comes twice, because clocks change then: how it was
    /// understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Measures a difference.
pub(crate) fn measure(difference: &Difference, now: Timestamp) -> Result<Distance, Failure> {
    let zone = read_zone(difference.time_zone.as_deref())?;
    let from = read(&difference.from, zone.as_ref(), now)?;
    let to = read(&difference.to, zone.as_ref(), now)?;
    let unit = difference.unit;
    let ((whole, rest), total, note) = match common_zone(zone, &from.when, &to.when, unit) {
        Some(zone) => {
            let ((from, from_note), (to, to_note)) = (place_in(from, &zone)?, place_in(to, &zone)?);
            let span = from.until((unit.of_jiff(), &to)).map_err(refuse)?;
            let parts = unit.divide(span, |step| from.checked_add(step)?.until((unit.of_jiff(), &to)));
            (parts, span.total((unit.of_jiff(), &from)).map_err(refuse)?, join_notes(from_note, to_note))
        }
        None => {
            let (from, to) = (local_time(&from.when), local_time(&to.when));
            let span = from.until((unit.of_jiff(), to)).map_err(refuse)?;
            let parts = unit.divide(span, |step| from.checked_add(step)?.until((unit.of_jiff(), to)));
            (parts, span.total((unit.of_jiff(), from)).map_err(refuse)?, None)
        }
    };
    Ok(Distance { unit, total, whole, rest: rest.to_string(), note })
}

/// The zone to calculate in: the one asked for, or else that of one of the two. There is none if both are
/// dates, or times without an offset; those are as many days apart anywhere. How many hours a day has depends
/// on the zone asked for.
fn common_zone(asked: Option<TimeZone>, from: &When, to: &When, unit: Unit) -> Option<TimeZone> {
    let zone_of = |when: &When| match when {
        When::Instant(instant) => Some(instant.time_zone().clone()),
        When::Local(_) | When::Date(_) => None,
    };
    let of_both = zone_of(from).or_else(|| zone_of(to));
    let is_exact = matches!(unit, Unit::Hours | Unit::Minutes | Unit::Seconds);
    if of_both.is_some() || is_exact { asked.or(of_both) } else { None }
}

/// The instant of a reading in a zone; of a day it is the start.
fn place_in(reading: Reading, zone: &TimeZone) -> Result<(Zoned, Option<String>), Failure> {
    let (instant, note) = match reading.when {
        When::Instant(instant) => (instant.with_time_zone(zone.clone()), reading.note),
        When::Date(date) => (date.to_zoned(zone.clone()).map_err(refuse)?, None),
        When::Local(local) => {
            let placed = place(local, zone)?;
            let When::Instant(instant) = placed.when else { return Err(refuse("not in any zone")) };
            (instant, placed.note)
        }
    };
    Ok((instant, note))
}

fn local_time(when: &When) -> DateTime {
    match when {
        When::Date(date) => date.to_datetime(Time::midnight()),
        When::Local(local) => *local,
        When::Instant(instant) => instant.datetime(),
    }
}

fn refuse(problem: impl std::fmt::Display) -> Failure {
    Failure::invalid_arguments(format!("the difference cannot be measured: {problem}"))
}

impl Unit {
    fn of_jiff(self) -> jiff::Unit {
        match self {
            Self::Years => jiff::Unit::Year,
            Self::Months => jiff::Unit::Month,
            Self::Weeks => jiff::Unit::Week,
            Self::Days => jiff::Unit::Day,
            Self::Hours => jiff::Unit::Hour,
            Self::Minutes => jiff::Unit::Minute,
            Self::Seconds => jiff::Unit::Second,
        }
    }

    /// The whole units of a span that has none larger, and the rest. `left_after` tells what of it is left
    /// after a step from its start.
    ///
    /// A month after January 31 is the last of February, for [`Span::total`] and for `add_to_date`, but the
    /// span to that day has days only. So one unit more counts if it does not lead beyond the end.
    fn divide(self, span: Span, left_after: impl Fn(Span) -> Result<Span, jiff::Error>) -> (i64, Span) {
        let (whole, rest) = self.split(&span);
        let next = whole + i64::from(span.signum());
        match self.span(next).and_then(left_after) {
            Ok(left) if left.signum() * span.signum() >= 0 => (next, left),
            // An error is of a step beyond the years that there are.
            Ok(_) | Err(_) => (whole, rest),
        }
    }

    fn span(self, count: i64) -> Result<Span, jiff::Error> {
        let none = Span::new();
        match self {
            Self::Years => none.try_years(count),
            Self::Months => none.try_months(count),
            Self::Weeks => none.try_weeks(count),
            Self::Days => none.try_days(count),
            Self::Hours => none.try_hours(count),
            Self::Minutes => none.try_minutes(count),
            Self::Seconds => none.try_seconds(count),
        }
    }

    /// Takes a span apart that has no larger units.
    fn split(self, span: &Span) -> (i64, Span) {
        match self {
            Self::Years => (span.get_years().into(), span.years(0)),
            Self::Months => (span.get_months().into(), span.months(0)),
            Self::Weeks => (span.get_weeks().into(), span.weeks(0)),
            Self::Days => (span.get_days().into(), span.days(0)),
            Self::Hours => (span.get_hours().into(), span.hours(0)),
            Self::Minutes => (span.get_minutes(), span.minutes(0)),
            Self::Seconds => (span.get_seconds(), span.seconds(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{Difference, Distance, Unit, measure};

    fn distance(from: &str, to: &str, unit: Unit, zone: Option<&str>) -> Distance {
        let difference =
            Difference { from: from.to_owned(), to: to.to_owned(), unit, time_zone: zone.map(str::to_owned) };
        measure(&difference, Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn differences_are_measured() {
        let berlin = Some("Europe/Berlin");
        for (from, to, unit, zone, total, whole, rest) in [
            ("2026-07-14", "2026-07-15", Unit::Days, None, 1.0, 1, "PT0S"),
            ("2026-07-14", "2026-12-25", Unit::Days, None, 164.0, 164, "PT0S"),
            ("2026-07-14", "2026-07-01", Unit::Days, None, -13.0, -13, "PT0S"),
            ("1990-05-17", "2026-07-14", Unit::Years, None, 36.0 + 58.0 / 365.0, 36, "P1M27D"),
            ("2026-01-31", "2026-03-01", Unit::Months, None, 1.0 + 1.0 / 31.0, 1, "P1D"),
            ("2024-01-31", "2024-02-29", Unit::Months, None, 1.0, 1, "PT0S"),
            ("2024-01-30", "2024-02-28", Unit::Months, None, 29.0 / 30.0, 0, "P29D"),
            ("2024-01-31", "2024-03-30", Unit::Months, None, 1.0 + 30.0 / 31.0, 1, "P30D"),
            ("2024-03-31", "2024-02-29", Unit::Months, None, -1.0, -1, "PT0S"),
            ("2024-02-29", "2025-02-28", Unit::Years, None, 1.0, 1, "PT0S"),
            ("2024-01-31T00:00", "2024-02-29T12:00", Unit::Months, None, 29.5 / 29.0, 1, "PT12H"),
            ("2024-01-31T00:00", "2024-02-29T00:00+01:00", Unit::Months, berlin, 1.0, 1, "PT0S"),
            ("2026-07-14T09:00", "2026-07-15T21:00", Unit::Days, None, 1.5, 1, "PT12H"),
            ("2026-03-28T12:00", "2026-03-29T12:00", Unit::Hours, None, 24.0, 24, "PT0S"),
            ("2026-03-28T12:00", "2026-03-29T12:00", Unit::Hours, berlin, 23.0, 23, "PT0S"),
            ("2026-03-28T12:00", "2026-03-29T12:00", Unit::Days, berlin, 1.0, 1, "PT0S"),
            ("2026-03-29", "2026-03-30", Unit::Hours, berlin, 23.0, 23, "PT0S"),
            ("2026-03-29", "2026-03-30", Unit::Days, berlin, 1.0, 1, "PT0S"),
            ("2026-07-14T09:00+02:00", "2026-07-14T09:00Z", Unit::Minutes, None, 120.0, 120, "PT0S"),
            ("now", "1970-01-15", Unit::Weeks, None, 2.0, 2, "PT0S"),
            ("2026-07-14", "2026-07-14", Unit::Seconds, None, 0.0, 0, "PT0S"),
        ] {
            let found = distance(from, to, unit, zone);
            let expected = Distance { unit, total, whole, rest: rest.to_owned(), note: None };
            assert!((found.total - total).abs() < 1e-9, "{from} to {to}: {found:?}");
            assert_eq!(Distance { total, ..found }, expected, "{from} to {to}");
        }
    }

    #[test]
    fn a_time_that_comes_twice_is_said_to() {
        let found = distance("2026-10-25T02:30", "2026-10-25T12:00", Unit::Hours, Some("Europe/Berlin"));
        assert_eq!(found.total, 10.5);
        assert!(found.note.unwrap().contains("comes twice"));
    }
}
