//! Time zones by their names.

use agent_tool_sdk::Failure;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// The most names that are suggested in place of an unknown one.
const SUGGESTIONS: usize = 3;
/// How alike a name must be to be suggested, from 0 for nothing in common to 1 for the same.
const LIKENESS: f64 = 0.75;
/// More bytes than any zone's name has, or any offset.
const LONGEST_NAME: usize = 64;

/// The zone of an IANA name, such as `Europe/Berlin`, or of an offset, such as `+02:00`.
pub(crate) fn find(name: &str) -> Result<TimeZone, Failure> {
    let zones = TimeZoneDatabase::bundled();
    let written = name.trim().replace(' ', "_");
    // Comparing a long text with every zone's name would take longer than a call has.
    if written.len() > LONGEST_NAME {
        return Err(Failure::invalid_arguments(format!(
            "no time zone has a name of {} bytes: use an IANA name such as Europe/Berlin, or an offset such as +02:00",
            written.len()
        )));
    }
    if let Ok(zone) = zones.get(&written) {
        return Ok(zone);
    }
    // `GMT+2` is two hours ahead of UTC to those who write it, and `Etc/GMT+2` in IANA's names two behind.
    let offset = ["UTC", "GMT"].iter().find_map(|prefix| strip_prefix(&written, prefix)).unwrap_or(&written);
    if offset.starts_with(['+', '-']) {
        return DateTimeParser::new().parse_time_zone_with(&zones, offset).map_err(|_| {
            Failure::invalid_arguments(format!(
                "`{name}` is no offset from UTC: write it as +02:00 or -05:30"
            ))
        });
    }
    let suggestions = suggest(&zones, &written);
    let hint = if suggestions.is_empty() {
        "use an IANA name such as Europe/Berlin, that of a large city in the same zone, or an offset such as +02:00; \
         abbreviations such as PST are ambiguous"
            .to_owned()
    } else {
        format!("did you mean {}?", suggestions.join(" or "))
    };
    Err(Failure::invalid_arguments(format!("there is no time zone `{name}`: {hint}")))
}

/// The rest of a text behind a prefix, whatever the case of either.
fn strip_prefix<'a>(written: &'a str, prefix: &str) -> Option<&'a str> {
    let (begin, rest) = written.split_at_checked(prefix.len())?;
    begin.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// A zone's name, or its offset if it has none.
pub(crate) fn name_of(zone: &TimeZone) -> String {
    match (zone.iana_name(), zone.to_fixed_offset()) {
        (Some(name), _) => name.to_owned(),
        (None, Ok(offset)) => offset.to_string(),
        (None, Err(_)) => "local".to_owned(),
    }
}

/// Names that the one given may stand for: those of which it is a part, such as the city, or else those most
/// like it.
fn suggest(zones: &TimeZoneDatabase, written: &str) -> Vec<String> {
    let written = written.to_lowercase();
    let mut likely: Vec<(f64, String)> = zones
        .available()
        .map(|zone| zone.as_str().to_owned())
        .map(|zone| (likeness(&zone.to_lowercase(), &written), zone))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .collect();
    likely.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    likely.into_iter().take(SUGGESTIONS).map(|(_, zone)| zone).collect()
}

fn likeness(zone: &str, written: &str) -> f64 {
    let city = zone.rsplit('/').next().unwrap_or(zone);
    let written_city = written.rsplit('/').next().unwrap_or(written);
    strsim::normalized_levenshtein(zone, written).max(strsim::normalized_levenshtein(city, written_city))
}

#[cfg(test)]
mod tests {
    use super::{find, name_of};

    #[test]
    fn zones_are_found_however_they_are_written() {
        for (written, name) in [
            ("Europe/Berlin", "Europe/Berlin"),
            ("europe/berlin", "Europe/Berlin"),
            (" America/New York ", "America/New_York"),
            ("UTC", "UTC"),
            ("+02:00", "+02"),
            ("-0530", "-05:30"),
            ("UTC+02:00", "+02"),
            ("gmt-05:30", "-05:30"),
            ("GMT+0", "GMT+0"),
        ] {
            assert_eq!(name_of(&find(written).unwrap()), name, "{written}");
        }
    }

    #[test]
    fn an_unknown_zone_is_refused_with_what_may_have_been_meant() {
        for (written, hint) in [
            ("Berlin", "did you mean Europe/Berlin?"),
            ("Europe/Berln", "did you mean Europe/Berlin?"),
            ("America/Kolkata", "did you mean Asia/Kolkata?"),
            ("PST", "use an IANA name"),
            ("nowhere at all", "use an IANA name"),
            ("", "use an IANA name"),
            ("+99", "is no offset from UTC"),
            ("GMT+2", "`GMT+2` is no offset from UTC: write it as +02:00"),
        ] {
            let failure = find(written).unwrap_err();
            assert!(failure.message.contains(hint), "{written}: {}", failure.message);
        }
    }

    #[test]
    fn a_text_that_is_too_long_for_a_zone_is_neither_compared_nor_repeated() {
        for begin in ["Europe/", "+", ""] {
            let message = find(&(begin.to_owned() + &"x".repeat(256 << 10))).unwrap_err().message;
            assert!(message.contains("use an IANA name") && message.len() < 200, "{message}");
        }
    }
}
