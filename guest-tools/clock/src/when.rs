//! Dates and times as they are given: with a zone, without one, or without a time of day.

use agent_tool_sdk::Failure;
use jiff::civil::{Date, DateTime};
use jiff::fmt::temporal::{DateTimeParser, Pieces};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};

use crate::zone;

/// A date or time, as definite as it was given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum When {
    /// A day on the calendar, anywhere.
    Date(Date),
    /// A day and a time of day, anywhere.
    Local(DateTime),
    /// An instant, with the zone to tell it and calculate in.
    Instant(Zoned),
}

/// What was read, and what the reader of the answer should know of how it was understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) when: When,
    pub(crate) note: Option<String>,
}

/// Reads `now`, `today`, `@` and Unix seconds, or ISO 8601: a date, a date and time, and an offset or a zone
/// in brackets if there is one. `zone` is that of times without one, and that in which times with an offset
/// are told.
pub(crate) fn read(text: &str, zone: Option<&TimeZone>, now: Timestamp) -> Result<Reading, Failure> {
    let text = text.trim();
    let instant = |instant: Timestamp| {
        let zone = zone.cloned().unwrap_or(TimeZone::UTC);
        Ok(Reading { when: When::Instant(instant.to_zoned(zone)), note: None })
    };
    if text.eq_ignore_ascii_case("now") {
        return instant(now);
    }
    if text.eq_ignore_ascii_case("today") {
        let today = now.to_zoned(zone.cloned().unwrap_or(TimeZone::UTC)).date();
        return Ok(Reading { when: When::Date(today), note: None });
    }
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds = seconds.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        return instant(seconds.ok_or_else(|| refuse(text))?);
    }
    let pieces = Pieces::parse(text).map_err(|_| refuse(text))?;
    if let Some(annotation) = pieces.time_zone_annotation() {
        let zones = TimeZoneDatabase::bundled();
        let own = annotation.to_time_zone_with(&zones).map_err(|_| {
            Failure::invalid_arguments(format!(
                "there is no time zone such as stands in brackets in `{text}`"
            ))
        })?;
        if pieces.to_numeric_offset().is_none() {
            let time = pieces.time().unwrap_or_default();
            return place(DateTime::from_parts(pieces.date(), time), &own);
        }
        let instant = DateTimeParser::new().parse_zoned_with(&zones, text).map_err(|problem| {
            Failure::invalid_arguments(format!("`{text}` contradicts itself: {problem}"))
        })?;
        return Ok(Reading { when: When::Instant(instant), note: None });
    }
    match (pieces.time(), pieces.to_numeric_offset(), zone) {
        (None, None, _) => Ok(Reading { when: When::Date(pieces.date()), note: None }),
        (time, Some(offset), zone) => {
            let local = DateTime::from_parts(pieces.date(), time.unwrap_or_default());
            let instant = offset.to_timestamp(local).map_err(|_| refuse(text))?;
            let zone = zone.cloned().unwrap_or_else(|| TimeZone::fixed(offset));
            Ok(Reading { when: When::Instant(instant.to_zoned(zone)), note: None })
        }
        (Some(time), None, Some(zone)) => place(DateTime::from_parts(pieces.date(), time), zone),
        (Some(time), None, None) => {
            Ok(Reading { when: When::Local(DateTime::from_parts(pieces.date(), time)), note: None })
        }
    }
}

/// Finds the instant of a local time, which when clocks change may be missing or come twice.
pub(crate) fn place(local: DateTime, zone: &TimeZone) -> Result<Reading, Failure> {
    let ambiguous = zone.to_ambiguous_zoned(local);
    let offset = ambiguous.offset();
    let instant = ambiguous.compatible().map_err(|_| refuse(&local.to_string()))?;
    let zone = zone::name_of(zone);
    let note = match offset {
        AmbiguousOffset::Unambiguous { .. } => None,
        AmbiguousOffset::Gap { before, after } => Some(format!(
            "{local} does not exist in {zone}, where clocks go forward then, from UTC{before} to UTC{after}; taken as \
             {}",
            instant.datetime()
        )),
        AmbiguousOffset::Fold { before, after } => Some(format!(
            "{local} comes twice in {zone}, where clocks go back then; taken as the first, at UTC{before}, and for the \
             second write the offset {after}"
        )),
    };
    Ok(Reading { when: When::Instant(instant), note })
}

/// Reads a zone, if one is given.
pub(crate) fn read_zone(name: Option<&str>) -> Result<Option<TimeZone>, Failure> {
    name.map(zone::find).transpose()
}

fn refuse(text: &str) -> Failure {
    Failure::invalid_arguments(format!(
        "`{text}` is no date or time here: write 2026-07-14, 2026-07-14T09:30, 2026-07-14T09:30+02:00, \
         2026-07-14T09:30[Europe/Berlin], @ and Unix seconds, now, or today; years up to 9999"
    ))
}

/// Both notes, if there are two.
pub(crate) fn join_notes(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}. {other}")),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::{When, place, read, read_zone};

    fn describe(text: &str, zone: Option<&str>) -> (String, Option<String>) {
        let zone = read_zone(zone).unwrap();
        let reading = read(text, zone.as_ref(), Timestamp::UNIX_EPOCH).unwrap();
        let when = match reading.when {
            When::Date(date) => format!("date {date}"),
            When::Local(local) => format!("local {local}"),
            When::Instant(instant) => format!("instant {instant}"),
        };
        (when, reading.note)
    }

    #[test]
    fn times_are_as_definite_as_they_are_given() {
        let berlin = Some("Europe/Berlin");
        for (text, zone, when) in [
            ("2026-07-14", None, "date 2026-07-14"),
            ("2026-07-14", berlin, "date 2026-07-14"),
            ("2026-07-14T09:30", None, "local 2026-07-14T09:30:00"),
            ("2026-07-14 09:30", berlin, "instant 2026-07-14T09:30:00+02:00[Europe/Berlin]"),
            ("2026-07-14T09:30Z", None, "instant 2026-07-14T09:30:00+00:00[UTC]"),
            ("2026-07-14T09:30+02:00", None, "instant 2026-07-14T09:30:00+02:00[+02:00]"),
            ("2026-07-14T09:30Z", berlin, "instant 2026-07-14T11:30:00+02:00[Europe/Berlin]"),
            ("2026-07-14T09:30[Asia/Tokyo]", berlin, "instant 2026-07-14T09:30:00+09:00[Asia/Tokyo]"),
            ("today", Some("Asia/Tokyo"), "date 1970-01-01"),
            ("today", Some("America/New_York"), "date 1969-12-31"),
            ("now", None, "instant 1970-01-01T00:00:00+00:00[UTC]"),
            ("@1000000000", berlin, "instant 2001-09-09T03:46:40+02:00[Europe/Berlin]"),
        ] {
            assert_eq!(describe(text, zone), (when.to_owned(), None), "{text}");
        }
    }

    #[test]
    fn a_time_that_is_missing_or_comes_twice_is_said_to() {
        let (when, note) = describe("2026-03-29T02:30", Some("Europe/Berlin"));
        assert_eq!(when, "instant 2026-03-29T03:30:00+02:00[Europe/Berlin]");
        assert_eq!(
            note.as_deref(),
            Some(
                "2026-03-29T02:30:00 does not exist in Europe/Berlin, where clocks go forward then, from UTC+01 to \
                 UTC+02; taken as 2026-03-29T03:30:00"
            )
        );
        let (when, note) = describe("2026-10-25T02:30", Some("Europe/Berlin"));
        assert_eq!(when, "instant 2026-10-25T02:30:00+02:00[Europe/Berlin]");
        assert_eq!(
            note.as_deref(),
            Some(
                "2026-10-25T02:30:00 comes twice in Europe/Berlin, where clocks go back then; taken as the first, at \
                 UTC+02, and for the second write the offset +01"
            )
        );
        for time in ["2026-03-29T02:30", "2026-10-25T02:30"] {
            let in_brackets = describe(&format!("{time}[Europe/Berlin]"), Some("Asia/Tokyo"));
            assert_eq!(in_brackets, describe(time, Some("Europe/Berlin")), "{time}");
        }
        let second = describe("2026-10-25T02:30+01:00[Europe/Berlin]", None);
        assert_eq!(second, ("instant 2026-10-25T02:30:00+01:00[Europe/Berlin]".to_owned(), None));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["", "tomorrow", "2026-02-30", "14.07.2026", "2026-13-01", "@x", "@99999999999999", "12:30", "-1"]
        {
            let failure = read(text, None, Timestamp::UNIX_EPOCH).unwrap_err();
            assert!(failure.message.contains("is no date or time here"), "{text}: {}", failure.message);
        }
        for (text, message) in [
            ("2026-07-14T09:30[Europe/Nowhere]", "there is no time zone such as stands in brackets"),
            ("2026-07-14T09:30+05:00[Europe/Berlin]", "contradicts itself"),
        ] {
            let failure = read(text, None, Timestamp::UNIX_EPOCH).unwrap_err();
            assert!(failure.message.contains(message), "{text}: {}", failure.message);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_panics(text in "[-+0-9TZ:.@\\[\\]/ a-z]{0,30}") {
            let _ = read(&text, None, Timestamp::UNIX_EPOCH);
        }

        #[test]
        fn every_time_of_day_has_an_instant(days in -3_000_000_i64..2_000_000, seconds in 0_i64..86_400) {
            let zone = read_zone(Some("America/New_York")).unwrap().unwrap();
            let instant = Timestamp::from_second(days * 86_400 + seconds).unwrap();
            let local = instant.to_zoned(jiff::tz::TimeZone::UTC).datetime();
            prop_assert!(place(local, &zone).is_ok());
        }
    }
}
