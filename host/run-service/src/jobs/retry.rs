//! Retries a job that failed for good: one more attempt, in a run of its own. What that run waits for and how
//! it ends is sent to the job's webhook like that of the run before.

use std::time::Duration;

use agent_core::ports::{JobQueue, QueueError, WebhookError, WebhookOutbox};
use agent_core::words::{JobStatus, RetryOutcome, Wait};
use tracing::warn;

/// How far the clocks of the queue and of the outbox may be apart without the end of a job's first run taking
/// the message id of a retried one.
pub(crate) const CLOCKS_APART: Duration = Duration::from_secs(1);

/// Why a job is not retried. The queue has the job as it was then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRetried {
    #[error("there is no such job")]
    Unknown,
    #[error("only a job that failed can be tried again")]
    NotFailed,
    /// A parent is told of the end of its child once. A new run of the child would not have the limits of its
    /// parent, would not be stopped with it, and its tokens would be on no bill.
    #[error(
        "the job is a run that job {parent} began and is told the end of once: retry that one, if it failed"
    )]
    ChildRun {
        /// The job of the run that began this one.
        parent: String,
    },
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
}

/// Puts a job that failed for good back to the queue, whoever's it is, and has its webhook in `outbox` sent
/// anew. `outbox` is absent where no webhooks are kept.
///
/// The webhook is armed first, and counts as submitted behind the failure by the queue's clock: so the
/// dispatcher leaves it alone until the queue has put the job back, and tells the two ends apart. A process
/// that dies in between leaves a job that has failed and a webhook that repeats the failure after a while. In
/// the other order nothing would tell of the new run. A failure that was not sent by then is not sent. Behind
/// the retry the webhook is opened once more if it was ended meanwhile: by a failure that was sent after all,
/// as the queue was slow, or by that of another retry.
///
/// Not cancellation-safe: dropped, the job may be retried or not.
pub async fn retry(
    queue: &dyn JobQueue,
    outbox: Option<&dyn WebhookOutbox>,
    job_id: &str,
) -> Result<(), NotRetried> {
    let job = queue.read(job_id).await?.ok_or(NotRetried::Unknown)?;
    if let Some(wait) = job.parent.as_deref() {
        return Err(NotRetried::ChildRun { parent: Wait::job_of(wait).unwrap_or(wait).to_owned() });
    }
    if job.status != JobStatus::Failed {
        return Err(NotRetried::NotFailed);
    }
    if let Some(outbox) = outbox {
        let failed = job.finished_at.unwrap_or(job.created_at) + Duration::from_millis(1);
        outbox.rearm(job_id, failed.max(job.created_at + 2 * CLOCKS_APART)).await?;
    }
    match queue.retry(job_id).await? {
        RetryOutcome::Done => {
            if let Some(outbox) = outbox
                && let Err(error) = outbox.replay(job_id).await
            {
                warn!(job_id, %error, "nobody is told of the new run of a job if a failure was sent while it was retried");
            }
            Ok(())
        }
        RetryOutcome::NotFailed => Err(NotRetried::NotFailed),
        RetryOutcome::Unknown => Err(NotRetried::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use agent_core::testing::{TestOutbox, TestQueue};
    use agent_core::words::JobData;

    use super::*;

    #[tokio::test]
    async fn only_a_job_that_failed_is_retried_and_once() {
        let queue = TestQueue::default();
        let id = queue.add(&JobData::new("2+2", "u1")).await.unwrap();
        assert_eq!(retry(&queue, None, "nope").await, Err(NotRetried::Unknown));
        assert_eq!(retry(&queue, None, &id).await, Err(NotRetried::NotFailed));
        queue.change(&id, |job| job.status = JobStatus::Failed);
        assert_eq!(retry(&queue, None, &id).await, Ok(()));
        assert_eq!(retry(&queue, None, &id).await, Err(NotRetried::NotFailed));
    }

    #[tokio::test]
    async fn a_child_run_is_not_retried() {
        let (queue, outbox) = (TestQueue::default(), TestOutbox::default());
        for parent in ["7:37ddff8e-1.0", "7:1.0"] {
            let data = JobData { parent: Some(parent.to_owned()), ..JobData::new("2+2", "u1") };
            let id = queue.add(&data).await.unwrap();
            queue.change(&id, |job| job.status = JobStatus::Failed);
            let refused = retry(&queue, Some(&outbox), &id).await;
            assert_eq!(refused, Err(NotRetried::ChildRun { parent: "7".into() }));
            assert_eq!(queue.job(&id).status, JobStatus::Failed);
        }
    }

    #[tokio::test]
    async fn a_job_whose_webhook_cannot_be_armed_stays_failed() {
        let (queue, outbox) = (TestQueue::default(), TestOutbox::default());
        let id = queue.add(&JobData::new("2+2", "u1")).await.unwrap();
        queue.change(&id, |job| job.status = JobStatus::Failed);
        outbox.fail(true);
        assert!(matches!(retry(&queue, Some(&outbox), &id).await, Err(NotRetried::Webhook(_))));
        assert_eq!(queue.job(&id).status, JobStatus::Failed);
    }
}
