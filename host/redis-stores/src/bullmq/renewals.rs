//! The renewals of leases that wait to be sent together. What is sent is not known here (`lease.rs`).

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{QueueError, Renewal};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::time::Instant;

/// How long a renewal is worth sending. A batch that everybody left is driven on by whoever comes next: a job
/// that was left with it is not ours to hold any more.
const WORTH_SENDING: Duration = Duration::from_secs(1);

/// A job's id and the token of its claim.
pub(super) type Lease = (String, String);

/// What the renewals of a batch say, by their tokens.
pub(super) type Renewed = Result<Arc<HashMap<String, Renewal>>, QueueError>;

/// Where the renewals of a process gather.
#[derive(Default)]
pub(super) struct Renewals(Mutex<Option<Batch>>);

struct Batch {
    /// Each with when its renewal was asked for.
    leases: Vec<(Instant, Lease)>,
    /// One future that all who wait poll: one of them that goes away does not stop it for the others.
    sending: Shared<BoxFuture<'static, Renewed>>,
}

impl Renewals {
    /// Adds a lease to those that wait. `send` is what sends them, for the first one of a batch.
    pub(super) fn join<F>(
        &self,
        lease: Lease,
        send: impl FnOnce() -> F,
    ) -> Shared<BoxFuture<'static, Renewed>>
    where
        F: Future<Output = Renewed> + Send + 'static,
    {
        let mut batch = self.0.lock();
        let batch =
            batch.get_or_insert_with(|| Batch { leases: Vec::new(), sending: send().boxed().shared() });
        batch.leases.push((Instant::now(), lease));
        batch.sending.clone()
    }

    /// Leases that wait, but for those that have waited too long. Whoever comes later begins another batch.
    pub(super) fn take(&self) -> Vec<Lease> {
        let leases = self.0.lock().take().map(|batch| batch.leases).unwrap_or_default();
        let worth = leases.into_iter().filter(|(asked, _)| asked.elapsed() < WORTH_SENDING);
        worth.map(|(_, lease)| lease).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(job: &str) -> Lease {
        (job.to_owned(), format!("token of {job}"))
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_left_with_its_batch_is_not_renewed_with_what_comes_later() {
        let renewals = Renewals::default();
        let send = || async { Ok(Arc::default()) };
        drop(renewals.join(lease("left"), send));
        tokio::time::sleep(WORTH_SENDING).await;
        let _first = renewals.join(lease("1"), send);
        let _second = renewals.join(lease("2"), send);
        assert_eq!(renewals.take(), [lease("1"), lease("2")]);
        assert_eq!(renewals.take(), []);
    }
}
