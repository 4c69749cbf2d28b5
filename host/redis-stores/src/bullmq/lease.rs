//! Leases: BullMQ's locks. A worker's heartbeat renews its lease; a job whose lease has expired is stalled
//! and goes back to the queue, put there by whoever claims (`claim.rs`).
//!
//! One script renews all leases that are due at one moment: workers of a process renew theirs together
//! (`run_service::jobs`), and whoever comes first waits a few milliseconds for the others.
//!
//! What does not belong here: ending a lease with its attempt (`finish.rs`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::{Claim, QueueError, Renewal};

use super::renewals::{Lease, Renewed};
use super::store::{Store, broken};

/// How long a renewal waits for others that are due.
const GATHER: Duration = Duration::from_millis(5);

/// One heartbeat.
pub(super) async fn renew(store: &Arc<Store>, claim: &Claim) -> Result<Renewal, QueueError> {
    let renewed = store.renewals.join(store.lease_of(claim), || send(store.clone())).await?;
    // Left out because this process stood still meanwhile: the lease may be ours yet.
    let unsent = || QueueError::Store { detail: "a renewal was not sent in time".into() };
    renewed.get(&claim.token).copied().ok_or_else(unsent)
}

/// Sends the batch, and with it what has come until then.
async fn send(store: Arc<Store>) -> Renewed {
    tokio::time::sleep(GATHER).await;
    store.renew_all(store.renewals.take()).await.map(Arc::new)
}

impl Store {
    /// One heartbeat by itself.
    pub(super) async fn renew(&self, claim: &Claim) -> Result<Renewal, QueueError> {
        let renewed = self.renew_all(vec![self.lease_of(claim)]).await?;
        Ok(renewed.get(&claim.token).copied().unwrap_or(Renewal::Lost))
    }

    fn lease_of(&self, claim: &Claim) -> Lease {
        (self.shard.local_id(&claim.job_id).to_owned(), claim.token.clone())
    }

    async fn renew_all(&self, leases: Vec<Lease>) -> Result<HashMap<String, Renewal>, QueueError> {
        if leases.is_empty() {
            return Ok(HashMap::new());
        }
        let renew = self.own.renew(&leases).map_err(broken)?;
        let answers: Vec<i64> = self.run(&renew).await?;
        let renewals = answers.into_iter().map(|answer| match answer {
            1 => Renewal::Held,
            2 => Renewal::Cancelled,
            _ => Renewal::Lost,
        });
        Ok(leases.into_iter().map(|(_, token)| token).zip(renewals).collect())
    }

    /// Puts jobs back that predecessors of this worker held and stopped renewing before it began.
    pub(super) async fn reclaim_from_predecessors(
        &self,
        worker: &str,
        began: SystemTime,
    ) -> Result<u64, QueueError> {
        let (mut reclaimed, mut up_to) = (0, None);
        loop {
            let (some, left): (u64, u64) = self.run(&self.own.reclaim_stalled(worker, began, up_to)).await?;
            reclaimed += some;
            if left == 0 {
                return Ok(reclaimed);
            }
            up_to = Some(left);
        }
    }
}
