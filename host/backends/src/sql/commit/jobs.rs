//! What is written about jobs together with other writes: that they are added, that their leases are renewed,
//! and that attempts end. What may become of a job otherwise is said in `queue/statements.rs`.

use std::sync::Arc;
use std::time::SystemTime;

use agent_core::trace;
use agent_core::words::{JobData, JobStatus, OpenKinds, ParkedRun};
use uuid::Uuid;

use super::claims::{ClaimRow, NextClaim};
use crate::sql::text_columns::escape;

/// A job that is to be inserted.
#[derive(Debug)]
pub(crate) struct NewJob {
    pub(super) id: String,
    pub(super) run_id: String,
    pub(super) user_id: String,
    pub(super) query: String,
    pub(super) user_tier: Option<String>,
    pub(super) user_role: Option<String>,
    pub(super) conversation_id: Option<String>,
    pub(super) options: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) traceparent: Option<String>,
    pub(super) status: &'static str,
    /// In how many ms it may be claimed.
    pub(super) delay: i64,
    /// How often its run was carried on already.
    pub(super) claims: i64,
    /// For what its run waits and since when, while it is parked: columns `waits` and `waits_since`.
    pub(super) open: OpenKinds,
    /// What is announced with it.
    pub(super) announcement: Arc<str>,
}

/// A lease that is to last `lease` ms from now, if the claim is still the job's.
#[derive(Debug)]
pub(crate) struct Renewal {
    pub(crate) job_id: String,
    pub(crate) token: String,
    pub(crate) lease: i64,
}

/// The end of an attempt, if the claim is still the job's.
#[derive(Debug)]
pub(crate) struct AttemptRow {
    pub(crate) job_id: String,
    pub(crate) token: String,
    /// Number of the claim: column `claims` until the job is claimed again.
    pub(crate) epoch: i64,
    /// Where the job goes.
    pub(crate) status: &'static str,
    /// In how many ms it may be claimed again.
    pub(crate) delay: i64,
    /// Column `place`.
    pub(crate) place: i64,
    /// Attempts to count.
    pub(crate) attempts: i64,
    /// For what its run waits and since when, if it is parked.
    pub(crate) open: OpenKinds,
    pub(crate) result: Option<String>,
    pub(crate) error: Option<String>,
    /// What is announced when the job goes back to the queue.
    pub(crate) announcement: Arc<str>,
    /// Who wants the next job with it.
    pub(crate) next: Option<NextClaim>,
}

#[cfg(test)]
impl AttemptRow {
    /// An attempt at that job that completed.
    pub(super) fn of(job_id: &str, token: &str, next: Option<NextClaim>) -> Self {
        Self {
            job_id: job_id.into(),
            token: token.into(),
            epoch: 1,
            status: "completed",
            delay: 0,
            place: 1,
            attempts: 1,
            open: OpenKinds::default(),
            result: Some("1".into()),
            error: None,
            announcement: "".into(),
            next,
        }
    }
}

/// What an end came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedRow {
    /// Where the job is.
    pub(crate) status: String,
    /// The job that was claimed with it.
    pub(crate) next: Option<Box<ClaimRow>>,
}

/// The columns of [`NewJob`] in the table of jobs.
pub(super) const NEW_JOB: &str = "id, run_id, user_id, query, user_tier, user_role, conversation_id, options, parent, traceparent, status, claims, waits, waits_since";

/// The columns of `attempt`, from which [`END_ATTEMPTS`] takes what to do.
pub(super) const ATTEMPT: &str = "job_id, job_token, next_status, delay, next_place, attempts, next_result, next_error, next_waits, next_since";

/// A job that nobody wants any more does not go back.
pub(super) const END_ATTEMPTS: &str = "\
    UPDATE jobs SET \
        status = CASE WHEN next_status IN ('waiting', 'parked') AND cancel_asked THEN 'cancelled' ELSE next_status END, \
        finished_at = CASE WHEN next_status IN ('waiting', 'parked') AND NOT cancel_asked THEN NULL \
                           ELSE (SELECT ms FROM clock) END, \
        due_at = (SELECT ms FROM clock) + delay, place = next_place, attempts_made = attempts_made + attempts, \
        result = next_result, \
        error = CASE WHEN next_status = 'completed' THEN NULL ELSE COALESCE(next_error, error) END, \
        worker = NULL, token = NULL, waits = next_waits, waits_since = next_since \
    FROM attempt WHERE id = job_id AND token = job_token AND status = 'active'";

impl NewJob {
    /// Ids of the job and its run are new, unless its submitter chose them. Ids of jobs grow with
    /// time, which is the order of the queue and of lists.
    pub(crate) fn new(job: &JobData, announcement: &Arc<str>) -> Self {
        let (begun, now) = (job.goes_on.as_ref(), SystemTime::now());
        let parked = begun.filter(|run| run.is_parked(now));
        let status = if parked.is_some() { JobStatus::Parked } else { JobStatus::Waiting };
        let left = |run: &ParkedRun| run.until.duration_since(now).unwrap_or_default();
        Self {
            id: job.id.clone().unwrap_or_else(|| Uuid::now_v7().simple().to_string()),
            run_id: job.known_run().unwrap_or_else(new_run_id),
            user_id: escape(&job.user_id).into_owned(),
            query: escape(&job.query).into_owned(),
            user_tier: job.tier.as_deref().map(|tier| escape(tier).into_owned()),
            user_role: job.role.as_deref().map(|role| escape(role).into_owned()),
            conversation_id: job.conversation_id.clone(),
            options: job.options.to_text(),
            parent: job.parent.clone(),
            traceparent: trace::current().map(|context| context.to_string()),
            status: status.as_str(),
            delay: parked.map_or(0, |run| i64::try_from(left(run).as_millis()).unwrap_or(i64::MAX)),
            // Whoever has begun the run counts as a claim: its journal has a beginning. So may that of a run
            // whose id is known before its job is added, if the job was there before and is forgotten.
            claims: i64::from(begun.is_some() || job.known_run().is_some()),
            open: parked.map(|run| run.open).unwrap_or_default(),
            announcement: announcement.clone(),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn bytes(&self) -> usize {
        let beside = [&self.user_tier, &self.user_role, &self.options].into_iter().flatten();
        self.query.len() + self.user_id.len() + beside.map(String::len).sum::<usize>()
    }
}

/// The column `waits` of a job.
pub(super) fn waits(open: OpenKinds) -> i64 {
    i64::from(open.bits)
}

/// The column `waits_since` of a job.
pub(super) fn waits_since(open: OpenKinds) -> i64 {
    i64::try_from(open.since).unwrap_or(i64::MAX)
}

impl AttemptRow {
    pub(super) fn bytes(&self) -> usize {
        [&self.result, &self.error].into_iter().flatten().map(String::len).sum()
    }
}

/// The id of a run that a job makes.
pub(crate) fn new_run_id() -> String {
    format!("run_{}", Uuid::now_v7().simple())
}
