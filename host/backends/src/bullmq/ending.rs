//! Leases and how they end.

use std::time::Duration;

use agent_core::ports::queue::{ATTEMPTS, FIRST_BACKOFF};
use agent_core::ports::{AttemptEnd, Cancelling, Claim, QueueError, Renewal};
use bullmq::JobOptions;
use bullmq::types::BackoffStrategy;
use redis::ScriptInvocation;

use super::official::{End, millis};
use super::ours::wish_key;
use super::{Store, broken, now, store_error};

/// Longest wait for the next attempt, whatever was asked for.
const LONGEST_BACKOFF: Duration = Duration::from_secs(24 * 60 * 60);

/// What BullMQ's scripts answer when they do nothing.
mod refusal {
    /// The lease has run out.
    pub(super) const NO_LOCK: i64 = -2;
    /// Children of the job have not ended.
    pub(super) const OPEN_CHILDREN: i64 = -4;
    /// Children of the job have failed.
    pub(super) const FAILED_CHILDREN: i64 = -9;
}

impl Store {
    pub(super) async fn renew(&self, claim: &Claim) -> Result<Renewal, QueueError> {
        Ok(match self.run::<i64>(&self.ours.renew(claim)).await? {
            1 => Renewal::Held,
            2 => Renewal::Cancelled,
            _ => Renewal::Lost,
        })
    }

    pub(super) async fn finish(&self, claim: &Claim, end: &AttemptEnd) -> Result<(), QueueError> {
        let holder = (&*claim.job_id, &*claim.token);
        let (options, wish) = self.options(&claim.job_id).await?;
        match end {
            AttemptEnd::Completed(result) => {
                let finish = self.official.finish(holder, End::Completed(result.get()), &options, now());
                match self.end_attempt(claim, &finish.map_err(broken)?).await? {
                    refusal::OPEN_CHILDREN | refusal::FAILED_CHILDREN => {
                        let reason = "a job that this one depends on has not completed";
                        self.fail(claim, reason, &options).await?;
                    }
                    _ => {}
                }
                self.forget(wish, &claim.job_id).await
            }
            AttemptEnd::Cancelled => self.cancel_as_worker(claim).await,
            // Nobody is to take up again what its owner does not want.
            AttemptEnd::Failed { .. } | AttemptEnd::HandedBack { .. } if wish => {
                self.cancel_as_worker(claim).await
            }
            AttemptEnd::Failed { error, retry } => {
                match next_attempt(&options, claim.attempts_made).filter(|_| *retry) {
                    Some(delay) => {
                        let delay = self.official.delay(holder, Some(error), delay, now());
                        self.end_attempt(claim, &delay.map_err(broken)?).await.map(drop)
                    }
                    None => self.fail(claim, error, &options).await,
                }
            }
            AttemptEnd::HandedBack { delay } if !delay.is_zero() => {
                let delay = self.official.delay(holder, None, *delay, now());
                self.end_attempt(claim, &delay.map_err(broken)?).await.map(drop)
            }
            AttemptEnd::HandedBack { .. } => {
                let hand_back = self.official.hand_back(&claim.job_id, &claim.token);
                self.end_attempt(claim, &hand_back).await.map(drop)
            }
        }
    }

    /// Cancels a job for its owner.
    pub(super) async fn cancel(&self, job_id: &str) -> Result<Cancelling, QueueError> {
        let outcome: String = self.run(&self.ours.cancel(job_id, None, now())).await?;
        Ok(match &*outcome {
            "done" => {
                self.remove(job_id).await;
                Cancelling::Done
            }
            "asked" => Cancelling::Asked,
            "ended" => Cancelling::HadEnded,
            _ => Cancelling::Unknown,
        })
    }

    async fn cancel_as_worker(&self, claim: &Claim) -> Result<(), QueueError> {
        let outcome: String = self.run(&self.ours.cancel(&claim.job_id, Some(claim), now())).await?;
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

    async fn fail(&self, claim: &Claim, reason: &str, options: &JobOptions) -> Result<(), QueueError> {
        let fail = self.official.finish((&claim.job_id, &claim.token), End::Failed(reason), options, now());
        self.end_attempt(claim, &fail.map_err(broken)?).await.map(drop)
    }

    /// Runs a script that ends a lease. One that has run out is taken up once more, if nobody else has the job.
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

    /// What whoever added the job asked for, and whether its owner wishes to cancel it.
    async fn options(&self, job_id: &str) -> Result<(JobOptions, bool), QueueError> {
        let mut both = redis::pipe();
        both.cmd("HGET").arg(self.keys.job_key(job_id)).arg("opts");
        both.cmd("EXISTS").arg(wish_key(job_id));
        let both = &both;
        let asked = self.redis.ask(|mut redis| async move { both.query_async(&mut redis).await }).await;
        let (options, wish): (Option<String>, bool) = asked.map_err(store_error)?;
        let options = options.and_then(|options| serde_json::from_str(&options).ok());
        Ok((options.unwrap_or_default(), wish))
    }

    /// Forgets a wish that came too late, lest it hit another attempt that somebody asks for in Bull Board.
    async fn forget(&self, wish: bool, job_id: &str) -> Result<(), QueueError> {
        if !wish {
            return Ok(());
        }
        let wish = &wish_key(job_id);
        let forget = |mut redis| async move { redis::cmd("DEL").arg(wish).query_async(&mut redis).await };
        self.redis.ask(forget).await.map_err(store_error)
    }
}

/// How long to wait for the next attempt; nothing when there is to be none.
fn next_attempt(options: &JobOptions, attempts_made: u32) -> Option<Duration> {
    // Node writes 0 when nothing was asked for.
    let asked = options.attempts.filter(|attempts| *attempts > 0);
    let failed = attempts_made.saturating_add(1);
    if failed >= asked.unwrap_or(ATTEMPTS) {
        return None;
    }
    let doubled = |first: u64| first.saturating_mul(1 << (failed - 1).min(32));
    let delay = match (&options.backoff, asked) {
        (Some(BackoffStrategy::Fixed(delay)), _) => *delay,
        (Some(BackoffStrategy::Exponential(first)), _) => doubled(*first),
        (None, Some(_)) => 0,
        // A strategy of somebody else's worker, or none of whose attempts we chose the number.
        (Some(BackoffStrategy::Custom(_)), _) | (None, None) => doubled(millis(FIRST_BACKOFF)),
    };
    Some(Duration::from_millis(delay).min(LONGEST_BACKOFF))
}

fn lost(claim: &Claim) -> QueueError {
    QueueError::LeaseLost { job_id: claim.job_id.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_and_backoff_are_as_asked_for_else_ours() {
        let delays = |options: &JobOptions| -> Vec<u64> {
            (0..).map_while(|made| next_attempt(options, made)).map(millis).collect()
        };
        let node = |options: &str| serde_json::from_str::<JobOptions>(options).unwrap();
        assert_eq!(delays(&node(r#"{"attempts": 0}"#)), [2000, 4000]);
        assert_eq!(delays(&node(r#"{"attempts": 1}"#)), [] as [u64; 0]);
        assert_eq!(delays(&node(r#"{"attempts": 3}"#)), [0, 0]);
        assert_eq!(delays(&node(r#"{"attempts": 3, "backoff": {"type": "fixed", "delay": 5}}"#)), [5, 5]);
        let exponential = r#"{"attempts": 4, "backoff": {"type": "exponential", "delay": 10}}"#;
        assert_eq!(delays(&node(exponential)), [10, 20, 40]);
    }
}
