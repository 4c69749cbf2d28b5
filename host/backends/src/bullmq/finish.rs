//! How an attempt ends, and its lease with it: completed, failed, retried, released or cancelled.

use agent_core::ports::{AttemptEnd, Claim, QueueError, Renewal};
use agent_core::words::CancelOutcome;
use redis::ScriptInvocation;

use super::cancel_request;
use super::job_hash::RUNS;
use super::official_scripts::{End, Holder};
use super::options::{Options, Retry};
use super::store::{Store, broken, store_error};
use super::time::now;

/// What BullMQ's scripts answer when they do nothing.
mod refusal {
    /// The lease has expired.
    pub(super) const NO_LOCK: i64 = -2;
    /// Children of the job have not ended.
    pub(super) const OPEN_CHILDREN: i64 = -4;
    /// Children of the job have failed.
    pub(super) const FAILED_CHILDREN: i64 = -9;
}

type Texts = (Option<String>, Option<String>, Option<String>);

/// What is stored of a job whose attempt ends.
struct EndingJob {
    /// What whoever added it asked for.
    options: Options,
    stacktrace: Option<String>,
    /// How many of its runs will have ended when this one has.
    runs_after: String,
    /// Its owner asked to cancel this attempt.
    is_cancel_requested: bool,
}

impl Store {
    pub(super) async fn finish(&self, claim: &Claim, end: &AttemptEnd) -> Result<(), QueueError> {
        let job = self.load(claim).await?;
        match end {
            AttemptEnd::Completed(result) => self.complete(claim, result.get(), &job).await,
            AttemptEnd::Cancelled => self.cancel_as_worker(claim).await,
            // Nobody is to claim again what its owner does not want.
            AttemptEnd::Failed { .. } | AttemptEnd::HandedBack { .. } if job.is_cancel_requested => {
                self.cancel_as_worker(claim).await
            }
            AttemptEnd::Failed { error, retry } => {
                match job.options.retry(claim.attempts_made).filter(|_| *retry) {
                    Some(retry) => self.retry(claim, error, &retry, &job).await,
                    None => self.fail(claim, error, &job).await,
                }
            }
            AttemptEnd::HandedBack { delay } if !delay.is_zero() => {
                let delay = self.official.delay(holder(claim), false, &[], *delay);
                self.end_attempt(claim, &delay.map_err(broken)?).await.map(drop)
            }
            AttemptEnd::HandedBack { .. } => {
                let release = self.official.release(&claim.job_id, &claim.token);
                self.end_attempt(claim, &release).await.map(drop)
            }
        }
    }

    async fn complete(&self, claim: &Claim, result: &str, job: &EndingJob) -> Result<(), QueueError> {
        let fields = [RUNS, &*job.runs_after];
        let finish = self.official.finish(holder(claim), End::Completed(result), &job.options, &fields);
        match self.end_attempt(claim, &finish.map_err(broken)?).await? {
            refusal::OPEN_CHILDREN | refusal::FAILED_CHILDREN => {
                self.fail(claim, "a job that this one depends on has not completed", job).await?;
            }
            _ => {}
        }
        if job.is_cancel_requested { self.forget_cancel_request(&claim.job_id).await } else { Ok(()) }
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

    async fn cancel_as_worker(&self, claim: &Claim) -> Result<(), QueueError> {
        let outcome: String = self.run(&self.own.cancel(&claim.job_id, Some(claim), now())).await?;
        if outcome != "done" {
            return Err(lost(claim));
        }
        self.remove(&claim.job_id).await;
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

    async fn retry(
        &self,
        claim: &Claim,
        reason: &str,
        retry: &Retry,
        job: &EndingJob,
    ) -> Result<(), QueueError> {
        if let Some(strategy) = &retry.unknown {
            let job_id = &claim.job_id;
            tracing::warn!(
                job_id,
                strategy,
                "this backoff strategy is not known here: the waits double from 2 s"
            );
        }
        let stacktrace = job.options.stacktrace(job.stacktrace.as_deref(), reason);
        let fields = ["failedReason", reason, "stacktrace", &*stacktrace];
        let script = if retry.delay.is_zero() {
            self.official.retry(holder(claim), &job.options, &fields, now())
        } else {
            self.official.delay(holder(claim), true, &fields, retry.delay)
        };
        self.end_attempt(claim, &script.map_err(broken)?).await.map(drop)
    }

    async fn fail(&self, claim: &Claim, reason: &str, job: &EndingJob) -> Result<(), QueueError> {
        let stacktrace = job.options.stacktrace(job.stacktrace.as_deref(), reason);
        let fields = ["failedReason", reason, "stacktrace", &*stacktrace, RUNS, &*job.runs_after];
        let fail = self.official.finish(holder(claim), End::Failed(reason), &job.options, &fields);
        self.end_attempt(claim, &fail.map_err(broken)?).await.map(drop)
    }

    /// Runs a script that ends a lease. One that has expired is renewed once more, if nobody else has the job.
    async fn end_attempt(&self, claim: &Claim, script: &ScriptInvocation<'_>) -> Result<i64, QueueError> {
        let mut answer = self.run(script).await?;
        if answer == refusal::NO_LOCK && self.renew(claim).await? != Renewal::Lost {
            answer = self.run(script).await?;
        }
        match answer {
            0.. | refusal::OPEN_CHILDREN | refusal::FAILED_CHILDREN => Ok(answer),
            _ => Err(lost(claim)),
        }
    }

    /// What ending an attempt has to know of its job.
    async fn load(&self, claim: &Claim) -> Result<EndingJob, QueueError> {
        let mut both = redis::pipe();
        both.cmd("HMGET").arg(self.keys.job_key(&claim.job_id)).arg(&["opts", "stacktrace", RUNS]);
        both.cmd("GET").arg(cancel_request::key(&claim.job_id));
        let both = &both;
        let queried = self.redis.query(|mut redis| async move { both.query_async(&mut redis).await }).await;
        let ((options, stacktrace, runs), request): (Texts, Option<String>) = queried.map_err(store_error)?;
        let runs: u64 = runs.and_then(|runs| runs.parse().ok()).unwrap_or(0);
        Ok(EndingJob {
            options: Options::parse(options.as_deref()),
            stacktrace,
            runs_after: runs.saturating_add(1).to_string(),
            is_cancel_requested: request.is_some_and(|request| request == cancel_request::attempt_of(claim)),
        })
    }

    /// A request that came too late must not hit another attempt that somebody asks for in Bull Board.
    async fn forget_cancel_request(&self, job_id: &str) -> Result<(), QueueError> {
        let key = &cancel_request::key(job_id);
        let forget = |mut redis| async move { redis::cmd("DEL").arg(key).query_async(&mut redis).await };
        self.redis.query(forget).await.map_err(store_error)
    }
}

fn holder(claim: &Claim) -> Holder<'_> {
    (&claim.job_id, &claim.token)
}

fn lost(claim: &Claim) -> QueueError {
    QueueError::LeaseLost { job_id: claim.job_id.clone() }
}
