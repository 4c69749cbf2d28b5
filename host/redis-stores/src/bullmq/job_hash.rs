//! The hash that BullMQ keeps of a job, read as the core's words. Node writes it as well, so nothing is
//! certain about any of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use agent_core::ports::{Claim, EarlierClaims, Epoch};
use agent_core::words::{Job, JobData, JobStatus, OpenKinds, WaitKind};
use json_schema::{MemoryBudget, ReadError};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Number, Value};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::time::from_millis;
use super::{submitter, trace_metadata};

/// Fields of a job's hash that a [`Job`] is made of.
pub(super) const FIELDS: [&str; 10] = [
    "data",
    "timestamp",
    "processedOn",
    "finishedOn",
    "returnvalue",
    "failedReason",
    "atm",
    RUNS,
    PARKED,
    OPTIONS,
];

/// How many runs of a job have ended for good, in its hash. Written together with each such end.
pub(super) const RUNS: &str = "agentHostRuns";

/// The number of a job's last claim, in its hash: the epoch of that claim. Absent before the first one.
pub(super) const CLAIMS: &str = "agentHostClaims";

/// How many claims for a run of the job were lost, in its hash, before the number of its runs that had ended
/// (`scripts/reclaim_stalled.lua`).
const LOST: &str = "agentHostLost:";

/// Says in a job's hash that it was put into its owner's list when it was added.
pub(super) const LISTED: &str = "agentHostListed";

/// Says in the hash of a delayed job, if it is not empty, that its run waits for somebody, and for which
/// kinds of things ([`parked_mark`]). Written with every end that delays a job.
pub(super) const PARKED: &str = "agentHostParked";

/// The value of [`PARKED`]: the kinds by their names, separated by commas, or `1` where none is known. The
/// job stands in the set of each of them (`OwnKeys::parked`).
pub(super) fn parked_mark(open: OpenKinds) -> String {
    let kinds: Vec<_> = open.kinds().map(WaitKind::as_str).collect();
    if kinds.is_empty() { "1".to_owned() } else { kinds.join(",") }
}

/// Says in a job's hash that it is cancelled, until the hash is removed.
pub(super) const CANCELLED: &str = "agentHostCancelled";

/// Fields of a job's hash that ending an attempt needs. The claim keeps them.
const KEPT_FOR_THE_END: [&str; 3] = [OPTIONS, STACKTRACE, RUNS];
pub(super) const OPTIONS: &str = "opts";
pub(super) const STACKTRACE: &str = "stacktrace";

/// One job, as `read.lua` answers it: its state, and [`FIELDS`].
pub(super) type StoredJob = (String, Vec<Option<Vec<u8>>>);

pub(super) fn read_job(id: &str, (state, fields): StoredJob) -> Option<Job> {
    let fields: Vec<_> = fields.into_iter().map(|field| field.map(|bytes| text(&bytes))).collect();
    let [data, created, started, finished, result, error, attempts, runs, parked, options] =
        <[Option<String>; FIELDS.len()]>::try_from(fields).ok()?;
    let status = status_of(&state, parked.is_some_and(|mark| !mark.is_empty()))?;
    let time = |field: Option<String>| field.and_then(|text| text.parse().ok()).map(from_millis);
    let runs = number(runs.as_deref());
    // With its end the number went up: what it ended with is the run before the one that a retry would begin.
    let ended = if matches!(status, JobStatus::Completed | JobStatus::Failed) {
        runs.saturating_sub(1)
    } else {
        runs
    };
    let added = created.as_deref().unwrap_or("0");
    Some(Job {
        id: id.to_owned(),
        run_id: given_run(ended, options.as_deref())
            .unwrap_or_else(|| run_id(id, added, &ended.to_string(), data.as_deref().unwrap_or_default())),
        user_id: data.as_deref().map(read_user).unwrap_or_default(),
        parent: submitter::parent_of(options.as_deref()),
        status,
        result: result.filter(|_| status == JobStatus::Completed).and_then(|result| read_result(&result)),
        error: error.filter(|error| !error.is_empty() && status != JobStatus::Completed),
        attempts_made: number(attempts.as_deref()),
        created_at: time(created).unwrap_or(UNIX_EPOCH),
        started_at: time(started),
        finished_at: time(finished).filter(|_| status.has_ended()),
    })
}

/// Where a job stands of which nothing but [`PARKED`] was read.
pub(super) fn read_status((state, fields): &StoredJob) -> Option<JobStatus> {
    status_of(state, fields.iter().flatten().any(|mark| !mark.is_empty()))
}

fn status_of(state: &str, is_parked: bool) -> Option<JobStatus> {
    Some(match JobStatus::parse(state)? {
        JobStatus::Delayed if is_parked => JobStatus::Parked,
        status => status,
    })
}

/// The claim of a job that was leased, of which `hash` is all that BullMQ stores.
pub(super) fn read_claim(
    job_id: String,
    token: String,
    hash: &HashMap<String, String>,
    leased_at: Instant,
) -> Claim {
    let field = |name: &str| hash.get(name).map(String::as_str);
    let data = match (field("defa"), field("data")) {
        // BullMQ fails it when it is claimed, such as the parent of a job that failed, and with that reason.
        (Some(reason), _) => Err(reason.to_owned()),
        (None, Some(data)) => read_data(data),
        (None, None) => read_data("null"),
    };
    let data = data.and_then(|mut data| submitter::read(field(OPTIONS), &mut data).map(|()| data));
    let created = field("timestamp").unwrap_or("0");
    let runs = field(RUNS).unwrap_or("0");
    let lost = number(field(&format!("{LOST}{runs}")));
    let kept = KEPT_FOR_THE_END.into_iter().filter_map(|name| Some((name, field(name)?.to_owned())));
    Claim {
        run_id: given_run(number(Some(runs)), field("opts"))
            .unwrap_or_else(|| run_id(&job_id, created, runs, field("data").unwrap_or_default())),
        // The claim says it beside the hash.
        cancel_asked: false,
        data,
        earlier: EarlierClaims { are_none: false, lost },
        attempts_made: number(field("atm")),
        created_at: from_millis(created.parse().unwrap_or(0)),
        trace: field("opts").and_then(trace_metadata::read),
        leased_at: leased_at.into_std(),
        notes: Arc::new(kept.collect()),
        epoch: Epoch::UNCLAIMED,
        job_id,
        token,
    }
}

/// The payload of a job: `{query, userId}`.
pub(super) fn read_data(text: &str) -> Result<JobData, String> {
    parse_data(text).map_err(|problem| format!("Invalid job data: {problem}"))
}

fn parse_data(text: &str) -> Result<JobData, &'static str> {
    let value = MemoryBudget::default().read_loosely(text.as_bytes()).map_err(|error| match error {
        ReadError::Json(_quotes_it) => "the job's data is not JSON",
        ReadError::TooLarge { .. } => "the job's data has too many members and elements",
    })?;
    let object = value.as_object().ok_or("the job's data is not an object")?;
    match object.get("query") {
        Some(Value::String(query)) if !query.is_empty() => Ok(JobData::new(query.as_str(), user_of(&value))),
        _ => Err("the job's data has no query"),
    }
}

/// Whose job it is, also when there is nothing to be done with the rest of its data.
pub(super) fn read_user(text: &str) -> String {
    MemoryBudget::default().read_loosely(text.as_bytes()).map(|value| user_of(&value)).unwrap_or_default()
}

/// A job of nobody is worked off like any other, and nobody can read it.
fn user_of(data: &Value) -> String {
    match data.get("userId") {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => decimal(id),
        _ => String::new(),
    }
}

/// A number as JavaScript writes it, who knows no whole ones: `5.0` is `5`.
fn decimal(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e21 => format!("{float:.0}"),
        _ => number.to_string(),
    }
}

/// A result that is no JSON is shown as a text.
fn read_result(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).or_else(|_| to_raw_value(text)).ok()
}

/// The run that a job was added with, until it has ended: a retry is another run.
fn given_run(ended_runs: u32, options: Option<&str>) -> Option<String> {
    if ended_runs == 0 { submitter::run_of(options) } else { None }
}

/// Every attempt of a job has one run id. BullMQ counts ids from 1 again when Redis was emptied, so the time
/// is part of it. So are the data, which others may edit, and how many runs of it have ended, after which
/// others may retry it: what is done then is another run.
fn run_id(job_id: &str, created: &str, runs: &str, data: &str) -> String {
    let identity = format!("{}\0{job_id}\0{created}\0{runs}\0{data}", agent_core::ports::queue::QUEUE);
    format!("run_{:.32x}", Sha256::digest(identity))
}

fn number(text: Option<&str>) -> u32 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Others can store anything, cut through the middle of a character included.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_numeric_user_is_read_as_its_decimal_text() {
        for (id, text) in [(json!(5), "5"), (json!(5.0), "5"), (json!(-7), "-7"), (json!(1.5), "1.5")] {
            let data = read_data(&json!({"query": "q", "userId": id}).to_string()).unwrap();
            assert_eq!(data.user_id, text);
        }
    }

    #[test]
    fn half_a_surrogate_pair_that_node_wrote_is_replaced() {
        let text = r#"{"query":"a\ud83d","userId":"u1"}"#;
        let data = read_data(text).unwrap();
        assert_eq!((&*data.query, &*data.user_id), ("a\u{fffd}", "u1"));
        assert_eq!(read_user(text), "u1");
    }

    #[test]
    fn data_without_a_query_says_so() {
        for (data, error) in [
            ("", "the job's data is not JSON"),
            ("[]", "the job's data is not an object"),
            ("{}", "the job's data has no query"),
            (r#"{"query": 5}"#, "the job's data has no query"),
            (r#"{"query": ""}"#, "the job's data has no query"),
        ] {
            assert_eq!(read_data(data), Err(format!("Invalid job data: {error}")));
        }
    }

    #[test]
    fn a_run_id_differs_when_the_ids_begin_again_or_the_job_is_another_one() {
        let first = run_id("1", "1700000000000", "0", "{}");
        // As every release before this one makes it: a job that one of them has begun goes on under the same
        // run here.
        assert_eq!(first, "run_22c884c06cf597b6e28d893629108e46");
        for other in [
            run_id("1", "1700000000001", "0", "{}"),
            run_id("1", "1700000000000", "1", "{}"),
            run_id("1", "1700000000000", "0", r#"{"a":1}"#),
        ] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn a_result_is_json_whatever_stands_there() {
        for (text, shown) in [(r#"{"a":1}"#, r#"{"a":1}"#), ("null", "null"), ("not json", r#""not json""#)] {
            let fields =
                [None, None, None, None, Some(text.as_bytes().to_vec()), None, None, None, None, None];
            let job = read_job("1", ("completed".into(), fields.into())).unwrap();
            assert_eq!(job.result.unwrap().get(), shown);
        }
    }

    proptest! {
        #[test]
        fn data_that_we_wrote_is_read_as_it_was(query in ".+", user_id in ".*") {
            let data = JobData::new(query, user_id);
            prop_assert_eq!(read_data(&serde_json::to_string(&data).unwrap()), Ok(data));
        }
    }
}
