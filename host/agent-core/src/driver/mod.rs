//! Carries a run's steps out: asks the model, calls the tools, and journals every event before the next step.

mod error;
pub(crate) mod gen_ai;
#[cfg(test)]
mod tests;

use std::time::Instant;

use futures::future::try_join;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use uuid::Uuid;

pub use error::RunError;

use crate::ports::queue::ATTEMPTS;
use crate::ports::{Epoch, Journal, Model, ModelRequest, ToolChoice, ToolRequest, ToolSet};
use crate::run::{ModelCall, OpenCall, Run, Step, attempts_without_progress};
use crate::usage_meter::UsageMeter;
use crate::words::{AgentResult, Event, Grants, Principal, Task, ToolReturn};

/// Most tool calls of one reply that run at once, so that one run takes a bounded share of the sandboxes that all runs
/// have together.
const CALLS_AT_ONCE: usize = 16;

/// What a run is driven with.
#[derive(Clone, Copy)]
pub struct Driver<'a> {
    /// The HTTP request or job on whose behalf the run is made.
    pub request_id: &'a str,
    /// When the caller stops waiting.
    pub deadline: Instant,
    /// Who is asked.
    pub model: &'a dyn Model,
    /// The tools, pinned for the whole run.
    pub tools: &'a dyn ToolSet,
    /// Where the run's history goes.
    pub journal: &'a dyn Journal,
    /// The claim under which it is written.
    pub epoch: Epoch,
    /// Tells the run to stop before its next step; absent where nobody ever will.
    pub stop: Option<&'a CancellationToken>,
    /// Says that nobody wants the run any more: what is under way is dropped at once, and the journal says that it
    /// was cancelled. Absent where nobody ever will.
    pub cancel: Option<&'a CancellationToken>,
    /// Is kept at what the run has cost.
    pub meter: &'a UsageMeter,
}

impl Driver<'_> {
    /// Starts a run and takes it to its end. Dropping the future stops whatever is under way.
    pub async fn start(&self, task: Task) -> Result<AgentResult, RunError> {
        let catalog = self.tools.catalog();
        let started = Event::Started { task: task.clone(), tools: catalog.digest().to_owned() };
        self.journal.append(&task.id, self.epoch, 0, &[started]).await.map_err(RunError::Journal)?;
        let (run, step) = Run::start(task, catalog.clone());
        self.go_on(Journaled { run, next: 1 }, step).await
    }

    /// Takes up a run that stopped after `events`, which are its journal.
    pub async fn resume(&self, events: Vec<Event>) -> Result<AgentResult, RunError> {
        let attempts = attempts_without_progress(&events);
        let next = events.len() as u64;
        let (run, step) = Run::resume(events, self.tools.catalog().clone()).map_err(RunError::Driver)?;
        self.meter.set(run.usage(), run.iterations());
        let mut run = Journaled { run, next };
        if let Step::Done(result) = step {
            return Ok(*result);
        }
        if attempts >= ATTEMPTS && !self.is_cancelled() {
            return Err(RunError::Stuck { attempts });
        }
        let by = Uuid::now_v7().simple().to_string();
        let step = self.note(&mut run, Event::TakenUp { by }).await?;
        self.go_on(run, step).await
    }

    async fn go_on(&self, mut run: Journaled, mut step: Step) -> Result<AgentResult, RunError> {
        loop {
            step = match step {
                Step::Done(result) => return Ok(*result),
                _ if self.is_cancelled() => self.note(&mut run, Event::Cancelled).await?,
                _ if self.stop.is_some_and(CancellationToken::is_cancelled) => {
                    return Err(RunError::Stopped);
                }
                Step::AskModel(call) => {
                    let asking = self.ask_model(&run.run, call);
                    let event = self.unless_cancelled(asking).await.unwrap_or(Ok(Event::Cancelled))?;
                    self.note(&mut run, event).await?
                }
                Step::CallTools(calls) => self.call_tools(&mut run, calls).await?,
            };
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(CancellationToken::is_cancelled)
    }

    /// What `work` gives, or nothing when the run is cancelled: then it is dropped. Never wraps an append, which may be
    /// carried out although it is dropped.
    async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match self.cancel {
            Some(cancel) => cancel.run_until_cancelled(work).await,
            None => Some(work.await),
        }
    }

    /// Journals an event, then lets the run take note of it.
    async fn note(&self, run: &mut Journaled, event: Event) -> Result<Step, RunError> {
        let events = [event];
        self.journal.append(run.run.id(), self.epoch, run.next, &events).await.map_err(RunError::Journal)?;
        let [event] = events;
        run.next += 1;
        let step = run.run.on(event).map_err(RunError::Driver);
        self.meter.set(run.run.usage(), run.run.iterations());
        step
    }

    async fn ask_model(&self, run: &Run, call: ModelCall) -> Result<Event, RunError> {
        let request = ModelRequest {
            request_id: self.request_id,
            messages: run.messages(),
            tools: run.catalog(),
            tool_choice: if call.last_by.is_some() { ToolChoice::None } else { ToolChoice::Auto },
            max_tokens: call.max_tokens,
            temperature: call.temperature,
            deadline: self.deadline,
        };
        let span = gen_ai::chat(self.model.name(), &request);
        let replied = self.model.complete(request).instrument(span.clone()).await;
        gen_ai::chat_ended(&span, &replied);
        Ok(call.replied(replied.map_err(RunError::Model)?))
    }

    /// Up to 16 calls at once. Each answer is journaled as soon as it is there, so that no call that was answered
    /// is ever made again; the calls go on while that is written.
    async fn call_tools(&self, run: &mut Journaled, calls: Vec<OpenCall>) -> Result<Step, RunError> {
        let once = |open: &&OpenCall| open.refusal.is_none() && !open.is_repeatable;
        let indexes: Vec<_> = calls.iter().filter(once).map(|open| open.index).collect();
        if !indexes.is_empty() {
            self.note(run, Event::ToolsStarted { indexes }).await?;
        }
        let on_behalf = OnBehalf {
            run_id: run.run.id().to_owned(),
            principal: run.run.principal().clone(),
            grants: run.run.grants().clone(),
            attempt: run.run.attempt(),
        };
        let turns = Semaphore::new(CALLS_AT_ONCE);
        let (sender, mut answered) = mpsc::unbounded_channel();
        let call_all = async {
            let sender = sender;
            let mut answers: FuturesUnordered<_> =
                calls.iter().map(|open| self.answer(open, &on_behalf, &turns)).collect();
            while let Some(Some(answer)) = self.unless_cancelled(answers.next()).await {
                // Nobody listens only once the journal has failed, which ends this future as well.
                let _ = sender.send(answer);
            }
            Ok(())
        };
        let note_all = async {
            let mut step = None;
            while let Some((index, answer)) = answered.recv().await {
                let answer = run.run.fit(index, answer);
                step = Some(self.note(run, Event::ToolReturned { index, answer }).await?);
            }
            Ok::<_, RunError>(step)
        };
        let ((), step) = try_join(call_all, note_all).await?;
        Ok(step.unwrap_or(Step::CallTools(calls)))
    }

    /// Answers a call, with a tool once it is its turn.
    async fn answer(&self, open: &OpenCall, run: &OnBehalf, turns: &Semaphore) -> (usize, ToolReturn) {
        if let Some(refusal) = &open.refusal {
            return (open.index, refusal.clone());
        }
        // The semaphore is never closed, so there always is a permit.
        let _turn = turns.acquire().await;
        let request = ToolRequest {
            request_id: self.request_id,
            run_id: &run.run_id,
            call_id: &open.id,
            attempt: run.attempt,
            principal: &run.principal,
            grants: &run.grants,
            call: &open.call,
            deadline: self.deadline,
        };
        let span = gen_ai::execute_tool(&open.call);
        let answer = self.tools.call(request).instrument(span.clone()).await;
        gen_ai::tool_ended(&span, &answer);
        (open.index, answer)
    }
}

/// What the tools of a run are told about it. A copy, because the run itself takes note of answers while other calls
/// are under way.
struct OnBehalf {
    run_id: String,
    principal: Principal,
    grants: Grants,
    attempt: u32,
}

/// A run and the number of its next event in the journal.
struct Journaled {
    run: Run,
    next: u64,
}

impl std::fmt::Debug for Driver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("request_id", &self.request_id).finish_non_exhaustive()
    }
}
