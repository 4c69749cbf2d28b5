//! The parameters of the lists of everybody's runs and jobs. Those that nobody asked for are ignored, as under `/api/`.

use std::borrow::Cow;

use agent_core::words::JobStatus;
use serde_json::json;

use super::super::parameters;
use super::super::validation_issue::{Issue, Issues, Path};
use crate::openapi::Parameter;
use crate::path_id::may_be_id;

const USER: Path = &["user"];
const FROM: Path = &["from"];

/// Which runs an administrator wants to see.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunListing {
    pub(super) user: Option<String>,
    pub(super) limit: usize,
    /// The last run of the page before.
    pub(super) cursor: Option<String>,
}

/// Which jobs an administrator wants to see.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JobListing {
    pub(super) user: String,
    pub(super) status: Option<JobStatus>,
    pub(super) limit: usize,
    pub(super) cursor: Option<String>,
}

/// The parameters that [`read_runs`] reads.
pub(super) fn describe_runs() -> [Parameter; 3] {
    let [_status, limit, cursor] = parameters::describe_listing();
    [describe_user("Whose runs; everybody's without it.", 0), limit, cursor]
}

/// The parameters that [`read_jobs`] reads.
pub(super) fn describe_jobs() -> [Parameter; 4] {
    let [status, limit, cursor] = parameters::describe_listing();
    [describe_user("Whose jobs.", 1).required(), status, limit, cursor]
}

/// The parameter that [`read_from`] reads.
pub(super) fn describe_from() -> Parameter {
    let schema =
        json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX, "default": 0, "examples": [0] });
    Parameter::query("from", "The number of the first event, counted from 0.", schema)
}

fn describe_user(description: &str, shortest: usize) -> Parameter {
    let schema = json!({
        "type": "string", "minLength": shortest, "maxLength": 256, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$", "examples": ["user-1"],
    });
    Parameter::query("user", description, schema)
}

/// `user`, `limit` and `cursor`, all of them optional.
pub(super) fn read_runs(query: Option<&str>) -> Result<RunListing, Issues> {
    let mut issues = Issues::default();
    let user = issues.check(read_user(query));
    let limit = parameters::find(query, "limit").map(|text| parameters::read_limit(&text)).transpose();
    let limit = issues.check(limit);
    let cursor = parameters::find(query, "cursor").map(Cow::into_owned);
    if cursor.as_deref().is_some_and(|cursor| !may_be_id(cursor)) {
        issues.0.extend_from_slice(Issue::BAD_CURSOR);
    }
    match (user, limit) {
        (Some(user), Some(limit)) if issues.0.is_empty() => {
            Ok(RunListing { user, limit: limit.unwrap_or(parameters::DEFAULT_LIMIT), cursor })
        }
        _ => Err(issues),
    }
}

/// `user`, and what lists of jobs have under `/api/`.
pub(super) fn read_jobs(query: Option<&str>) -> Result<JobListing, Issues> {
    let user = read_user(query)?.ok_or_else(|| Issue::required("string", USER))?;
    let parameters::Listing { status, limit, cursor } = parameters::read_listing(query)?;
    Ok(JobListing { user, status, limit, cursor })
}

/// `from`: the number of an event, 0 if it is absent.
pub(super) fn read_from(query: Option<&str>) -> Result<u64, Issues> {
    let Some(text) = parameters::find(query, "from") else { return Ok(0) };
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number: &u64| is_plain && i64::try_from(*number).is_ok());
    number.ok_or_else(|| Issue::received("integer", "nan", FROM).into())
}

/// An empty one, as forms send it, is none.
fn read_user(query: Option<&str>) -> Result<Option<String>, Issue> {
    match parameters::find(query, "user").filter(|user| !user.is_empty()) {
        Some(user) if !may_be_id(&user) => Err(Issue::custom("Invalid user", USER)),
        user => Ok(user.map(Cow::into_owned)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_bounds_and_jobs_an_owner() {
        let runs = |query| read_runs(Some(query));
        assert_eq!(runs("").unwrap(), RunListing { user: None, limit: 20, cursor: None });
        assert_eq!(
            runs("user=u%201&limit=100&cursor=run_1&status=nonsense").unwrap(),
            RunListing { user: Some("u 1".into()), limit: 100, cursor: Some("run_1".into()) }
        );
        assert_eq!(runs("user=").unwrap().user, None);
        let long = format!("user={}", "x".repeat(257));
        for query in ["limit=0", "limit=101", "limit=x", "cursor=%00", "user=%0A", &long] {
            assert_eq!(runs(query).unwrap_err().0.len(), 1, "{query}");
        }
        assert_eq!(runs("user=%00&limit=0&cursor=%00").unwrap_err().0.len(), 3);

        let job = read_jobs(Some("user=u1&status=failed")).unwrap();
        let failed = Some(JobStatus::Failed);
        assert_eq!(job, JobListing { user: "u1".into(), status: failed, limit: 20, cursor: None });
        for query in ["", "user=", "status=failed", "user=u1&status=x", "user=u1&limit=1000"] {
            assert!(read_jobs(Some(query)).is_err(), "{query}");
        }
    }

    #[test]
    fn events_are_counted_from_0() {
        for (query, from) in
            [("", 0), ("from=0", 0), ("from=17", 17), ("from=9223372036854775807", i64::MAX as u64)]
        {
            assert_eq!(read_from(Some(query)).unwrap(), from, "{query}");
        }
        for query in ["from=", "from=-1", "from=%2B1", "from=1.5", "from=x", "from=9223372036854775808"] {
            assert!(read_from(Some(query)).is_err(), "{query}");
        }
    }
}
