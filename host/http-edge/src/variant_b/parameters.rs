//! The parameters of query strings. Those that nobody asked for are ignored.

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::words::JobStatus;
use serde_json::{Value, json};

use crate::request::{Field, FromJson, Kind, Object, Pattern, request};

/// So many of a page: enough for a screen, and few enough that one answer stays small
/// (host/docs/interface/decisions-runs.md#jobs).
pub const LIMIT: Field = Field::new("limit", Kind::WholeNumber).least(1).most(100).default(|| json!(20));

pub(super) const STATUS: Field = Field::new(
    "status",
    Kind::Word { words: || JobStatus::ALL.map(JobStatus::as_str).to_vec(), most_quoted: usize::MAX },
)
.about("Only jobs of this status.");

pub(super) const CURSOR: Field = cursor(&Pattern { is: |cursor| cursor.len() <= 1_024, ..NO_CURSOR })
    .example(|| json!("01a204ec6206715fbb305322b42db99d"));

/// A cursor that is of that form.
pub(super) const fn cursor(form: &'static Pattern) -> Field {
    Field::text("cursor").like(form).about("The `nextCursor` of the page before.")
}

/// What is said of a text that is none.
pub(super) const NO_CURSOR: Pattern =
    Pattern { is: |_| false, fault: "Invalid cursor", keywords: || json!({ "maxLength": 1_024 }) };

/// The place after what was last changed at that moment, in a list that has the newest first: `<ms>:<id>`.
/// Stores keep milliseconds.
pub(super) fn cursor_behind(at: SystemTime, id: &str) -> String {
    format!("{}:{id}", at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis())
}

/// The place that such a cursor names.
pub(super) fn place_behind(cursor: &str) -> Option<(SystemTime, &str)> {
    let (ms, id) = cursor.split_once(':')?;
    // More than a store can hold is no time.
    let ms = ms.parse().ok().filter(|ms: &u64| *ms < 1 << 53)?;
    Some((UNIX_EPOCH + Duration::from_millis(ms), id))
}

request! {
    /// How long a job is waited for (host/docs/interface/decisions-runs.md#jobs).
    pub(super) struct Wait = Object::OPEN;

    /// Seconds to hold the answer back for, unless the job ends before.
    wait: f64 = Field::new("wait", Kind::Number).least(0).most(60).default(|| json!(0)).example(|| json!(20));
}

request! {
    /// Which jobs a caller wants to see.
    pub(super) struct JobListing = Object::OPEN;

    status: Option<JobStatus> = STATUS;

    /// Most jobs of the page.
    limit: usize = LIMIT;

    cursor: Option<String> = CURSOR;
}

request! {
    /// Which waits a caller wants to see.
    pub(super) struct WaitListing = Object::OPEN;

    /// Whose: those of one's own jobs, the newest first, or those of anybody's that one may decide, the
    /// next to expire first.
    of: WaitsOf = Field::new("of", Kind::Word { words: WaitsOf::words, most_quoted: usize::MAX })
        .default(|| json!("own"));

    /// Most jobs whose waits are in the page, which may be short although there is another one.
    limit: usize = LIMIT;

    cursor: Option<String> = CURSOR;
}

request! {
    /// Which conversations a caller wants to see.
    pub(super) struct ConversationListing = Object::OPEN;

    /// Most conversations of the page.
    limit: usize = LIMIT;

    cursor: Option<String> = CURSOR.example(|| json!("1795478400000:trip"));
}

request! {
    /// Which results an administrator has forgotten. The cache looks at its own keys only.
    pub(super) struct CachePattern = Object::OPEN;

    /// Which keys, with `*`, `?` and `[…]` as in Redis.
    pattern: String = Field::text("pattern").most(256).required().example(|| json!("agent:*"));
}

/// Whose waits a caller wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitsOf {
    Own,
    Decidable,
}

impl WaitsOf {
    fn words() -> Vec<&'static str> {
        vec!["own", "decidable"]
    }
}

impl FromJson for WaitsOf {
    fn from_json(value: Option<Value>) -> Option<Self> {
        match value?.as_str()? {
            "own" => Some(Self::Own),
            "decidable" => Some(Self::Decidable),
            _ => None,
        }
    }
}

impl FromJson for JobStatus {
    fn from_json(value: Option<Value>) -> Option<Self> {
        Self::parse(value?.as_str()?)
    }
}
