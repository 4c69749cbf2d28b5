//! The tool `current_time`.

use agent_tool_sdk::Failure;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::moment::Moment;
use crate::when::read_zone;

/// Where to tell the time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    /// IANA name or offset; default UTC
    time_zone: Option<String>,
}

/// Tells the time.
pub(crate) fn tell(place: &Place, now: Timestamp) -> Result<Moment, Failure> {
    let zone = read_zone(place.time_zone.as_deref())?.unwrap_or(TimeZone::UTC);
    Ok(Moment::of(&now.to_zoned(zone)))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{Place, tell};
    use crate::moment::Moment;

    #[test]
    fn the_time_is_told_in_the_zone_asked_for() {
        let now = Timestamp::from_millisecond(1_784_000_000_000).unwrap();
        let told = tell(&Place { time_zone: Some("Asia/Kathmandu".to_owned()) }, now).unwrap();
        let expected = Moment {
            time: "2026-07-14T09:18:20+05:45".to_owned(),
            time_zone: "Asia/Kathmandu".to_owned(),
            weekday: "Tuesday",
            unix_seconds: 1_784_000_000,
        };
        assert_eq!(told, expected);
        assert_eq!(tell(&Place { time_zone: None }, now).unwrap().time, "2026-07-14T03:33:20+00:00");
    }
}
