//! The parameters of the lists of everybody's runs and jobs. Those that nobody asked for are ignored, as
//! under `/api/`.

use agent_core::words::JobStatus;
use serde_json::json;

use super::super::parameters::{CURSOR, LIMIT, NO_CURSOR, STATUS, cursor, place_behind};
use crate::request::path_id::may_be_id;
use crate::request::{Field, Kind, Object, Pattern, request};

/// An empty one, as forms send it, is none.
const USER: Field = Field::text("user").empty_is_absent().example(|| json!("user-1")).like(&Pattern {
    is: may_be_id,
    fault: "Invalid user",
    keywords: || json!({ "maxLength": 256, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$" }),
});

fn is_place(cursor: &str) -> bool {
    place_behind(cursor).is_some_and(|(_, id)| may_be_id(id))
}

request! {
    /// Which runs an administrator wants to see.
    pub(super) struct RunListing = Object::OPEN;

    /// Whose runs; everybody's without it.
    user: Option<String> = USER.least(0);

    /// Most runs of the page.
    limit: usize = LIMIT;

    // The place of the last run of the page before, wherever it stands by now.
    cursor: Option<String> = cursor(&Pattern { is: is_place, ..NO_CURSOR })
        .example(|| json!("1795262401500:01a204ec6206715fbb305322b42db99d"));
}

request! {
    /// Which jobs an administrator wants to see.
    pub(super) struct JobsOf = Object::OPEN;

    /// Whose jobs.
    user: String = USER.least(1).required();

    status: Option<JobStatus> = STATUS;

    /// Most jobs of the page.
    limit: usize = LIMIT;

    cursor: Option<String> = CURSOR;
}

request! {
    /// Which part of a run an administrator wants to see.
    pub(super) struct EventRange = Object::OPEN;

    /// The number of the first event, counted from 0.
    from: u64 = Field::new("from", Kind::Digits).default(|| json!(0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::read_query;

    #[test]
    fn lists_have_bounds_and_jobs_an_owner() {
        let runs = |query: &str| read_query::<RunListing>(Some(query));
        assert_eq!(runs("").unwrap(), RunListing { user: None, limit: 20, cursor: None });
        assert_eq!(
            runs("user=u%201&limit=100&cursor=1:run_1&status=nonsense").unwrap(),
            RunListing { user: Some("u 1".into()), limit: 100, cursor: Some("1:run_1".into()) }
        );
        assert_eq!(runs("user=").unwrap().user, None);
        let long = format!("user={}", "x".repeat(257));
        for query in ["limit=0", "limit=101", "limit=x", "cursor=1:%00", "cursor=run_1", "user=%0A", &long] {
            assert_eq!(runs(query).unwrap_err().0.len(), 1, "{query}");
        }
        assert_eq!(runs("user=%00&limit=0&cursor=%00").unwrap_err().0.len(), 3);
        let jobs = |query: &str| read_query::<JobsOf>(Some(query));
        let failed = Some(JobStatus::Failed);
        let expected = JobsOf { user: "u1".into(), status: failed, limit: 20, cursor: None };
        assert_eq!(jobs("user=u1&status=failed").unwrap(), expected);
        for query in ["", "user=", "status=failed", "user=u1&status=x", "user=u1&limit=1000"] {
            assert!(jobs(query).is_err(), "{query}");
        }
    }

    #[test]
    fn events_are_counted_from_0() {
        let from = |query: &str| read_query::<EventRange>(Some(query)).map(|read| read.from).ok();
        for (query, number) in
            [("", 0), ("from=0", 0), ("from=17", 17), ("from=9223372036854775807", i64::MAX as u64)]
        {
            assert_eq!(from(query), Some(number), "{query}");
        }
        for query in ["from=", "from=-1", "from=%2B1", "from=1.5", "from=x", "from=9223372036854775808"] {
            assert_eq!(from(query), None, "{query}");
        }
    }
}
