//! A run has a life of its own: one task owns it, and any number of readers attach to it.
//!
//! ```text
//! runs.start(ask)      -> RunHandle        the owner task begins
//! runs.attach(run_id)  -> RunHandle?       while the run is under way in this process
//! handle.result()                          the same for every reader
//! handle.events(from)                      any number of readers, each from any event on
//! handle.cancel(), handle.tie_to_caller()
//! ```
//!
//! The owner runs the whole stack of policies, so that permit, deadline, record and metrics belong to the run and not
//! to a reader of it. A request is such a reader. [`Runs`] is an [`Invoke`] as well: a caller of that waits for the
//! result, and a synchronous caller who leaves ends the run. That rule stands here, in [`RunHandle::tie_to_caller`],
//! and nowhere else.
//!
//! The runs of jobs are owned by the worker that claimed the job, in `jobs/worker.rs`: their life is the lease's.

mod handle;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::FutureExt as _;
use tracing::Instrument as _;

pub use handle::{Outcome, RunHandle, TiedToCaller};

use crate::drive::DriveError;
use crate::policy::{Ask, Invoke};
use crate::ports::{Journal, Spawn};
use handle::Owned;

/// Starts runs and knows those that are under way in this process. Clones know the same.
#[derive(Clone)]
pub struct Runs(Arc<Shared>);

struct Shared {
    stack: Arc<dyn Invoke>,
    journal: Arc<dyn Journal>,
    spawn: Arc<dyn Spawn>,
    /// Held for a few instructions, never across an await.
    under_way: Mutex<HashMap<String, RunHandle>>,
}

impl Runs {
    /// Each run is an invocation of `stack`, whose journal `journal` reads.
    pub fn new(stack: Arc<dyn Invoke>, journal: Arc<dyn Journal>, spawn: Arc<dyn Spawn>) -> Self {
        Self(Arc::new(Shared { stack, journal, spawn, under_way: Mutex::default() }))
    }

    /// Begins a run, which from now on goes on by itself until it ends or is cancelled.
    pub fn start(&self, mut ask: Ask) -> RunHandle {
        let cancel = ask.cancel.get_or_insert_default().clone();
        let (owned, handle) = handle::new(ask.run_id.clone(), cancel, self.0.journal.clone());
        self.0.under_way().insert(ask.run_id.clone(), handle.clone());
        let shared = self.0.clone();
        let work = async move { shared.own(owned, ask).await };
        // Its log lines and spans are those of the request that began it.
        self.0.spawn.spawn("run", work.in_current_span().boxed());
        handle
    }

    /// A run that is under way in this process. Of any other one, the journal tells what there is to know.
    pub fn attach(&self, run_id: &str) -> Option<RunHandle> {
        self.0.under_way().get(run_id).cloned()
    }

    /// How many runs are under way in this process.
    pub fn under_way(&self) -> usize {
        self.0.under_way().len()
    }
}

impl Shared {
    /// The owner task of one run.
    async fn own(&self, owned: Owned, ask: Ask) {
        let _listed = Listed { runs: self, run_id: ask.run_id.clone() };
        // A panic is a failure of this run, for all of its readers.
        let run = AssertUnwindSafe(self.stack.invoke(ask)).catch_unwind();
        tokio::select! {
            biased;
            outcome = run => owned.end(outcome.unwrap_or(Err(DriveError::Panicked.into()))),
            // Dropped wherever it is; whatever the stack has to do about that, its guards do.
            () = owned.abandoned() => {}
        }
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<String, RunHandle>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run that can be attached to, until this is dropped.
struct Listed<'a> {
    runs: &'a Shared,
    run_id: String,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.runs.under_way().remove(&self.run_id);
    }
}

#[async_trait]
impl Invoke for Runs {
    /// Starts a run, waits for its result, and ends it when the caller leaves.
    async fn invoke(&self, ask: Ask) -> Outcome {
        let run = self.start(ask);
        let _tied = run.tie_to_caller();
        run.result().await
    }
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runs").field("under_way", &self.under_way()).finish_non_exhaustive()
    }
}
