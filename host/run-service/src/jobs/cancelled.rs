//! Ends the runs of jobs that are cancelled while nobody works on them, or whose worker died before it heard
//! of that: nothing drives them any more, so nobody else would write down that they ended and what they cost.
//!
//! What does not belong here: cancelling a run under way, which its worker does.

use std::sync::Arc;
use std::time::Duration;

use agent_core::error_chain::ErrorChain;
use agent_core::ports::{
    Claim, Epoch, JobQueue, Journal, Model, ModelError, ModelRequest, QueueError, RunStore, ToolFault,
    ToolRequest, ToolSet, Toolbox, Unobserved, WaitTerms,
};
use agent_core::words::{Catalog, Job, ModelReply, Principal, StopReason, ToolCall, ToolReturn, Wait};
use boxed_async::boxed_async;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::LAST_WORDS;
use crate::journal::{Backlog, Flusher, WriteBehind};
use crate::layers::{Agent, Ask, Invoke, InvokeError, Recorded};
use crate::loop_driver::{ChildRuns, EndsCancelledRuns, RunClaim, RunControl, RunError};

/// Takes a run up to cancel it at once. That asks no model and calls no tool, so no version of a tool is
/// loaded for it, and it needs no permit and is not counted.
pub struct CancelledRuns {
    agent: Recorded<Agent>,
    journal: Arc<dyn Journal>,
}

impl CancelledRuns {
    /// Runs with their journals in `journal`, whose records go to `behind`.
    pub fn new(journal: Arc<dyn Journal>, behind: WriteBehind) -> Self {
        let nobody = Arc::new(Nobody::default());
        let agent = Agent::new(nobody.clone(), nobody, journal.clone());
        Self { agent: Recorded::new(agent, behind), journal }
    }

    /// For a process that serves nothing, with what writes their records once it is run.
    pub fn beside_the_service(runs: &Arc<dyn RunStore>) -> (Self, Flusher) {
        let (behind, flusher) = WriteBehind::new(runs.clone(), Backlog::default(), Arc::new(Unobserved));
        (Self::new(runs.clone(), behind), flusher)
    }

    /// Ends a run, and says how it has ended by its journal. A run that never began stays unwritten. The job
    /// is cancelled whatever becomes of this, so it takes a bounded time and fails with a line in the log
    /// only.
    pub(super) async fn end(
        self: &Arc<Self>,
        run: UnwantedRun<'_>,
        queue: &Arc<dyn JobQueue>,
    ) -> Option<StopReason> {
        let UnwantedRun { job_id, run_id, .. } = run;
        match timeout(LAST_WORDS, self.cancel(run, queue)).await {
            Ok(Ok(ended)) => return ended,
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
        None
    }

    async fn cancel(
        self: &Arc<Self>,
        run: UnwantedRun<'_>,
        queue: &Arc<dyn JobQueue>,
    ) -> Result<Option<StopReason>, InvokeError> {
        let UnwantedRun { job_id, run_id, user_id, epoch } = run;
        let events = self.journal.read(run_id, 0).await.map_err(RunError::Journal)?;
        if events.is_empty() {
            return Ok(None);
        }
        let cancel = CancellationToken::new();
        cancel.cancel();
        let ask = Ask {
            run_id: run_id.to_owned(),
            principal: Principal::user_or_nobody(user_id),
            claim: Some(RunClaim { job_id: job_id.to_owned(), epoch, ..RunClaim::default() }),
            control: RunControl {
                cancel: Some(cancel),
                children: ChildRuns::of(queue, Some(self)),
                ..RunControl::default()
            },
            // What it was to do stands in its journal.
            ..Ask::new(job_id.to_owned(), String::new())
        };
        self.agent.invoke(ask).await.map(|answer| Some(answer.result.stop_reason))
    }
}

/// The run of a job that is to be cancelled.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnwantedRun<'a> {
    job_id: &'a str,
    run_id: &'a str,
    user_id: &'a str,
    /// Under which its end is written.
    epoch: Epoch,
}

impl<'a> UnwantedRun<'a> {
    /// The run of a job that nobody can claim any more: a worker that still holds on to it is refused from
    /// now on.
    fn of(job: &'a Job) -> Self {
        Self { job_id: &job.id, run_id: &job.run_id, user_id: &job.user_id, epoch: Epoch::FINAL }
    }

    /// The run of a job that was claimed to be cancelled. Should this worker die as well, the next claim ends
    /// it.
    pub(super) fn claimed(claim: &'a Claim) -> Self {
        let user_id = claim.data.as_ref().map_or("", |data| &data.user_id);
        Self { job_id: &claim.job_id, run_id: &claim.run_id, user_id, epoch: claim.epoch }
    }
}

/// Does what is left to do when nobody works on a job that is cancelled: its run ends, and its parent is
/// claimed. Done again it does no harm, so that whoever is killed in the middle can be followed by another.
pub(super) async fn end_run(
    job: &Job,
    queue: &Arc<dyn JobQueue>,
    runs: Option<&Arc<CancelledRuns>>,
) -> Result<(), QueueError> {
    if let Some(runs) = runs {
        runs.end(UnwantedRun::of(job), queue).await;
    }
    if let Some(parent) = job.parent.as_deref().and_then(Wait::job_of) {
        queue.resume(parent, Duration::ZERO).await?;
    }
    Ok(())
}

#[boxed_async]
impl EndsCancelledRuns for CancelledRuns {
    async fn end_run_of(self: Arc<Self>, job: &Job, queue: &Arc<dyn JobQueue>) -> Result<(), QueueError> {
        end_run(job, queue, Some(&self)).await
    }
}

/// Stands for a model and tools that are not there.
#[derive(Debug, Clone, Default)]
struct Nobody(Arc<Catalog>);

#[boxed_async]
impl Model for Nobody {
    fn name(&self) -> &'static str {
        "nobody"
    }

    async fn complete(&self, _request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        Err(ModelError::Refused {
            provider: self.name().to_owned(),
            detail: "no model is asked here".to_owned(),
        })
    }
}

impl Toolbox for Nobody {
    fn current_for(&self, _caller: &Principal) -> Arc<dyn ToolSet> {
        self.everything()
    }

    fn everything(&self) -> Arc<dyn ToolSet> {
        Arc::new(self.clone())
    }

    fn faults(&self) -> Vec<ToolFault> {
        Vec::new()
    }
}

#[boxed_async]
impl ToolSet for Nobody {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.0
    }

    fn approval(&self, _call: &ToolCall, _caller: &Principal) -> Option<WaitTerms> {
        None
    }

    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn {
        WaitTerms::refusal(request.call)
    }
}
