//! Ends the runs of jobs that are cancelled while they wait for another attempt: nothing drives them any
//! more, so nobody else would write down that they ended and what they cost.
//!
//! What does not belong here: cancelling a run under way, which its worker does.

use std::sync::Arc;

use agent_core::error_chain::ErrorChain;
use agent_core::ports::{Epoch, JobQueue, Journal};
use agent_core::words::{Job, Principal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::worker::LAST_WORDS;
use crate::layers::{Ask, Invoke, InvokeError};
use crate::loop_driver::{ChildRuns, RunClaim, RunControl, RunError};

/// Takes a run up to cancel it at once.
pub struct CancelledRuns {
    /// Runs the agent on behalf of jobs and records its runs. It is asked for no step, so it needs no permit
    /// and is not counted.
    pub agent: Arc<dyn Invoke>,
    /// The journals of these runs.
    pub journal: Arc<dyn Journal>,
}

impl CancelledRuns {
    /// Ends the run of a job that is cancelled. A run that never began stays unwritten. The job is cancelled
    /// whatever becomes of this, so it takes a bounded time and fails with a line in the log only.
    pub(super) async fn end(&self, job: &Job, queue: &Arc<dyn JobQueue>) {
        if job.started_at.is_none() {
            return;
        }
        let (job_id, run_id) = (&job.id, &job.run_id);
        match timeout(LAST_WORDS, self.cancel(job, queue)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(job_id, run_id, error = %ErrorChain(&error), "the run of a cancelled job is not recorded as that");
            }
            Err(_elapsed) => {
                warn!(
                    job_id,
                    run_id, "the run of a cancelled job is not recorded as that: its journal does not answer"
                );
            }
        }
    }

    async fn cancel(&self, job: &Job, queue: &Arc<dyn JobQueue>) -> Result<(), InvokeError> {
        let events = self.journal.read(&job.run_id, 0).await.map_err(RunError::Journal)?;
        if events.is_empty() {
            return Ok(());
        }
        let cancel = CancellationToken::new();
        cancel.cancel();
        let ask = Ask {
            run_id: job.run_id.clone(),
            principal: Principal::user_or_nobody(&job.user_id),
            // A worker that still holds on to the run is refused from now on.
            claim: Some(RunClaim { job_id: job.id.clone(), epoch: Epoch::FINAL, ..RunClaim::default() }),
            control: RunControl {
                cancel: Some(cancel),
                children: ChildRuns::of(queue),
                ..RunControl::default()
            },
            // What it was to do stands in its journal.
            ..Ask::new(job.id.clone(), String::new())
        };
        self.agent.invoke(ask).await.map(drop)
    }
}

impl std::fmt::Debug for CancelledRuns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CancelledRuns").finish_non_exhaustive()
    }
}
