//! Which query strings are valid, and what is said of the others, as of bodies.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::request::read_query;
use crate::variant_b::bodies::tests::{bound, written, wrong_type};

#[test]
fn a_wait_is_a_number_of_seconds_up_to_a_minute() {
    let wait = |query: &str| read_query::<Wait>(Some(query));
    assert_eq!(read_query(None), Ok(Wait { wait: 0.0 }));
    for (query, seconds) in [
        ("", 0.0),
        ("x=1", 0.0),
        ("wait=0", 0.0),
        ("wait=-0", 0.0),
        ("wait=2.5", 2.5),
        ("wait=60", 60.0),
        ("wait=1&wait=x", 1.0),
    ] {
        assert_eq!(wait(query), Ok(Wait { wait: seconds }), "{query}");
    }
    let path = json!(["wait"]);
    for query in ["wait=", "wait=x", "wait=NaN", "wait=inf", "wait=1s", "wait=%201", "wait=%FF"] {
        assert_eq!(written(wait(query)), json!([wrong_type("number", "nan", &path)]), "{query}");
    }
    let short = bound("too_small", 0, "Number must be greater than or equal to 0", &path);
    assert_eq!(written(wait("wait=-1")), json!([short]));
    let long = bound("too_big", 60, "Number must be less than or equal to 60", &path);
    for query in ["wait=60.1", "wait=1e300"] {
        assert_eq!(written(wait(query)), json!([long]));
    }
}

#[test]
fn a_listing_has_defaults_and_says_everything_that_is_wrong_at_once() {
    let listing = |query: &str| read_query::<JobListing>(Some(query));
    assert_eq!(read_query(None), Ok(JobListing { status: None, limit: 20, cursor: None }));
    let failed = Some(agent_core::words::JobStatus::Failed);
    assert_eq!(
        listing("cursor=a%20b&limit=100&status=failed"),
        Ok(JobListing { status: failed, limit: 100, cursor: Some("a b".into()) })
    );
    let statuses = ["waiting", "active", "delayed", "parked", "completed", "failed", "cancelled"];
    let message = "Invalid enum value. Expected 'waiting' | 'active' | 'delayed' | 'parked' | 'completed' | 'failed' | \
                   'cancelled', received 'done'";
    let status = json!({"code": "invalid_enum_value", "received": "done", "options": statuses, "path": ["status"],
                        "message": message});
    let path = json!(["limit"]);
    let least = bound("too_small", 1, "Number must be greater than or equal to 1", &path);
    let most = bound("too_big", 100, "Number must be less than or equal to 100", &path);
    let cursor = json!({"code": "custom", "message": "Invalid cursor", "path": ["cursor"]});
    let all = format!("status=done&limit=0&cursor={}", "x".repeat(1_025));
    assert_eq!(written(listing(&all)), json!([status, least, cursor]));
    assert_eq!(written(listing("limit=101")), json!([most]));
    let fraction = json!([wrong_type("integer", "float", &path)]);
    assert_eq!(written(listing("limit=1.5")), fraction);
    assert_eq!(written(listing("limit=0.5")), fraction);
    assert_eq!(written(listing("limit=many")), json!([wrong_type("number", "nan", &path)]));
}

#[test]
fn a_pattern_is_required_and_short() {
    let pattern = |query: &str| read_query::<CachePattern>(Some(query));
    assert_eq!(pattern("pattern=agent%3A%3Fa").unwrap().pattern, "agent:?a");
    let path = json!(["pattern"]);
    for query in ["", "Pattern=agent:*"] {
        assert_eq!(written(pattern(query)), json!([wrong_type("string", "undefined", &path)]));
    }
    let long = bound("too_big", 256, "String must contain at most 256 character(s)", &path);
    assert_eq!(written(pattern(&format!("pattern=agent:{}", "*".repeat(251)))), json!([long]));
}

proptest! {
    #[test]
    fn whatever_is_read_is_within_its_bounds(
        query in r"((wait|limit|status|cursor|pattern)=[-+.0-9einfa:*%&=\PC]{0,12}&?){0,4}|\PC{0,60}"
    ) {
        if let Ok(Wait { wait }) = read_query(Some(&query)) {
            prop_assert!((0.0..=60.0).contains(&wait.abs()));
        }
        if let Ok(JobListing { limit, .. }) = read_query(Some(&query)) {
            prop_assert!((1..=100).contains(&limit));
        }
        if let Ok(CachePattern { pattern }) = read_query(Some(&query)) {
            prop_assert!(pattern.chars().count() <= 256);
        }
    }
}
