//! What a valid query string is: the parameters of the routes that have some. Those that nobody asked for are
//! ignored; of one that is given twice the first counts.

use std::borrow::Cow;
use std::time::Duration;

use agent_core::words::JobStatus;
use serde_json::json;

use super::validation_issue::{Issue, Issues, Path};
use crate::openapi::Parameter;

/// Longest time that reading a job may be held back (host/docs/interface/decisions-runs.md#jobs).
const LONGEST_WAIT: u32 = 60;

/// Jobs of a page, if nothing else is asked for (host/docs/interface/decisions-runs.md#jobs).
pub(super) const DEFAULT_LIMIT: usize = 20;

/// Fewest and most jobs of a page: enough for a screen, and few enough that one answer stays small.
const LIMITS: [u32; 2] = [1, 100];

/// Longest pattern and longest cursor, in characters: a key is `agent:` and a digest of 64.
const LONGEST_PATTERN: u32 = 256;
const LONGEST_CURSOR: usize = 1_024;

/// Which jobs a caller wants to see.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) status: Option<JobStatus>,
    pub(super) limit: usize,
    pub(super) cursor: Option<String>,
}

/// The parameter that [`read_wait`] reads.
pub(super) fn describe_wait() -> Parameter {
    let schema =
        json!({ "type": "number", "minimum": 0, "maximum": LONGEST_WAIT, "default": 0, "examples": [20] });
    Parameter::query("wait", "Seconds to hold the answer back for, unless the job ends before.", schema)
}

/// The parameters that [`read_listing`] reads.
pub(super) fn describe_listing() -> [Parameter; 3] {
    let [least, most] = LIMITS;
    let statuses = JobStatus::ALL.map(JobStatus::as_str);
    let limit = json!({
        "type": "integer", "minimum": least, "maximum": most, "default": DEFAULT_LIMIT, "examples": [DEFAULT_LIMIT],
    });
    let cursor = json!({ "type": "string", "maxLength": LONGEST_CURSOR, "examples": ["01a204ec6206715fbb305322b42db99d"] });
    [
        Parameter::query(
            "status",
            "Only jobs that stand there.",
            json!({ "type": "string", "enum": statuses }),
        ),
        Parameter::query("limit", "Most jobs of the page.", limit),
        Parameter::query("cursor", "The `nextCursor` of the page before.", cursor),
    ]
}

/// The parameters that [`read_page`] reads. `example` is a cursor.
pub(super) fn describe_page(most: &str, example: &str) -> [Parameter; 2] {
    let [least, greatest] = LIMITS;
    let limit = json!({
        "type": "integer", "minimum": least, "maximum": greatest, "default": DEFAULT_LIMIT, "examples": [DEFAULT_LIMIT],
    });
    let cursor = json!({ "type": "string", "maxLength": LONGEST_CURSOR, "examples": [example] });
    [
        Parameter::query("limit", most, limit),
        Parameter::query("cursor", "The `nextCursor` of the page before.", cursor),
    ]
}

/// The parameter that [`read_pattern`] reads.
pub(super) fn describe_pattern() -> Parameter {
    let schema = json!({ "type": "string", "maxLength": LONGEST_PATTERN, "examples": ["agent:*"] });
    Parameter::query("pattern", "Which keys, with `*`, `?` and `[…]` as in Redis.", schema).required()
}

/// `wait`: seconds, none if it is absent.
pub(super) fn read_wait(query: Option<&str>) -> Result<Duration, Issues> {
    const PATH: Path = &["wait"];
    let Some(text) = find(query, "wait") else { return Ok(Duration::ZERO) };
    let seconds = read_number(&text, PATH)?;
    match Issue::out_of_range(seconds, [0, LONGEST_WAIT], PATH) {
        None => Ok(Duration::from_secs_f64(seconds.abs())),
        Some(issue) => Err(issue.into()),
    }
}

/// `status`, `limit` and `cursor`, all of them optional.
pub(super) fn read_listing(query: Option<&str>) -> Result<Listing, Issues> {
    let mut issues = Issues::default();
    let status = issues.check(find(query, "status").map(|text| read_status(&text)).transpose());
    let limit = issues.check(find(query, "limit").map(|text| read_limit(&text)).transpose());
    let cursor = find(query, "cursor").map(Cow::into_owned);
    if cursor.as_ref().is_some_and(|cursor| cursor.len() > LONGEST_CURSOR) {
        issues.0.extend_from_slice(Issue::BAD_CURSOR);
    }
    match (status, limit) {
        (Some(status), Some(limit)) if issues.0.is_empty() => {
            Ok(Listing { status, limit: limit.unwrap_or(DEFAULT_LIMIT), cursor })
        }
        _ => Err(issues),
    }
}

/// `limit` and `cursor`, both of them optional.
pub(super) fn read_page(query: Option<&str>) -> Result<(usize, Option<String>), Issues> {
    let listing = read_listing(without_status(query).as_deref())?;
    Ok((listing.limit, listing.cursor))
}

/// The parameters that a list without statuses knows.
fn without_status(query: Option<&str>) -> Option<String> {
    let pairs = form_urlencoded::parse(query?.as_bytes()).filter(|(name, _)| name != "status");
    Some(form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
}

/// `pattern`, whatever it is: the cache looks at its own keys only.
pub(super) fn read_pattern(query: Option<&str>) -> Result<String, Issues> {
    const PATH: Path = &["pattern"];
    let pattern = find(query, "pattern").ok_or_else(|| Issue::required("string", PATH))?;
    if pattern.chars().count() > LONGEST_PATTERN as usize {
        return Err(Issue::too_long(LONGEST_PATTERN, PATH).into());
    }
    Ok(pattern.into_owned())
}

/// The value of a parameter.
pub(super) fn find<'a>(query: Option<&'a str>, name: &str) -> Option<Cow<'a, str>> {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.into_iter().find_map(|(key, value)| (key == name).then_some(value))
}

fn read_status(text: &str) -> Result<JobStatus, Issue> {
    JobStatus::parse(text).ok_or_else(|| {
        Issue::not_one_of(JobStatus::ALL.map(JobStatus::as_str).to_vec(), text.into(), &["status"])
    })
}

/// `limit`, when it was given.
pub(super) fn read_limit(text: &str) -> Result<usize, Issue> {
    const PATH: Path = &["limit"];
    let number = read_number(text, PATH)?;
    if number.fract() != 0.0 {
        return Err(Issue::received("integer", "float", PATH));
    }
    Issue::out_of_range(number, LIMITS, PATH).map_or(Ok(number as usize), Err)
}

/// Decimal, and finite.
fn read_number(text: &str, path: Path) -> Result<f64, Issue> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| Issue::received("number", "nan", path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn issues<T: std::fmt::Debug>(read: Result<T, Issues>) -> Value {
        serde_json::to_value(read.unwrap_err().0).unwrap()
    }

    fn bound(code: &str, (name, bound): (&str, u32), kind: &str, message: &str, path: &str) -> Value {
        json!([{"code": code, name: bound, "type": kind, "origin": kind, "inclusive": true, "exact": false,
                "message": message, "path": [path]}])
    }

    fn not_a_number(path: &str) -> Value {
        json!([{"code": "invalid_type", "expected": "number", "received": "nan", "path": [path],
                "message": "Expected number, received nan"}])
    }

    #[test]
    fn a_wait_is_a_number_of_seconds_up_to_a_minute() {
        let wait = |query: &str| read_wait(Some(query)).unwrap().as_secs_f64();
        assert_eq!(read_wait(None), Ok(Duration::ZERO));
        for (query, seconds) in [
            ("", 0.0),
            ("x=1", 0.0),
            ("wait=0", 0.0),
            ("wait=-0", 0.0),
            ("wait=2.5", 2.5),
            ("wait=60", 60.0),
            ("wait=1&wait=x", 1.0),
        ] {
            assert_eq!(wait(query), seconds, "{query}");
        }
        for query in ["wait=", "wait=x", "wait=NaN", "wait=inf", "wait=1s", "wait=%201", "wait=%FF"] {
            assert_eq!(issues(read_wait(Some(query))), not_a_number("wait"), "{query}");
        }
        let message = "Number must be greater than or equal to 0";
        assert_eq!(
            issues(read_wait(Some("wait=-1"))),
            bound("too_small", ("minimum", 0), "number", message, "wait")
        );
        let message = "Number must be less than or equal to 60";
        for query in ["wait=60.1", "wait=1e300"] {
            assert_eq!(
                issues(read_wait(Some(query))),
                bound("too_big", ("maximum", 60), "number", message, "wait")
            );
        }
    }

    #[test]
    fn a_listing_has_defaults() {
        let listing = Listing { status: None, limit: 20, cursor: None };
        assert_eq!(read_listing(None).unwrap(), listing);
        let listing = Listing { status: Some(JobStatus::Failed), limit: 100, cursor: Some("a b".into()) };
        assert_eq!(read_listing(Some("cursor=a%20b&limit=100&status=failed")).unwrap(), listing);
    }

    #[test]
    fn everything_that_is_wrong_with_a_listing_is_said_at_once() {
        let query = format!("status=done&limit=0&cursor={}", "x".repeat(1_025));
        assert_eq!(
            issues(read_listing(Some(&query))),
            json!([
                {"code": "invalid_enum_value", "received": "done", "path": ["status"],
                 "options": ["waiting", "active", "delayed", "completed", "failed", "cancelled"],
                 "message": "Invalid enum value. Expected 'waiting' | 'active' | 'delayed' | 'completed' | \
                             'failed' | 'cancelled', received 'done'"},
                {"code": "too_small", "minimum": 1, "type": "number", "origin": "number", "inclusive": true,
                 "exact": false, "message": "Number must be greater than or equal to 1", "path": ["limit"]},
                {"code": "custom", "message": "Invalid cursor", "path": ["cursor"]},
            ])
        );
        let message = "Number must be less than or equal to 100";
        assert_eq!(
            issues(read_listing(Some("limit=101"))),
            bound("too_big", ("maximum", 100), "number", message, "limit")
        );
        assert_eq!(
            issues(read_listing(Some("limit=1.5"))),
            json!([{"code": "invalid_type", "expected": "integer", "received": "float", "path": ["limit"],
                    "message": "Expected integer, received float"}])
        );
        assert_eq!(issues(read_listing(Some("limit=many"))), not_a_number("limit"));
    }

    #[test]
    fn a_pattern_is_required_and_short() {
        assert_eq!(read_pattern(Some("pattern=agent:*")).unwrap(), "agent:*");
        assert_eq!(read_pattern(Some("pattern=agent%3A%3Fa")).unwrap(), "agent:?a");
        for query in [None, Some(""), Some("Pattern=agent:*")] {
            assert_eq!(
                issues(read_pattern(query)),
                json!([{"code": "invalid_type", "expected": "string", "received": "undefined",
                        "path": ["pattern"], "message": "Required"}])
            );
        }
        let long = format!("pattern=agent:{}", "*".repeat(251));
        let message = "String must contain at most 256 character(s)";
        assert_eq!(
            issues(read_pattern(Some(&long))),
            bound("too_big", ("maximum", 256), "string", message, "pattern")
        );
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_within_its_bounds(
            query in r"((wait|limit|status|cursor|pattern)=[-+.0-9einfa:*%&=\PC]{0,12}&?){0,4}|\PC{0,60}"
        ) {
            if let Ok(wait) = read_wait(Some(&query)) {
                prop_assert!(wait <= Duration::from_mins(1));
            }
            if let Ok(listing) = read_listing(Some(&query)) {
                prop_assert!((1..=100).contains(&listing.limit));
            }
            if let Ok(pattern) = read_pattern(Some(&query)) {
                prop_assert!(pattern.chars().count() <= 256);
            }
        }
    }
}
