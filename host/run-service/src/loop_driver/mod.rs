//! Carries a run's steps out: asks the model, calls the tools, and journals every event before the next step.
//!
//! What of it may wait for what comes next, and what that means for a worker that is killed, is said in
//! `journaled.rs`. `tool_calls.rs` answers the calls of one reply, `nested.rs` those that tools make,
//! `recorder.rs` what those are told that are made again. `waits.rs` parks a run, `due_waits.rs` has the
//! timers that end a wait. `gen_ai.rs` has the spans.

mod call_context;
mod child_runs;
mod due_waits;
mod error;
pub(crate) mod gen_ai;
mod journaled;
mod nested;
pub(crate) mod nested_bounds;
mod recorder;
mod run_claim;
mod run_control;
#[cfg(test)]
mod tests;
mod tool_calls;
mod waits;

use agent_core::agent_loop::{ModelCall, Run, Step, attempts_without_progress};
use agent_core::ports::queue::ATTEMPTS;
use agent_core::ports::{Deltas, EarlierClaims, Epoch, Journal, Model, ModelRequest, ToolChoice, ToolSet};
use agent_core::trace::InTrace as _;
use agent_core::words::{AgentResult, Event, RequiredCall, Task};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::invariants::Followed;
use crate::output_check;
pub(crate) use call_context::CALLS_AT_ONCE;
pub use child_runs::{ChildRuns, EndsCancelledRuns};
pub use error::RunError;
pub use run_claim::RunClaim;
pub use run_control::RunControl;
pub(crate) use run_control::{Flag, WaitObserver};

/// What a run is driven with.
#[derive(Clone, Copy)]
pub struct Driver<'a> {
    /// The HTTP request or job on whose behalf the run is made.
    pub request_id: &'a str,
    /// Who is asked.
    pub model: &'a dyn Model,
    /// The tools, pinned for the whole run.
    pub tools: &'a dyn ToolSet,
    /// Where the run's history goes.
    pub journal: &'a dyn Journal,
    /// The claim under which it is written; absent for a request's run.
    pub claim: Option<&'a RunClaim>,
    /// How the run is ended, metered and watched.
    pub control: &'a RunControl,
}

impl Driver<'_> {
    /// Starts a run and takes it to its end. Dropping the future stops whatever is under way.
    pub async fn start(&self, task: Task) -> Result<AgentResult, RunError> {
        let catalog = self.tools.catalog();
        let started = Event::Started { task: task.clone(), tools: catalog.digest().to_owned() };
        let (run, step) = Run::start(task, catalog.clone());
        let mut run = Journaled::begun(run, started);
        let is_over = matches!(step, Step::Done(_));
        let step = match self.claim.map(|claim| claim.earlier).unwrap_or_default() {
            EarlierClaims { are_none: true, .. } if !self.is_watched() => step,
            // The first of them may have begun the run, and been killed before it could say so.
            EarlierClaims { lost: 1.., .. } if !is_over => self.note(&mut run, taken_up()).await?,
            EarlierClaims { .. } => {
                self.write(&mut run).await?;
                step
            }
        };
        self.carry_out(run, step).await
    }

    /// Takes up a run that stopped after `events`, which are its journal.
    pub async fn resume(&self, events: Vec<Event>) -> Result<AgentResult, RunError> {
        #[cfg(any(test, feature = "testing"))]
        let events = crate::testing::read(events);
        let attempts = attempts_without_progress(&events);
        let (next, followed) = (events.len() as u64, Followed::from(&events));
        let (run, step) = Run::resume(events, self.tools.catalog().clone()).map_err(RunError::Driver)?;
        self.control.meter.set(run.usage(), run.iterations());
        let mut run = Journaled::resumed(run, next, followed);
        match step {
            Step::Done(result) => {
                Box::pin(self.stop_children(&run.run)).await;
                return Ok(*result);
            }
            // Taken up too early, which is no attempt, and behind it decisions can be written as before.
            Step::Park(waits)
                if run.run.waits_epoch().is_some()
                    && !self.is_cancelled()
                    && Box::pin(self.due(&run.run, &waits)).await?.is_none() =>
            {
                return Err(self.parked_again(&run.run, &waits, next));
            }
            Step::Park(_) | Step::AskModel(_) | Step::CallTools(_) => {}
        }
        // `Cancelled` fences earlier workers off as well. Written behind another event under the epoch that
        // nobody is above, it might be missing when the process dies, and the run be nobody's any more.
        if self.is_cancelled() {
            return self.carry_out(run, step).await;
        }
        // Also of a run that is given up: what its dead workers sent may still be on its way to the store.
        let step = self.note(&mut run, taken_up()).await?;
        if attempts >= ATTEMPTS {
            return Err(RunError::Stuck { attempts });
        }
        self.carry_out(run, step).await
    }

    async fn carry_out(&self, mut run: Journaled, step: Step) -> Result<AgentResult, RunError> {
        let ended = self.go_on(&mut run, step).await;
        match &ended {
            Ok(_result) => {
                Box::pin(self.stop_children(&run.run)).await;
                self.write_last(&mut run).await?;
            }
            // The journal takes nothing, or the run is somebody else's by now.
            Err(RunError::Journal(_)) => {}
            Err(_let_go) => self.write_start(&mut run).await,
        }
        ended
    }

    async fn go_on(&self, run: &mut Journaled, mut step: Step) -> Result<AgentResult, RunError> {
        loop {
            step = match step {
                Step::Done(result) => return Ok(*result),
                _ if self.is_cancelled() => self.note(run, Event::Cancelled).await?,
                _ if self.claim.is_some_and(|claim| claim.stop.is_cancelled()) => {
                    return Err(RunError::Stopped);
                }
                Step::AskModel(call) => match self.ask(run, call).await? {
                    reply @ Event::ModelReplied { .. } => self.note_reply(run, reply).await?,
                    event => self.note(run, event).await?,
                },
                Step::CallTools(calls) => match self.waits(&run.run, &calls) {
                    waits if waits.is_empty() => self.call_tools(run, calls).await?,
                    waits => Box::pin(self.begin_to_wait(run, waits)).await?,
                },
                Step::Park(waits) => match Box::pin(self.due(&run.run, &waits)).await? {
                    Some(due) => {
                        let due = Box::pin(self.billed(due)).await?;
                        let step = self.note(run, due.event()).await?;
                        self.control.observer.0.wait_decided(due.told());
                        self.control.children.stop(due.stops.as_deref().into_iter()).await;
                        step
                    }
                    // Decisions are written under the epoch of the last writer, which this claim may have
                    // become.
                    None if run.run.waits_epoch().is_none() => {
                        let epoch = self.epoch().0;
                        self.note(run, Event::Waiting { waits: Vec::new(), epoch }).await?
                    }
                    None => return Err(self.parked(&run.run, &waits, run.next)),
                },
            };
        }
    }

    /// Whether somebody follows the run here already, who is shown the words of a reply behind the start.
    fn is_watched(&self) -> bool {
        self.control.live.as_ref().is_some_and(|live| live.deltas(0).is_some())
    }

    /// Of a request's run nobody can be the second writer.
    fn epoch(&self) -> Epoch {
        self.claim.map_or(Epoch::UNCLAIMED, |claim| claim.epoch)
    }

    fn is_cancelled(&self) -> bool {
        self.control.cancel.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    /// What `work` gives, or nothing when the run is cancelled: then it is dropped. Never wraps an append,
    /// which may be carried out although it is dropped.
    async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match &self.control.cancel {
            Some(cancel) => cancel.run_until_cancelled(work).await,
            None => Some(work.await),
        }
    }

    /// Asks the model for the event of that number.
    async fn ask_model(&self, run: &Run, number: u64, call: ModelCall) -> Result<Event, RunError> {
        self.control.may_act().await;
        // Words that the model may have to correct are shown when they are right.
        let live = self.control.live.as_ref().filter(|_| run.rules().output.is_none());
        let deltas = live.and_then(|live| live.deltas(number));
        let request = ModelRequest {
            request_id: self.request_id,
            messages: run.messages(),
            tools: run.catalog(),
            tool_choice: tool_choice(run, &call),
            rules: run.rules(),
            max_tokens: call.max_tokens,
            temperature: call.temperature,
            deadline: self.control.ends_at(),
            deltas: None,
        };
        let span = gen_ai::chat(self.model.name(), &request);
        let deltas = deltas.as_ref().map(|deltas| gen_ai::TimedDeltas::new(deltas, &span));
        let request = ModelRequest { deltas: deltas.as_ref().map(|deltas| deltas as &dyn Deltas), ..request };
        let replied = self.model.complete(request).in_trace(span.inner()).await;
        gen_ai::chat_ended(&span, &replied);
        let reply = replied.map_err(RunError::Model)?;
        #[cfg(any(test, feature = "testing"))]
        let reply = crate::testing::heard(reply);
        self.control.model_replied.set();
        let fault = match run.format_of(&call, &reply) {
            Some(format) => output_check::fault(format, &reply.content).await,
            None => None,
        };
        Ok(call.checked(reply, fault))
    }
}

/// Which tools the model may choose in this call. A tool that is required and not there any more is not.
fn tool_choice<'a>(run: &'a Run, call: &ModelCall) -> ToolChoice<'a> {
    let tools = run.catalog();
    match &run.rules().first_call {
        _ if call.last_by.is_some() => ToolChoice::None,
        Some(RequiredCall::Any) if run.requires_call() && !tools.tools().is_empty() => ToolChoice::Required,
        Some(RequiredCall::Tool(name)) if run.iterations() == 0 && tools.get(name).is_some() => {
            ToolChoice::Tool(name)
        }
        _ => ToolChoice::Auto,
    }
}

/// A run and what of it is not in its journal yet.
struct Journaled {
    run: Run,
    /// The number of the first event that is not written.
    next: u64,
    /// Events that happened and are not written: the start, the last reply, or both.
    unwritten: Vec<Event>,
    followed: Followed,
}

/// Named anew each time, so that the takings of two workers are never taken for one.
fn taken_up() -> Event {
    Event::TakenUp { by: clock::new_id() }
}
