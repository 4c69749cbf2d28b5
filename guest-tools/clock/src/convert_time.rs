//! The tool `convert_time`.

use agent_tool_sdk::Failure;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::moment::Moment;
use crate::when::{When, read, read_zone};
use crate::zone;

/// What to convert.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Conversion {
    /// ISO 8601, or now
    time: String,
    /// If time has no offset
    from_time_zone: Option<String>,
    to_time_zone: String,
}

/// One instant in both zones.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Converted {
    /// The time as it was given.
    from: Moment,
    /// The time in the zone asked for.
    to: Moment,
    /// Present when the time given does not exist or comes twice, because clocks change then: how it was
    /// understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Converts a time.
pub(crate) fn convert(conversion: &Conversion, now: Timestamp) -> Result<Converted, Failure> {
    let from = read_zone(conversion.from_time_zone.as_deref())?;
    let to = zone::find(&conversion.to_time_zone)?;
    let reading = read(&conversion.time, from.as_ref(), now)?;
    let missing = match reading.when {
        When::Instant(instant) => {
            let converted = instant.with_time_zone(to);
            return Ok(Converted {
                from: Moment::of(&instant),
                to: Moment::of(&converted),
                note: reading.note,
            });
        }
        When::Local(_) => "an offset, and there is no `from_time_zone`",
        When::Date(_) => "a time of day",
    };
    Err(Failure::invalid_arguments(format!(
        "`{}` cannot be converted: it has not {missing}",
        conversion.time
    )))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{Conversion, Converted, convert};

    fn try_to_convert(time: &str, from: Option<&str>, to: &str) -> Result<Converted, String> {
        let conversion = Conversion {
            time: time.to_owned(),
            from_time_zone: from.map(str::to_owned),
            to_time_zone: to.to_owned(),
        };
        convert(&conversion, Timestamp::UNIX_EPOCH).map_err(|failure| failure.message)
    }

    #[test]
    fn times_are_converted() {
        for (time, from, to, converted) in [
            ("2026-07-14T09:30", Some("Europe/Berlin"), "America/New_York", "2026-07-14T03:30:00-04:00"),
            ("2026-03-10T09:30", Some("Europe/Berlin"), "America/New_York", "2026-03-10T04:30:00-04:00"),
            ("2026-12-31T23:30:00Z", None, "Asia/Tokyo", "2027-01-01T08:30:00+09:00"),
            ("@0", None, "+05:30", "1970-01-01T05:30:00+05:30"),
            ("now", None, "UTC", "1970-01-01T00:00:00+00:00"),
        ] {
            assert_eq!(try_to_convert(time, from, to).unwrap().to.time, converted, "{time}");
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let refusal = try_to_convert("2026-07-14T09:30", None, "UTC").unwrap_err();
        assert!(refusal.ends_with("it has not an offset, and there is no `from_time_zone`"), "{refusal}");
        let refusal = try_to_convert("2026-07-14", Some("UTC"), "UTC").unwrap_err();
        assert!(refusal.ends_with("it has not a time of day"), "{refusal}");
        let converted = try_to_convert("2026-03-29T02:30", Some("Europe/Berlin"), "UTC").unwrap();
        assert_eq!(converted.to.time, "2026-03-29T01:30:00+00:00");
        assert!(converted.note.unwrap().contains("does not exist"));
    }
}
