//! Direct calls that wait for somebody. Each becomes a run of one call
//! ([`Options::call`](agent_core::words::Options)), which is handed over to a job as a request's run is: its
//! journal has the call as it was asked for and what it waits for. Whoever decides decides that wait, a
//! worker makes the call once, and the tool's answer is the job's result.

use std::sync::Arc;
use std::time::Duration;

use agent_core::agent_loop::{Run, recorded_end, refusal};
use agent_core::ports::RunStore;
use agent_core::words::{
    Event, Job, JobStatus, Options, StopReason, ToolCall, ToolOutcome, ToolReceipt, ToolReturn,
};
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::DirectCall;
use crate::jobs::Jobs;
use crate::layers::{Ask, Invoke, InvokeError};
use crate::waits::{Decided, JobWait, NotDecided, ProposedDecision, WaitError, WaitResult, Waits};

/// How often it is looked at whether a job is claimed whose wait is decided.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What a client is told of a job that failed without a reason.
const FAILED: &str = "the call could not be made";

/// Where direct calls wait. Clones share what they are made of.
#[derive(Clone)]
pub struct WaitingCalls {
    /// Begins the runs and hands them over.
    pub runs: Arc<dyn Invoke>,
    /// Where they are handed over to.
    pub jobs: Jobs,
    /// What these jobs wait for, and who decides.
    pub waits: Waits,
    /// The journals of the runs of these jobs.
    pub store: Arc<dyn RunStore>,
}

/// What became of a direct call.
#[derive(Debug, Clone, PartialEq)]
pub enum Called {
    /// The call was made, or cannot be made.
    Answered(ToolReturn),
    /// The call waits for somebody, in a run of its own.
    Waits {
        /// The job that goes on with it.
        job_id: String,
    },
}

/// A direct call that became a run.
#[derive(Debug, Clone)]
pub struct CallRun {
    pub job: Job,
    /// As it was asked for.
    pub call: ToolCall,
    pub state: CallState,
}

/// How such a call stands.
#[derive(Debug, Clone)]
pub enum CallState {
    /// A worker makes it, or is about to.
    Working,
    /// Somebody has to decide first.
    Waits(Box<JobWait>),
    /// The answer, also to a call that was rejected.
    Answered(ToolReturn),
    Cancelled,
    /// No answer will come, and why: safe to show to its owner.
    Failed(String),
}

impl WaitingCalls {
    /// Begins the run of a call that has to wait. Its tools may be others than they were a moment ago: a call
    /// that need not wait by now is made.
    pub(super) async fn begin(&self, wanted: &DirectCall<'_>, call: &ToolCall) -> Called {
        let options = Options { call: Some(call.clone()), ..Options::default() };
        let (principal, request_id) = (wanted.caller.clone(), wanted.request_id.to_owned());
        match self.runs.invoke(Ask { principal, options, ..Ask::new(request_id, String::new()) }).await {
            Err(InvokeError::Waits { job_id }) => Called::Waits { job_id },
            Ok(answer) => {
                let result = &answer.result;
                let receipt = result.tool_calls.first().cloned();
                let made = receipt.map(|receipt| ToolReturn { content: result.output.clone(), receipt });
                Called::Answered(made.unwrap_or_else(|| refusal::not_run(call, FAILED)))
            }
            // The call was made, as it might have come to something that waits in its middle.
            Err(InvokeError::TimedOut { limit, .. }) => Called::Answered(stopped(call, limit)),
            Err(error) => {
                warn!(%error, "a direct call that has to wait could not be kept");
                let why = "somebody has to approve this call, and it could not be kept until then: try again";
                Called::Answered(refusal::not_run(call, why))
            }
        }
    }

    /// A call of this user that became the run of that job, held back for up to `within` while a worker makes
    /// it. `None` where there is no such job, or its run is another one.
    pub async fn read(&self, user_id: &str, job_id: &str, within: Duration) -> WaitResult<Option<CallRun>> {
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Some(job) = self.jobs.read(user_id, job_id, left).await? else { return Ok(None) };
            let events = self.store.read(&job.run_id, 0).await?;
            let Some(Event::Started { task, .. }) = events.first() else { return Ok(None) };
            let Some(call) = task.options.call.clone() else { return Ok(None) };
            let state = state(&job, events)?;
            // What waits is decided, and nobody has claimed the job yet.
            let is_due = matches!(state, CallState::Working) && job.status == JobStatus::Parked;
            if !is_due || Instant::now() >= until {
                return Ok(Some(CallRun { job, call, state }));
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Decides a wait, as [`Waits::decide`] does.
    pub async fn decide(&self, wait: &str, proposed: &ProposedDecision) -> Result<Decided, NotDecided> {
        self.waits.decide(wait, proposed).await
    }

    /// Cancels the job of a call. One that has ended stays as it is.
    pub async fn cancel(&self, user_id: &str, job_id: &str) -> WaitResult {
        self.jobs.cancel(user_id, job_id).await.map(|_outcome| ()).map_err(WaitError::from)
    }
}

/// The answer to a call that was made and did not end in time.
fn stopped(call: &ToolCall, limit: Duration) -> ToolReturn {
    let content = format!(
        "Error: the call did not end within {} ms and was stopped. Whether it had an effect is not known.",
        limit.as_millis()
    );
    ToolReturn { content, receipt: ToolReceipt::new(&call.name, ToolOutcome::TimedOut) }
}

fn state(job: &Job, events: Vec<Event>) -> WaitResult<CallState> {
    if let Some(mut result) = recorded_end(events.clone(), None)? {
        return Ok(match result.tool_calls.pop() {
            Some(receipt) if result.stop_reason != StopReason::Cancelled => {
                CallState::Answered(ToolReturn { content: result.output, receipt })
            }
            _ => CallState::Cancelled,
        });
    }
    Ok(match job.status {
        JobStatus::Cancelled => CallState::Cancelled,
        JobStatus::Failed => CallState::Failed(job.error.clone().unwrap_or_else(|| FAILED.to_owned())),
        _ => {
            let run = Run::waiting(events)?;
            let undecided = run.waits().find(|open| open.decided().is_none());
            let wait = undecided.map(|open| Box::new(JobWait::of(job, &run, open)));
            wait.map_or(CallState::Working, CallState::Waits)
        }
    })
}
