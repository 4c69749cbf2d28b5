//! Answers the tool calls of one reply: which are made side by side and which one after another, and what is journaled
//! when.
//!
//! Calls are made by one future and journaled by another, so that calls go on while the journal is written. Whatever is
//! to be journaled goes through one channel: it is journaled in the order in which it happened, and an answer after
//! everything that its call did. The calls that tools make of other tools are in `nested.rs`.

use std::sync::{Arc, Mutex};

use futures::future::{join, pending, try_join};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tracing::{Instrument, Span};

use super::nested::NestedCalls;
use super::{Driver, Journaled, RunError, gen_ai};
use crate::ports::{NestedTools, ToolRequest};
use crate::run::{OpenCall, Run, Step};
use crate::words::{Catalog, Event, Grants, Principal, ToolCall, ToolReturn};

/// Most tool calls of one run that are made at once, so that it takes a bounded share of the sandboxes that all runs have
/// together. Calls that tools make have as many permits of their own: a tool never waits for one that it holds itself.
pub(super) const CALLS_AT_ONCE: usize = 16;

impl Driver<'_> {
    /// Up to 16 calls at once. Each answer is journaled as soon as it is there, so that no call that was answered
    /// is ever made again.
    pub(super) async fn call_tools(
        &self,
        run: &mut Journaled,
        calls: Vec<OpenCall>,
    ) -> Result<Step, RunError> {
        let (notes, mut noted) = mpsc::unbounded_channel();
        let tool_calls = ToolCalls::new(self, &run.run, Notes(notes));
        let open_calls = calls.as_slice();
        let call_all = async move {
            // Dropped when all calls have ended, which ends the other future as well.
            let tool_calls = tool_calls;
            tool_calls.answer_all(open_calls).await;
            Ok(())
        };
        let note_all = async {
            let mut step = None;
            while let Some(note) = noted.recv().await {
                match note {
                    Note::Answered { index, answer } => {
                        let answer = run.run.fit(index, answer);
                        step = Some(self.note(run, Event::ToolReturned { index, answer }).await?);
                    }
                    Note::Awaited { event, is_journaled } => {
                        self.note(run, event).await?;
                        // Whoever waited for it may have been dropped meanwhile.
                        let _ = is_journaled.send(());
                    }
                }
            }
            Ok::<_, RunError>(step)
        };
        let ((), step) = try_join(call_all, note_all).await?;
        Ok(step.unwrap_or(Step::CallTools(calls)))
    }
}

/// What the calls of one reply have in common.
pub(super) struct ToolCalls<'a> {
    driver: &'a Driver<'a>,
    on_behalf: OnBehalf,
    turns: Semaphore,
    pub(super) catalog: Arc<Catalog>,
    pub(super) notes: Notes,
    /// Permits of the calls that tools make.
    pub(super) nested_turns: Semaphore,
    /// How many of those the run has made. Held for a few instructions, never across an await.
    pub(super) nested_made: Mutex<u32>,
}

/// What tools are told about the run. A copy, because the run itself takes note of answers while other calls are under
/// way.
struct OnBehalf {
    run_id: String,
    principal: Principal,
    grants: Grants,
    attempt: u32,
}

/// Something to be journaled.
enum Note {
    Answered { index: usize, answer: ToolReturn },
    Awaited { event: Event, is_journaled: oneshot::Sender<()> },
}

/// Where calls leave what is to be journaled.
pub(super) struct Notes(mpsc::UnboundedSender<Note>);

impl<'a> ToolCalls<'a> {
    fn new(driver: &'a Driver<'a>, run: &Run, notes: Notes) -> Self {
        let on_behalf = OnBehalf {
            run_id: run.id().to_owned(),
            principal: run.principal().clone(),
            grants: run.grants().clone(),
            attempt: run.attempt(),
        };
        Self {
            driver,
            on_behalf,
            turns: Semaphore::new(CALLS_AT_ONCE),
            catalog: run.catalog().clone(),
            notes,
            nested_turns: Semaphore::new(CALLS_AT_ONCE),
            nested_made: Mutex::new(run.nested_calls()),
        }
    }

    /// Calls are made side by side. But those that may destroy something were put into an order by the model, so each of
    /// them waits for the one before it.
    async fn answer_all(&self, calls: &[OpenCall]) {
        let beside = async {
            let mut answers = FuturesUnordered::new();
            for open in calls {
                if !waits_its_turn(open) {
                    answers.push(self.answer(open));
                }
            }
            while let Some(()) = answers.next().await {}
        };
        let in_order = async {
            for open in calls {
                if waits_its_turn(open) {
                    self.answer(open).await;
                }
            }
        };
        self.driver.unless_cancelled(join(beside, in_order)).await;
    }

    /// Answers a call.
    async fn answer(&self, open: &OpenCall) {
        let answer = match &open.refusal {
            Some(refusal) => refusal.clone(),
            None => self.make(open).await,
        };
        self.notes.leave(Note::Answered { index: open.index, answer });
    }

    /// Makes a call once it is its turn.
    async fn make(&self, open: &OpenCall) -> ToolReturn {
        // The semaphore is never closed, so there always is a permit.
        let _turn = self.turns.acquire().await;
        if !open.is_repeatable {
            self.notes.journaled(Event::ToolsStarted { indexes: vec![open.index] }).await;
        }
        let span = gen_ai::execute_tool(&open.call);
        if !open.calls_tools {
            return self.call(&open.id, &open.call, None, span).await;
        }
        let nested = NestedCalls::new(self, open, span.clone());
        let mut answer = self.call(&open.id, &open.call, Some(&nested), span).await;
        nested.sign(&mut answer.receipt);
        answer
    }

    /// Makes a call in its span.
    pub(super) async fn call(
        &self,
        call_id: &str,
        call: &ToolCall,
        nested: Option<&dyn NestedTools>,
        span: Span,
    ) -> ToolReturn {
        let request = ToolRequest {
            request_id: self.driver.request_id,
            run_id: &self.on_behalf.run_id,
            call_id,
            attempt: self.on_behalf.attempt,
            principal: &self.on_behalf.principal,
            grants: &self.on_behalf.grants,
            call,
            deadline: self.driver.deadline,
            nested,
        };
        let mut answer = self.driver.tools.call(request).instrument(span.clone()).await;
        answer.receipt.detail_mut().arguments = Some(call.arguments_digest());
        answer.receipt.bound();
        gen_ai::tool_ended(&span, &answer);
        answer
    }
}

fn waits_its_turn(open: &OpenCall) -> bool {
    open.is_destructive && open.refusal.is_none()
}

impl Notes {
    fn leave(&self, note: Note) {
        // Nobody listens only once the journal has failed, which ends whoever makes calls as well.
        let _ = self.0.send(note);
    }

    /// Resolves when the event is in the journal, and never when it cannot be. Dropped, it may be journaled all the same.
    pub(super) async fn journaled(&self, event: Event) {
        let (is_journaled, journaled) = oneshot::channel();
        self.leave(Note::Awaited { event, is_journaled });
        if journaled.await.is_err() {
            pending().await
        }
    }
}
