//! How an attempt ends, and its lease with it: completed, failed, retried, released or cancelled. An end is
//! one command, and one that ends the job for good can claim the next one with it.
//!
//! What has to be known of the job for that was noted when it was claimed ([`Claim::notes`]).

use std::time::{Duration, SystemTime};

use agent_core::ports::{AttemptEnd, Claim, ClaimedJob, QueueError, Renewal};
use agent_core::words::{CancelOutcome, OpenKinds};
use redis::{ScriptInvocation, Value};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::cancel_request;
use super::claim::ClaimReply;
use super::job_hash::{OPTIONS, PARKED, RUNS, STACKTRACE, parked_mark};
use super::official_scripts::{End, Ending, NextClaim};
use super::options::{Options, Retry};
use super::own_keys;
use super::store::{Store, broken};
use super::time::{now, to_millis};

/// What the scripts answer when they do nothing.
mod refusal {
    /// The job's owner asked to cancel this attempt, and the job would go on.
    pub(super) const CANCEL_REQUESTED: i64 = -100;
    /// The lease has expired.
    pub(super) const NO_LOCK: i64 = -2;
    /// Children of the job have not ended.
    pub(super) const OPEN_CHILDREN: i64 = -4;
    /// Children of the job have failed.
    pub(super) const FAILED_CHILDREN: i64 = -9;
}

/// An attempt that ends, and what is stored of its job.
struct EndingJob<'a> {
    claim: &'a Claim,
    /// Id of the job in its shard.
    job_id: &'a str,
    /// What its producer asked for.
    options: Options,
    /// How many of its runs will have ended when this one has.
    runs_after: String,
    /// The attempt, as a request to cancel names it.
    attempt: String,
    /// Tells this end from others of the same attempt.
    digest: String,
    /// Who wants the next job.
    worker: Option<&'a str>,
}

impl Store {
    pub(super) async fn finish(&self, claim: &Claim, end: &AttemptEnd) -> Result<(), QueueError> {
        self.end(&self.ending_job(claim, end, None), end).await.map(drop)
    }

    /// Ends an attempt and claims the next job with it, when the job has ended for good.
    pub(super) async fn finish_and_claim(&self, claim: &Claim, end: &AttemptEnd, worker: &str) -> ClaimedJob {
        self.end(&self.ending_job(claim, end, Some(worker)), end).await
    }

    fn ending_job<'a>(&self, claim: &'a Claim, end: &AttemptEnd, worker: Option<&'a str>) -> EndingJob<'a> {
        EndingJob::new(claim, self.shard.local_id(&claim.job_id), end, worker)
    }

    async fn end(&self, job: &EndingJob<'_>, end: &AttemptEnd) -> ClaimedJob {
        match end {
            AttemptEnd::Completed(result) => self.complete(job, result.get()).await,
            AttemptEnd::Cancelled => self.cancel_as_worker(job.claim).await.map(|()| None),
            AttemptEnd::Failed { error, retry } => {
                match job.options.retry(job.claim.attempts_made).filter(|_| *retry) {
                    Some(retry) => self.retry(job, error, &retry).await.map(|()| None),
                    None => self.fail(job, error).await,
                }
            }
            AttemptEnd::Parked { until, open } => {
                let delay = until.duration_since(SystemTime::now()).unwrap_or_default();
                let ending = Ending { open: *open, ..job.ending() };
                let parked = self.official.delay(&ending, false, &[PARKED, &parked_mark(*open)], delay);
                self.end_attempt(job.claim, &parked.map_err(broken)?).await?;
                self.keep_listed(job.claim, delay).await;
                Ok(None)
            }
            AttemptEnd::HandedBack { delay } if !delay.is_zero() => {
                let delay =
                    self.official.delay(&job.ending(), false, &[PARKED, ""], *delay).map_err(broken)?;
                self.end_attempt(job.claim, &delay).await.map(|()| None)
            }
            AttemptEnd::HandedBack { .. } => {
                let release = self.official.release(&job.ending());
                self.end_attempt(job.claim, &release).await.map(|()| None)
            }
        }
    }

    async fn complete(&self, job: &EndingJob<'_>, result: &str) -> ClaimedJob {
        let fields = [RUNS, &*job.runs_after];
        match self.end_for_good(job, End::Completed(result), &fields).await? {
            (refusal::OPEN_CHILDREN | refusal::FAILED_CHILDREN, _) => {
                self.fail(job, "a job that this one depends on has not completed").await
            }
            (_, next) => Ok(next),
        }
    }

    async fn fail(&self, job: &EndingJob<'_>, reason: &str) -> ClaimedJob {
        let stacktrace = job.stacktrace(reason);
        let fields = ["failedReason", reason, STACKTRACE, &*stacktrace, RUNS, &*job.runs_after];
        self.end_for_good(job, End::Failed(reason), &fields).await.map(|(_, next)| next)
    }

    /// Ends a job for good, also one that was to be cancelled: its end came first. Says what BullMQ answers,
    /// and gives the next job if one is wanted and there is one.
    async fn end_for_good(
        &self,
        job: &EndingJob<'_>,
        end: End<'_>,
        fields: &[&str],
    ) -> Result<(i64, Option<Claim>), QueueError> {
        let token = job.worker.map(|worker| job.next_token(worker));
        let next = token.as_deref().zip(job.worker).map(|(token, worker)| NextClaim {
            token,
            worker,
            looks_for_stalled: self.is_stalled_check_due(),
        });
        let finish = self.official.finish(&job.ending(), end, (&job.options, fields), next.as_ref());
        let leased_at = Instant::now();
        let (answer, given) = self.answer_to(job.claim, &finish.map_err(broken)?).await?;
        let Some(token) = token else { return Ok((answer, None)) };
        // The job has ended, whatever becomes of the next one: it is claimed again when its lease has
        // expired.
        match self.read_given(given, token, leased_at).await {
            Ok(ClaimReply::Claim(claim, _)) => Ok((answer, Some(*claim))),
            Ok(ClaimReply::Nothing(_)) => Ok((answer, None)),
            Err(error) => {
                tracing::debug!(%error, "a job that was claimed with the end of another one is given up");
                Ok((answer, None))
            }
        }
    }

    /// Cancels a job for its owner.
    pub(super) async fn cancel(&self, job_id: &str) -> Result<CancelOutcome, QueueError> {
        let outcome: String = self.run(&self.own.cancel(job_id, None, now())).await?;
        Ok(match &*outcome {
            "done" => {
                self.remove(job_id).await;
                CancelOutcome::Done
            }
            "asked" => CancelOutcome::Asked,
            "ended" => CancelOutcome::HadEnded,
            "refused" => CancelOutcome::Refused,
            _ => CancelOutcome::Unknown,
        })
    }

    /// Cancels a job whose worker has stopped working on it.
    async fn cancel_as_worker(&self, claim: &Claim) -> Result<(), QueueError> {
        let job_id = self.shard.local_id(&claim.job_id);
        let outcome: String = self.run(&self.own.cancel(job_id, Some(claim), now())).await?;
        if outcome != "done" {
            return Err(lost(claim));
        }
        self.remove(job_id).await;
        Ok(())
    }

    /// Removes what is stored of a job that is cancelled. Should that fail, the job is cancelled all the same
    /// and only takes room.
    async fn remove(&self, job_id: &str) {
        let removed: Result<i64, _> = self.run(&self.official.remove(job_id)).await;
        if !matches!(removed, Ok(1)) {
            tracing::warn!(job_id, answer = ?removed, "what is stored of a cancelled job could not be removed");
        }
    }

    async fn retry(&self, job: &EndingJob<'_>, reason: &str, retry: &Retry) -> Result<(), QueueError> {
        if let Some(strategy) = &retry.unknown {
            let job_id = &job.claim.job_id;
            tracing::warn!(
                job_id,
                strategy,
                "this backoff strategy is not known here: the waits double from 2 s"
            );
        }
        let stacktrace = job.stacktrace(reason);
        let fields = ["failedReason", reason, STACKTRACE, &*stacktrace];
        let script = if retry.delay.is_zero() {
            self.official.retry(&job.ending(), &job.options, &fields, now())
        } else {
            self.official.delay(&job.ending(), true, &[&fields[..], &[PARKED, ""]].concat(), retry.delay)
        };
        self.end_attempt(job.claim, &script.map_err(broken)?).await
    }

    /// Keeps the owner's list for as long as a parked job may wait, and as long as any list behind that.
    /// Should that fail, the job goes on all the same.
    async fn keep_listed(&self, claim: &Claim, delay: Duration) {
        let Ok(data) = &claim.data else { return };
        let (key, kept) = (self.own_keys.user(&data.user_id), (delay + self.kept_for).as_secs());
        let kept = self.redis.command::<()>(&own_keys::keep_at_least(&key, kept)).await;
        if let Err(error) = kept {
            tracing::debug!(job_id = claim.job_id, %error, "a list of jobs may end before what it lists");
        }
    }

    /// Ends an attempt after which there may be another one, unless the job is to be cancelled instead:
    /// nobody is to claim again what its owner does not want.
    async fn end_attempt(&self, claim: &Claim, script: &ScriptInvocation<'_>) -> Result<(), QueueError> {
        match self.answer_to(claim, script).await? {
            (refusal::CANCEL_REQUESTED, _) => self.cancel_as_worker(claim).await,
            _ => Ok(()),
        }
    }

    /// Runs a script that ends a lease. One that has expired is renewed once more, if nobody else has the
    /// job. Gives the script's answer, and what it says beside that.
    async fn answer_to(
        &self,
        claim: &Claim,
        script: &ScriptInvocation<'_>,
    ) -> Result<(i64, Value), QueueError> {
        let (mut answer, mut beside) = read_answer(self.run(script).await?);
        if answer == refusal::NO_LOCK && self.renew(claim).await? != Renewal::Lost {
            (answer, beside) = read_answer(self.run(script).await?);
        }
        match answer {
            0.. | refusal::CANCEL_REQUESTED | refusal::OPEN_CHILDREN | refusal::FAILED_CHILDREN => {
                Ok((answer, beside))
            }
            _ => Err(lost(claim)),
        }
    }
}

impl<'a> EndingJob<'a> {
    fn new(claim: &'a Claim, job_id: &'a str, end: &AttemptEnd, worker: Option<&'a str>) -> Self {
        let note = |name: &str| claim.notes.get(name).map(String::as_str);
        let runs: u64 = note(RUNS).and_then(|runs| runs.parse().ok()).unwrap_or(0);
        Self {
            claim,
            job_id,
            options: Options::parse(note(OPTIONS)),
            runs_after: runs.saturating_add(1).to_string(),
            attempt: cancel_request::attempt_of(claim),
            digest: digest_of(end),
            worker,
        }
    }

    fn ending(&self) -> Ending<'_> {
        let (token, open) = (&self.claim.token, OpenKinds::default());
        Ending { job_id: self.job_id, token, attempt: &self.attempt, digest: &self.digest, open }
    }

    fn stacktrace(&self, reason: &str) -> String {
        self.options.stacktrace(self.claim.notes.get(STACKTRACE).map(String::as_str), reason)
    }

    /// The token of the claim that this end makes: the same one however often the end is sent, so that the
    /// job which was claimed the first time is given again.
    fn next_token(&self, worker: &str) -> String {
        // The first half of a digest: others tell the tokens of our workers by their 32 digits.
        format!("{worker}:{:.32x}", Sha256::digest(format!("{}\0{}", self.claim.token, self.digest)))
    }
}

fn digest_of(end: &AttemptEnd) -> String {
    let mut digest = Sha256::new();
    let mut add = |part: &str| digest.update(format!("{}:{part}", part.len()));
    match end {
        AttemptEnd::Completed(result) => ["completed", result.get()].into_iter().for_each(&mut add),
        AttemptEnd::Failed { error, retry } => {
            ["failed", error, if *retry { "again" } else { "" }].into_iter().for_each(&mut add);
        }
        AttemptEnd::Cancelled => add("cancelled"),
        AttemptEnd::Parked { until, .. } => {
            ["parked", &to_millis(*until).to_string()].into_iter().for_each(&mut add)
        }
        AttemptEnd::HandedBack { delay } => {
            ["handed back", &delay.as_millis().to_string()].into_iter().for_each(&mut add);
        }
    }
    format!("{:.32x}", digest.finalize())
}

/// A number alone, or with something beside it.
fn read_answer(answer: Value) -> (i64, Value) {
    /// No answer of BullMQ's: the lease counts as lost.
    const UNREADABLE: i64 = -1;
    match answer {
        Value::Int(number) => (number, Value::Nil),
        Value::Array(both) => match <[Value; 2]>::try_from(both) {
            Ok([Value::Int(number), beside]) => (number, beside),
            _ => (UNREADABLE, Value::Nil),
        },
        _ => (UNREADABLE, Value::Nil),
    }
}

fn lost(claim: &Claim) -> QueueError {
    QueueError::LeaseLost { job_id: claim.job_id.clone() }
}
