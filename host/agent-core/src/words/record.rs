//! The record of a run: what is known of it without reading its journal.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::{AgentResult, StopReason, Usage};

/// What is known of a run without reading its journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Id of the run, `run_…`.
    pub id: String,
    /// The HTTP request or job it was made for.
    pub request_id: String,
    /// Who asked; nobody is known in Variant A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The job it belongs to; absent for the run of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// When it began. Stores keep at least milliseconds.
    pub started_at: SystemTime,
    /// When it ended, or of one that has not its last heartbeat, or when its wait expires.
    pub finished_at: SystemTime,
    /// How it ended.
    pub outcome: RunOutcome,
}

impl RunRecord {
    /// When the run ended, or the last heartbeat of one that is streamed. None of one that a job goes on
    /// with: stores keep there when its wait expires, which may lie ahead.
    pub fn last_seen(&self) -> Option<SystemTime> {
        let is_a_jobs = self.outcome == RunOutcome::Running && self.job_id.is_some();
        (!is_a_jobs).then_some(self.finished_at)
    }

    /// For how long the run has been seen to go on. None where [`Self::last_seen`] is not known.
    pub fn took(&self) -> Option<Duration> {
        self.last_seen().map(|end| end.duration_since(self.started_at).unwrap_or_default())
    }

    /// Whether this came too late to be written over `kept`: a heartbeat behind a later one or behind the
    /// run's end, or the failure of an attempt behind a result that another one came to.
    pub fn is_behind(&self, kept: &Self) -> bool {
        match &self.outcome {
            RunOutcome::Running => kept.outcome != RunOutcome::Running || kept.finished_at > self.finished_at,
            RunOutcome::Failed { .. } => matches!(kept.outcome, RunOutcome::Ended { .. }),
            RunOutcome::Ended { .. } => false,
        }
    }
}

/// Which records to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunQuery<'a> {
    /// Whose runs; everybody's without one.
    pub user_id: Option<&'a str>,
    /// How many at most.
    pub limit: u32,
    /// The last one of the page before: when it ended, and its id.
    pub after: Option<(SystemTime, &'a str)>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunOutcome {
    /// Not yet. Without a job it is a run that is streamed, and [`RunRecord::finished_at`] its owner's last
    /// heartbeat. With one it is a request's run that waited for somebody and that the job goes on with:
    /// `finished_at` is when that wait expires, which may lie ahead, and stays so until the run ends.
    Running,
    /// With a result.
    Ended {
        /// Why it stopped.
        stop_reason: StopReason,
        /// Model calls made.
        iterations: u32,
        /// Tokens of all of them.
        usage: Usage,
        /// `provider/model` of the last reply.
        model: String,
    },
    /// Without one.
    Failed {
        /// The error with its chain. It may name a provider, never a key.
        error: String,
        /// Model calls that were answered; 0 in records of older versions.
        #[serde(default)]
        iterations: u32,
        /// Tokens of all of them.
        #[serde(default)]
        usage: Usage,
        /// What a client is told of it. Absent in records of older versions.
        #[serde(default, skip_serializing_if = "FailureKind::is_internal")]
        kind: FailureKind,
    },
}

impl RunOutcome {
    /// The outcome of a run with this result.
    pub fn of(result: &AgentResult) -> Self {
        let AgentResult { stop_reason, iterations, usage, .. } = *result;
        Self::Ended { stop_reason, iterations, usage, model: result.model.clone() }
    }
}

/// What a client is told of a failure whose error is not at hand any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Something broke.
    #[default]
    Internal,
    /// The client is told that the request may work later.
    Unavailable,
    /// The provider limits our rate.
    RateLimited,
}

impl FailureKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_internal(&self) -> bool {
        *self == Self::Internal
    }
}
