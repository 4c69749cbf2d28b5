//! Jobs, as callers add, read, list and cancel them.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{Message, OpenKinds, Options, Principal, WaitDepth, WaitKind};

/// The query of a job whose run goes on with a conversation in which nobody says a text.
const WITHOUT_TEXT: &str = "(goes on with a conversation)";

/// In front of a job's chosen id this is the id of its run.
const RUN_OF_ID: &str = "run_";

/// What a job is to do. Its JSON is the payload on the queue (host/docs/interface/endpoints.md#job-payload),
/// `{query, userId}`, which Node producers and workers know; queues keep the rest beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobData {
    /// The text to process.
    pub query: String,
    /// Whose job it is. A token's numeric `id` is written as its decimal text. Empty for a job of nobody, as
    /// others may add one.
    pub user_id: String,
    /// The tier that its submitter's token said. Absent in jobs of Node producers.
    #[serde(skip)]
    pub tier: Option<String>,
    /// The role that its submitter's token said. Absent in jobs of Node producers.
    #[serde(skip)]
    pub role: Option<String>,
    /// The kept conversation of its user that its run is part of.
    #[serde(skip)]
    pub conversation_id: Option<String>,
    /// What its submitter asked for beside the query. Queues keep it as one text, [`JobOptions::to_text`].
    #[serde(skip)]
    pub options: JobOptions,
    /// The id that the job is to have, so that adding it twice adds one job. Absent where the queue chooses,
    /// and in claims.
    #[serde(skip)]
    pub id: Option<String>,
    /// The run that the job goes on with: that of a request that waits for somebody, or a child run, whose
    /// journal has its beginning. Absent in claims.
    #[serde(skip)]
    pub goes_on: Option<ParkedRun>,
    /// [`super::Wait::id`] of what another job waits for: the end of this one.
    #[serde(skip)]
    pub parent: Option<String>,
}

/// A run that waits for somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedRun {
    /// The run, whose journal there is.
    pub run_id: String,
    /// When the first of its waits expires.
    pub until: SystemTime,
    /// For what it waits; nothing where it has only been begun.
    pub open: OpenKinds,
}

impl ParkedRun {
    /// Whether its job is parked until then. The job of a run that has only been begun and is due takes its
    /// place behind those that wait for a worker.
    pub fn is_parked(&self, now: SystemTime) -> bool {
        !self.open.is_empty() || self.until > now
    }
}

impl JobData {
    /// A job of that user, without tier and role.
    pub fn new(query: impl Into<String>, user_id: impl Into<String>) -> Self {
        Self {
            query: query.into(),
            user_id: user_id.into(),
            tier: None,
            role: None,
            conversation_id: None,
            options: JobOptions::default(),
            id: None,
            goes_on: None,
            parent: None,
        }
    }

    /// A job that this caller submits, whose run has these options. Without an `input` the history in them
    /// has what is asked.
    pub fn with_options(caller: Principal, input: String, options: Options) -> Self {
        let is_in_history = input.is_empty();
        let query = match &options.call {
            // A job without a query is none.
            Some(call) if is_in_history => format!("(calls {})", call.name),
            _ if is_in_history => asked_in(&options.history),
            _ => input,
        };
        Self { options: JobOptions { options, is_in_history }, ..Self::submitted_by(caller, query) }
    }

    /// A job that this caller submits.
    pub fn submitted_by(caller: Principal, query: String) -> Self {
        let Principal { user_id, tier, role } = caller;
        let user_id = user_id.unwrap_or_default();
        Self { tier, role, ..Self::new(query, user_id) }
    }

    /// The id of its run, where that is known before the job is added: the run that it goes on with, or the
    /// one of the id that its submitter chose. A queue that has forgotten such a job is told of it once more
    /// by a retry or a late statement. The run goes on there behind what its journal has, and whoever follows
    /// the job goes on reading the same events.
    pub fn known_run(&self) -> Option<String> {
        let goes_on = self.goes_on.as_ref().map(|run| run.run_id.clone());
        goes_on.or_else(|| self.id.as_ref().map(|id| format!("{RUN_OF_ID}{id}")))
    }

    /// The id that [`Self::known_run`] made the id of a run of, if it did.
    pub fn id_of_known_run(run_id: &str) -> Option<&str> {
        run_id.strip_prefix(RUN_OF_ID)
    }

    /// The same job under an id that its submitter chose.
    #[must_use]
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// The input of its run: the query, unless the history has that already.
    pub fn input(&self) -> &str {
        if self.options.is_in_history { "" } else { &self.query }
    }

    /// On whose behalf its run is made: the submitter, with the tier and the role of that time.
    pub fn principal(&self) -> Principal {
        let (tier, role) = (self.tier.clone(), self.role.clone());
        Principal { tier, role, ..Principal::user_or_nobody(&self.user_id) }
    }
}

/// What is asked in a history, for people. A job without a query is none.
fn asked_in(history: &[Message]) -> String {
    let asked = history.iter().rev().find_map(|message| match message {
        Message::User { content } => Some(content.text().into_owned()),
        _ => None,
    });
    asked.filter(|text| !text.is_empty()).unwrap_or_else(|| WITHOUT_TEXT.to_owned())
}

/// What the submitter of a job asked for beside its query.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobOptions {
    /// Wishes for the job's run.
    #[serde(flatten)]
    pub options: Options,
    /// Whether the history has what is asked, as it has a question with images or the answer of a function:
    /// the job's query only names it for people.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_in_history: bool,
}

impl JobOptions {
    /// As queues keep it; nothing when nothing was asked for.
    pub fn to_text(&self) -> Option<String> {
        // What could not be written cannot be read either, and fails the job by name.
        (*self != Self::default()).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// What a queue has kept, or what is wrong with it, for the job's owner. A run without options that were
    /// asked for would be another one.
    pub fn from_text(text: Option<&str>) -> Result<Self, String> {
        let Some(text) = text else { return Ok(Self::default()) };
        serde_json::from_str(text).map_err(|_quotes_it| "The options of the job cannot be read.".to_owned())
    }
}

/// A job as clients read it.
#[derive(Debug, Clone)]
pub struct Job {
    /// Given by the queue.
    pub id: String,
    /// Id of the run that an attempt at it makes or would make: that of its claims.
    pub run_id: String,
    /// Whose job it is.
    pub user_id: String,
    /// [`super::Wait::id`] of what another job waits for: the end of this one.
    pub parent: Option<String>,
    /// Where it stands.
    pub status: JobStatus,
    /// The agent's result as JSON, once completed.
    pub result: Option<Box<RawValue>>,
    /// Why it failed, or failed the last time. Safe to show to its owner.
    pub error: Option<String>,
    /// Attempts that have ended.
    pub attempts_made: u32,
    /// When it was added.
    pub created_at: SystemTime,
    /// When its last attempt began.
    pub started_at: Option<SystemTime>,
    /// When it ended for good.
    pub finished_at: Option<SystemTime>,
}

impl Job {
    /// Whether both were read of the same job. A queue that was emptied may give another job the same id.
    pub fn is_of_one_addition_with(&self, other: &Self) -> bool {
        (&self.id, &self.user_id, self.created_at) == (&other.id, &other.user_id, other.created_at)
    }
}

/// Where a job stands (host/docs/interface/decisions-runs.md#jobs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    /// Waiting for a worker.
    Waiting,
    /// Being worked on.
    Active,
    /// Waiting until its next attempt is due.
    Delayed,
    /// The run of the job waits for somebody, and nobody works on it.
    Parked,
    /// It has a result.
    Completed,
    /// It has none and will not be tried again.
    Failed,
    /// Its owner did not want it any more, and nothing works on it.
    Cancelled,
}

impl JobStatus {
    /// All of them, in the order a job may go through them.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Active,
        Self::Delayed,
        Self::Parked,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The status as it stands in JSON, in stores and in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Active => "active",
            Self::Delayed => "delayed",
            Self::Parked => "parked",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether nothing will happen to the job any more.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Which jobs to list.
#[derive(Debug, Clone, Copy)]
pub struct JobQuery<'a> {
    /// Whose.
    pub user_id: &'a str,
    /// Only those that stand there.
    pub status: Option<JobStatus>,
    /// How many at most; at least 1.
    pub limit: usize,
    /// [`JobPage::next_cursor`] of the page before.
    pub cursor: Option<&'a str>,
}

/// Some of a user's jobs.
#[derive(Debug, Clone)]
pub struct JobPage {
    /// The jobs, the newest first.
    pub jobs: Vec<Job>,
    /// Where to go on; absent when there are no more.
    pub next_cursor: Option<String>,
}

/// What became of a wish to cancel a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It was not being worked on and is cancelled now.
    Done,
    /// Whoever works on it has been asked to stop.
    Asked,
    /// It had ended before.
    HadEnded,
    /// Nothing was changed: somebody else's worker holds it, who cannot be told, or it is the next iteration
    /// of a scheduler.
    Refused,
    /// There is no such job.
    Unknown,
}

/// What became of a wish to try a failed job again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryOutcome {
    /// It waits for a worker.
    Done,
    /// It waits, is worked on, or has ended in another way.
    NotFailed,
    /// There is no such job.
    Unknown,
}

/// How many jobs there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Waiting for a worker.
    pub waiting: u64,
    /// Being worked on.
    pub active: u64,
    /// Waiting until their next attempt is due.
    pub delayed: u64,
    /// Waiting for somebody; a queue may count no more than some thousands of them.
    pub parked: u64,
    /// How old the oldest job is that waits for somebody.
    pub oldest_parked: Option<Duration>,
    /// For how long the one that has waited longest has waited.
    pub oldest_waiting: Option<Duration>,
    /// Parked jobs by what their runs wait for, in the order of [`WaitKind::ALL`]. A run that waits for
    /// several kinds is counted in each, and has waited since the first of them.
    pub waits: [WaitDepth; WaitKind::ALL.len()],
}

impl Depth {
    /// Counts runs that all wait for the same kinds.
    pub fn add_waits(&mut self, kinds: OpenKinds, depth: WaitDepth) {
        for (kind, of_kind) in WaitKind::ALL.into_iter().zip(&mut self.waits) {
            if kinds.kinds().any(|other| other == kind) {
                *of_kind = of_kind.and(depth);
            }
        }
    }

    /// How many runs wait for something of that kind.
    pub fn waits_for(&self, kind: WaitKind) -> WaitDepth {
        let mut each = WaitKind::ALL.into_iter().zip(self.waits);
        each.find(|(other, _)| *other == kind).map(|(_, depth)| depth).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_of_a_job_is_what_node_peers_know_whoever_submits_it() {
        let caller =
            Principal { tier: Some("premium".into()), role: Some("admin".into()), ..Principal::user("u1") };
        let job = JobData::submitted_by(caller.clone(), "2+2".into());
        assert_eq!(serde_json::to_string(&job).unwrap(), r#"{"query":"2+2","userId":"u1"}"#);
        assert_eq!(job.principal(), caller);
    }

    #[test]
    fn the_options_of_a_job_are_one_text_beside_its_payload() {
        let user = |text: &str| Message::User { content: text.into() };
        let options = Options { max_tokens: Some(50), history: vec![user("before")], ..Options::default() };
        let job = JobData::with_options(Principal::user("u1"), "2+2".into(), options.clone());
        assert_eq!(serde_json::to_string(&job).unwrap(), r#"{"query":"2+2","userId":"u1"}"#);
        assert_eq!((job.input(), &job.options.options), ("2+2", &options));
        let text = job.options.to_text();
        assert_eq!(JobOptions::from_text(text.as_deref()), Ok(job.options));
        // The query of a job is never empty; what is asked stands in the history all the same.
        let job = JobData::with_options(Principal::user("u1"), String::new(), options);
        assert_eq!((job.query.as_str(), job.input()), ("before", ""));
        assert_eq!(JobOptions::from_text(job.options.to_text().as_deref()), Ok(job.options));
        let job = JobData::with_options(Principal::user("u1"), String::new(), Options::default());
        assert_eq!((job.query.as_str(), job.input()), (WITHOUT_TEXT, ""));
    }

    #[test]
    fn options_that_nobody_asked_for_are_not_kept_and_broken_ones_are_no_options() {
        assert_eq!(JobData::new("2+2", "u1").options.to_text(), None);
        assert_eq!(JobOptions::from_text(None), Ok(JobOptions::default()));
        for broken in ["", "[]", r#"{"maxTokens":"many"}"#] {
            assert!(JobOptions::from_text(Some(broken)).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_job_of_nobody_is_no_users() {
        assert_eq!(JobData::new("2+2", "").principal(), *Principal::nobody());
    }
}
