//! The renewals of leases that wait to be sent together. What is sent is not known here (`lease.rs`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::ports::{QueueError, Renewal};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};

/// A job's id and the token of its claim.
pub(super) type Lease = (String, String);

/// What the renewals of a batch say, by their tokens.
pub(super) type Renewed = Result<Arc<HashMap<String, Renewal>>, QueueError>;

/// Where the renewals of a process gather.
#[derive(Default)]
pub(super) struct Renewals(Mutex<Option<Batch>>);

struct Batch {
    leases: Vec<Lease>,
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
        let mut batch = self.lock();
        let batch =
            batch.get_or_insert_with(|| Batch { leases: Vec::new(), sending: send().boxed().shared() });
        batch.leases.push(lease);
        batch.sending.clone()
    }

    /// Those that wait. Whoever comes later begins another batch.
    pub(super) fn take(&self) -> Vec<Lease> {
        self.lock().take().map(|batch| batch.leases).unwrap_or_default()
    }

    /// Held for a few instructions, never across an await.
    fn lock(&self) -> MutexGuard<'_, Option<Batch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
