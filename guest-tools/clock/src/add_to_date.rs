//! The tool `add_to_date`.

use agent_tool_sdk::Failure;
use jiff::civil::{Date, Time, Weekday};
use jiff::{Span, Timestamp, Zoned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::moment::name_weekday;
use crate::when::{When, join_notes, place, read, read_zone};

/// What to add to what.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Addition {
    /// ISO 8601, today or now
    date: String,
    /// Such as -90 days or PT36H
    duration: String,
    time_zone: Option<String>,
}

/// Where that leads.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Sum {
    /// The date, or the date and time, and with an offset when `date` or `time_zone` told one.
    result: String,
    /// The day of the week of the result, in English.
    weekday: &'static str,
    /// Present when there was a choice, such as for the month after January 31: how it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Sum {
    fn new(result: &impl ToString, weekday: Weekday, note: Option<String>) -> Self {
        Self { result: result.to_string(), weekday: name_weekday(weekday), note }
    }
}

/// Adds a duration to a date.
pub(crate) fn add(addition: &Addition, now: Timestamp) -> Result<Sum, Failure> {
    let zone = read_zone(addition.time_zone.as_deref())?;
    let reading = read(&addition.date, zone.as_ref(), now)?;
    let span = read_span(&addition.duration)?;
    let too_far =
        |_| Failure::invalid_arguments("the result is beyond the years that are worked with, -9999 to 9999");
    let (when, note) = match (reading.when, zone) {
        // How long a day is depends on the zone, so hours count from its beginning there.
        (When::Date(date), Some(zone)) if !exact_part(&span).is_zero() => {
            let start = date.to_zoned(zone).map_err(too_far)?;
            (When::Instant(start), Some(format!("counted from the start of {date}")))
        }
        (when, _) => (when, reading.note),
    };
    match when {
        When::Date(date) if exact_part(&span).is_zero() => {
            let sum = date.checked_add(span).map_err(too_far)?;
            Ok(Sum::new(&sum, sum.weekday(), note_short_month(date, &span)))
        }
        When::Date(date) => {
            let sum = date.to_datetime(Time::midnight()).checked_add(span).map_err(too_far)?;
            let note = Some(format!("counted from midnight at the start of {date}"));
            Ok(Sum::new(&sum, sum.weekday(), join_notes(note, note_short_month(date, &span))))
        }
        When::Local(local) => {
            let sum = local.checked_add(span).map_err(too_far)?;
            Ok(Sum::new(&sum, sum.weekday(), note_short_month(local.date(), &span)))
        }
        When::Instant(instant) => {
            let sum = instant.checked_add(span).map_err(too_far)?;
            let note = join_notes(note, note_short_month(instant.date(), &span));
            let note = join_notes(note, note_clock_change(&instant, &span)?);
            let result = sum.timestamp().display_with_offset(sum.offset());
            Ok(Sum::new(&result, sum.weekday(), note))
        }
    }
}

fn read_span(duration: &str) -> Result<Span, Failure> {
    duration.trim().parse().map_err(|_| {
        Failure::invalid_arguments(format!(
            "`{duration}` is no duration: write for example `1 year 2 months 3 days`, `-90 minutes` or `P1Y2M3DT4H`"
        ))
    })
}

/// Says when a month was too short for the day.
fn note_short_month(date: Date, span: &Span) -> Option<String> {
    let months = Span::new().try_years(span.get_years()).ok()?.try_months(span.get_months()).ok()?;
    let landed = date.checked_add(months).ok()?;
    (landed.day() < date.day()).then(|| {
        format!("{:04}-{:02} has no day {}; its last day is taken", landed.year(), landed.month(), date.day())
    })
}

/// Says when the days of a duration led to a time of day that clocks skip or show twice.
fn note_clock_change(instant: &Zoned, span: &Span) -> Result<Option<String>, Failure> {
    let days = calendar_part(span);
    match instant.datetime().checked_add(days) {
        Ok(landed) if !days.is_zero() => Ok(place(landed, instant.time_zone())?.note),
        _ => Ok(None),
    }
}

/// The years, months, weeks and days of a duration.
fn calendar_part(span: &Span) -> Span {
    Span::new()
        .years(span.get_years())
        .months(span.get_months())
        .weeks(span.get_weeks())
        .days(span.get_days())
}

/// The hours and what is smaller.
fn exact_part(span: &Span) -> Span {
    span.years(0).months(0).weeks(0).days(0)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{Addition, Sum, add};

    fn try_to_add(date: &str, duration: &str, zone: Option<&str>) -> Result<Sum, String> {
        let addition = Addition {
            date: date.to_owned(),
            duration: duration.to_owned(),
            time_zone: zone.map(str::to_owned),
        };
        add(&addition, Timestamp::UNIX_EPOCH).map_err(|failure| failure.message)
    }

    #[test]
    fn durations_are_added() {
        let berlin = Some("Europe/Berlin");
        for (date, duration, zone, result, weekday) in [
            ("2026-07-14", "90 days", None, "2026-10-12", "Monday"),
            ("2026-07-14", "-3 weeks", None, "2026-06-23", "Tuesday"),
            ("2026-07-14", "P1Y2M3D", None, "2027-09-17", "Friday"),
            ("2024-02-29", "4 years", None, "2028-02-29", "Tuesday"),
            ("2026-07-14T09:30", "36h", None, "2026-07-15T21:30:00", "Wednesday"),
            ("2026-03-28T10:00", "1 day", berlin, "2026-03-29T10:00:00+02:00", "Sunday"),
            ("2026-03-28T10:00", "24 hours", berlin, "2026-03-29T11:00:00+02:00", "Sunday"),
            ("2026-03-28T10:00+01:00", "24 hours", berlin, "2026-03-29T11:00:00+02:00", "Sunday"),
            ("2026-03-28T10:00+01:00", "1 day", None, "2026-03-29T10:00:00+01:00", "Sunday"),
            ("now", "1 month 12 hours", None, "1970-02-01T12:00:00+00:00", "Sunday"),
        ] {
            let sum = try_to_add(date, duration, zone).unwrap();
            assert_eq!(
                (sum.result.as_str(), sum.weekday, sum.note),
                (result, weekday, None),
                "{date} + {duration}"
            );
        }
    }

    #[test]
    fn choices_are_said() {
        for (date, duration, zone, result, note) in [
            ("2026-01-31", "1 month", None, "2026-02-28", "2026-02 has no day 31; its last day is taken"),
            ("2024-02-29", "1 year", None, "2025-02-28", "2025-02 has no day 29; its last day is taken"),
            (
                "2026-07-14",
                "5 hours",
                None,
                "2026-07-14T05:00:00",
                "counted from midnight at the start of 2026-07-14",
            ),
            (
                "2026-03-29",
                "5 hours",
                Some("Europe/Berlin"),
                "2026-03-29T06:00:00+02:00",
                "counted from the start of 2026-03-29",
            ),
            (
                "2026-03-28T02:30",
                "1 day",
                Some("Europe/Berlin"),
                "2026-03-29T03:30:00+02:00",
                "2026-03-29T02:30:00 does not exist in Europe/Berlin, where clocks go forward then, from UTC+01 to \
                 UTC+02; taken as 2026-03-29T03:30:00",
            ),
        ] {
            let sum = try_to_add(date, duration, zone).unwrap();
            assert_eq!(
                (sum.result.as_str(), sum.note.as_deref()),
                (result, Some(note)),
                "{date} + {duration}"
            );
        }
    }

    #[test]
    fn what_is_no_duration_or_goes_too_far_is_refused() {
        for duration in ["", "soon", "3", "3 fortnights", "P", "1 month 1 year"] {
            let refusal = try_to_add("2026-07-14", duration, None).unwrap_err();
            assert!(refusal.contains("is no duration"), "{duration}: {refusal}");
        }
        for (date, duration) in
            [("2026-07-14", "9000 years"), ("now", "9000 years"), ("2026-07-14T00:00", "-12026y")]
        {
            let refusal = try_to_add(date, duration, None).unwrap_err();
            assert!(refusal.contains("beyond the years"), "{date} + {duration}: {refusal}");
        }
    }
}
