//! What the core tells whoever counts: one trait whose methods do nothing until somebody wants to know.
//!
//! What does not belong here: metrics and their names.

use std::time::{Duration, SystemTime};

use super::RetainedKind;
use crate::words::{Decision, JobStatus, Verdict, Wait, WaitKind};

/// Is told what happens. Called on the way of requests, so it has to be quick.
pub trait Observer: Send + Sync {
    /// A request was answered with or without the result cache.
    fn cache_used(&self, _how: CacheUse) {}

    /// A request's hits were counted in this process only, because the shared windows failed.
    fn rates_fell_back(&self) {}

    /// The journals or records of this many runs were given up before they were stored. Told once for each
    /// run.
    fn records_lost(&self, _runs: u64) {}

    /// A call of this model failed and is made again.
    fn model_asked_again(&self, _model: &str) {}

    /// An attempt at a job ended, so long after it began.
    fn attempt_ended(&self, _end: AttemptOutcome, _took: Duration) {}

    /// A run began to wait.
    fn wait_began(&self, _kind: WaitKind) {}

    /// A decision was made about a wait.
    fn wait_decided(&self, _decided: WaitDecided<'_>) {}

    /// A sweep removed so many.
    fn swept(&self, _kind: RetainedKind, _removed: u64) {}

    /// Nothing is overdue to be removed at the moment: a sweep has just come to its end, or this process has
    /// just begun to look whether one is due.
    fn nothing_overdue(&self, _kind: RetainedKind) {}

    fn sweep_failed(&self, _kind: RetainedKind) {}

    /// When the one ended that is kept for longest; nothing when none is kept.
    fn oldest_retained(&self, _kind: RetainedKind, _ended_at: Option<SystemTime>) {}
}

/// A decision about a wait.
#[derive(Debug, Clone, Copy)]
pub struct WaitDecided<'a> {
    pub wait: &'a Wait,
    pub decision: &'a Decision,
}

impl WaitDecided<'_> {
    /// What was decided, as it stands in metric labels: an expiry is told from what somebody decides.
    pub fn outcome(&self) -> &'static str {
        let Decision { by, at, verdict, .. } = self.decision;
        let has_expired = by.is_none() && *at >= self.wait.expires_at;
        match verdict {
            // A timer's time has come, which is what it waits for.
            Verdict::Answer { .. } if has_expired => "answer",
            _ if has_expired => "expired",
            verdict => verdict.as_str(),
        }
    }

    /// How long after its beginning.
    pub fn after(&self) -> Duration {
        Duration::from_millis(self.decision.at.saturating_sub(self.wait.began_at))
    }
}

/// An observer that looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// What the result cache did for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheUse {
    /// The cache had the result.
    Hit,
    /// The cache had no result, and the agent ran.
    Miss,
    /// Somebody else had asked the same a moment before and both got that answer.
    Shared,
    /// The cache failed or was too slow. Told besides the others.
    Failed,
}

impl CacheUse {
    /// As it stands in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Shared => "shared",
            Self::Failed => "failed",
        }
    }
}

/// What became of an attempt at a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// The job has a result.
    Completed,
    /// The job failed.
    Failed,
    /// The owner of the job did not want it any more.
    Cancelled,
    /// The job was given back, to be taken up again.
    HandedBack,
    /// The run waits for somebody.
    Parked,
    /// Somebody else has it.
    Lost,
}

impl AttemptOutcome {
    /// As it stands in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => JobStatus::Completed.as_str(),
            Self::Failed => JobStatus::Failed.as_str(),
            Self::Cancelled => JobStatus::Cancelled.as_str(),
            Self::HandedBack => "handed_back",
            Self::Parked => "parked",
            Self::Lost => "lost",
        }
    }
}
