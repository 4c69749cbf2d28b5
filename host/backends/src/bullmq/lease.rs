//! Leases: BullMQ's locks. A worker's heartbeat renews its lease; a job whose lease has expired is stalled and goes
//! back to the queue, put there by whoever claims (`claim.rs`).
//!
//! What does not belong here: ending a lease with its attempt (`finish.rs`).

use agent_core::ports::{Claim, QueueError, Renewal};

use super::store::Store;

impl Store {
    /// One heartbeat.
    pub(super) async fn renew(&self, claim: &Claim) -> Result<Renewal, QueueError> {
        Ok(match self.run::<i64>(&self.own.heartbeat(claim)).await? {
            1 => Renewal::Held,
            2 => Renewal::Cancelled,
            _ => Renewal::Lost,
        })
    }

    /// Puts jobs back that predecessors of this worker held and stopped renewing.
    pub(super) async fn reclaim_from_predecessors(&self, worker: &str) -> Result<u64, QueueError> {
        self.run(&self.own.reclaim_stalled(worker)).await
    }
}
