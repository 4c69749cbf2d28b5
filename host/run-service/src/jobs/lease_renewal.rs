//! The heartbeat of a job: its worker renews the lease while the run is driven, and learns by that whether
//! the job was cancelled or lost. When to renew and when a lease is lost is `held_lease.rs`.

use std::time::Duration;

use agent_core::ports::queue::LEASE;
use agent_core::ports::{Claim, QueueError, Renewal};
use boxed_async::boxed_async;
use tokio::time::Instant;

use super::retry_or_fail::End;
use super::worker::Worker;
use crate::held_lease::{LeaseClaim, RenewalTerms, keep_renewed};

/// How often a lease is renewed. More often than a lease of 6 s needs, because a renewal is also how a worker
/// learns that its job was cancelled elsewhere. All leases of a process are renewed at the same moments, so
/// that its queue can make one command of them.
const RENEWAL: Duration = Duration::from_secs(1);

/// How long before the end of its lease a run is dropped whose lease could not be renewed: dropping takes a
/// moment, and no other worker may drive the run meanwhile.
const STOP_BEFORE: Duration = Duration::from_millis(250);

impl Worker {
    /// Renews the lease until the job is not ours any more.
    pub(super) async fn hold(&self, claim: &Claim) -> End {
        let terms = RenewalTerms {
            lease: LEASE,
            every: RENEWAL,
            in_step_since: Some(self.began),
            stop_before: Some(STOP_BEFORE),
        };
        let asked = Instant::from_std(claim.leased_at);
        let ended = keep_renewed(&HeldJob { worker: self, claim }, terms, asked).await;
        #[cfg(any(test, feature = "testing"))]
        if ended == Renewal::Lost && crate::testing::has(crate::testing::Bug::LostLeaseKept) {
            return std::future::pending().await;
        }
        match ended {
            Renewal::Cancelled => End::Cancelled,
            Renewal::Held | Renewal::Lost => End::Lost,
        }
    }
}

/// A job, as the worker renews it that holds it.
struct HeldJob<'a> {
    worker: &'a Worker,
    claim: &'a Claim,
}

#[boxed_async]
impl LeaseClaim for HeldJob<'_> {
    const WHAT: &'static str = "job";
    type Error = QueueError;

    async fn renew(&self) -> Result<Renewal, QueueError> {
        match self.worker.queue.renew(self.claim).await {
            Ok(renewal) => {
                if renewal == Renewal::Held {
                    self.worker.queue_works();
                }
                Ok(renewal)
            }
            Err(QueueError::LeaseLost { .. }) => Ok(Renewal::Lost),
            Err(error) => {
                self.worker.queue_fails(&error);
                Err(error)
            }
        }
    }
}
