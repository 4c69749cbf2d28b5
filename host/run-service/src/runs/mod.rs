//! A run has one owner, and any number of readers attach to it.
//!
//! ```text
//! runs.start(ask)      -> RunHandle        detached: a task of its own owns the run
//! runs.invoke(ask)     -> InvokeResult     synchronous: the caller's task owns the run
//! runs.attach(run_id)  -> RunHandle?       while the run is under way in this process
//! handle.result()                          the same for every reader
//! handle.cancel()
//! ```
//!
//! The owner runs the whole stack of policies, so that permit, deadline, record and metrics belong to the run
//! and not to a reader of it. That a synchronous caller who leaves ends the run is decided in one place,
//! [`Runs::invoke`]: the future is dropped and the run with it. It also saves a task for every request.
//!
//! `timeline.rs` writes a journal out for people, `timeline_tail.rs` while the run goes on.
//!
//! The events of a run are read by `streams/`. The runs of jobs are owned by the worker that claimed the job,
//! in `jobs/worker.rs`: their life is the lease's.

mod handle;
#[cfg(test)]
mod tests;
mod timeline;
mod timeline_tail;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use agent_core::ports::Spawn;
use agent_core::trace::InTrace as _;
use boxed_async::boxed_async;
use futures::FutureExt as _;
use tokio::sync::watch;
use tracing::Instrument as _;

pub use handle::RunHandle;
pub use timeline::{moment, timeline};
pub use timeline_tail::TimelineTail;

use crate::layers::{Ask, Invoke, InvokeResult};
use crate::loop_driver::RunError;

/// Starts runs and knows those that are under way in this process. Clones know the same.
#[derive(Clone)]
pub struct Runs(Arc<RunTable>);

struct RunTable {
    stack: Arc<dyn Invoke>,
    spawn: Arc<dyn Spawn>,
    /// Held for a few instructions, never across an await.
    under_way: Mutex<HashMap<Arc<str>, RunHandle>>,
}

impl Runs {
    /// Each run is an invocation of `stack`.
    pub fn new(stack: Arc<dyn Invoke>, spawn: Arc<dyn Spawn>) -> Self {
        Self(Arc::new(RunTable { stack, spawn, under_way: Mutex::default() }))
    }

    /// Begins a run in a task of its own, where it goes on until it ends or is cancelled, whoever reads it.
    pub fn start(&self, mut ask: Ask) -> RunHandle {
        let (owned, handle) = self.0.list(&mut ask);
        let shared = self.0.clone();
        let work = async move { drop(shared.own(owned, ask).await) };
        // Log lines and spans of the run are those of the request that began it.
        self.0.spawn.spawn("run", work.in_current_span().in_current_trace().boxed());
        handle
    }

    /// A run that is under way in this process. Of any other one, the journal tells what there is to know.
    pub fn attach(&self, run_id: &str) -> Option<RunHandle> {
        self.0.under_way.lock().get(run_id).cloned()
    }

    /// How many runs are under way in this process.
    pub fn under_way(&self) -> usize {
        self.0.under_way.lock().len()
    }
}

impl RunTable {
    /// From now on the run can be attached to.
    fn list(self: &Arc<Self>, ask: &mut Ask) -> (Owned, RunHandle) {
        let cancel = ask.control.cancel.get_or_insert_default().clone();
        let id: Arc<str> = ask.run_id.as_str().into();
        let (outcome, handle) = handle::new(cancel);
        self.under_way.lock().insert(id.clone(), handle.clone());
        let listed = Listed { runs: self.clone(), id, handle: handle.clone() };
        (Owned { outcome, _listed: listed }, handle)
    }

    /// Carries a run to its end. Dropping the future drops the run wherever it is; whatever the stack has to
    /// do about that, its guards do.
    async fn own(&self, owned: Owned, ask: Ask) -> InvokeResult {
        // A panic is a failure of this run, for all of its readers.
        let run = AssertUnwindSafe(self.stack.invoke(ask)).catch_unwind();
        let outcome = run.await.unwrap_or(Err(RunError::Panicked.into()));
        owned.outcome.send_replace(Some(outcome.clone()));
        outcome
    }
}

/// What the owner of a run holds. Dropped before the run has ended, it tells the readers that the run was
/// stopped.
struct Owned {
    outcome: watch::Sender<Option<InvokeResult>>,
    _listed: Listed,
}

/// A run that can be attached to, until this is dropped.
struct Listed {
    runs: Arc<RunTable>,
    id: Arc<str>,
    handle: RunHandle,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut under_way = self.runs.under_way.lock();
        // A request that is carried out once more makes its run under the same id, perhaps while this one
        // ends.
        if under_way.get(&self.id).is_some_and(|listed| listed.is_of_same_run(&self.handle)) {
            under_way.remove(&self.id);
        }
    }
}

#[boxed_async]
impl Invoke for Runs {
    /// Carries a run to its end in the caller's task. A caller who leaves, which drops the future, ends the
    /// run.
    async fn invoke(&self, mut ask: Ask) -> InvokeResult {
        let (owned, _) = self.0.list(&mut ask);
        self.0.own(owned, ask).await
    }
}
