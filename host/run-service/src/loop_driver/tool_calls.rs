//! Answers the tool calls of one reply: which are made side by side and which one after another, and what is
//! journaled when.
//!
//! Calls are made by one future and journaled by another, so that calls go on while the journal is written.
//! Whatever is to be journaled goes through one channel: it is journaled in the order in which it happened,
//! and an answer after everything that its call did. The calls that tools make of other tools are in
//! `nested.rs`.

use agent_core::agent_loop::{OpenCall, Step};
use agent_core::ports::RecordedWorld;
use agent_core::words::{Event, ToolReturn};
use futures::future::{join, try_join};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

use super::call_context::{CallContext, MadeCall, Note, Notes};
use super::nested::NestedCalls;
use super::recorder::{Ended, Recorder};
use super::{Driver, Journaled, RunError, gen_ai, recorder};

impl Driver<'_> {
    /// Up to 16 calls at once. Each answer is journaled as soon as it is there, so that no call that was
    /// answered is ever made again.
    pub(super) async fn call_tools(
        &self,
        run: &mut Journaled,
        calls: Vec<OpenCall>,
    ) -> Result<Step, RunError> {
        self.control.calls_tools.set();
        let (notes, mut noted) = mpsc::unbounded_channel();
        let tool_calls = CallContext::new(self, run, Notes(notes));
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
                        let ends_call = matches!(event, Event::Waiting { .. });
                        let next = self.note(run, event).await?;
                        if ends_call {
                            step = Some(next);
                        }
                        // Whoever waited for it may have been dropped meanwhile.
                        let _ = is_journaled.send(());
                    }
                }
            }
            Ok::<_, RunError>(step)
        };
        let ((), step) = try_join(call_all, note_all).await?;
        self.control.calls_tools.unset();
        Ok(step.unwrap_or(Step::CallTools(calls)))
    }
}

impl CallContext<'_> {
    /// Calls are made side by side. But those that may destroy something were put into an order by the model,
    /// so each of them waits for the one before it.
    async fn answer_all(&self, calls: &[OpenCall]) {
        let beside = async {
            let mut answers = FuturesUnordered::new();
            for open in calls {
                if !waits_its_turn(open) {
                    answers.push(self.answer(open));
                }
            }
            while let Some(_has_ended) = answers.next().await {}
        };
        let in_order = async {
            for open in calls {
                // Calls behind one that waits keep their place.
                if waits_its_turn(open) && !self.answer(open).await {
                    break;
                }
            }
        };
        self.driver.unless_cancelled(join(beside, in_order)).await;
    }

    /// False when the call came to something that waits and has no answer yet.
    async fn answer(&self, open: &OpenCall) -> bool {
        let answer = match &open.refusal {
            Some(refusal) => Some(refusal.clone()),
            None => self.make(open).await,
        };
        let is_answered = answer.is_some();
        if let Some(answer) = answer {
            self.notes.leave(Note::Answered { index: open.index, answer });
        }
        is_answered
    }

    /// Makes a call once it is its turn. Nothing when it has to wait in its middle, which is journaled then.
    async fn make(&self, open: &OpenCall) -> Option<ToolReturn> {
        // The semaphore is never closed, so there always is a permit.
        let _turn = self.turns.acquire().await;
        self.driver.control.may_act().await;
        let recorder = Recorder::of(self, open);
        self.begin(open, recorder.as_ref()).await;
        let span = gen_ai::execute_tool(&open.call);
        let call = &open.call;
        #[cfg(any(test, feature = "testing"))]
        let call = match &open.approved {
            Some(approved) if crate::testing::has(crate::testing::Bug::EditIgnored) => &approved.asked,
            _ => call,
        };
        let made = MadeCall { id: &open.id, call, approved: open.approved.as_ref(), open, span };
        if !open.calls_tools && !open.may_ask {
            return Some(self.call(made, None).await);
        }
        let nested = NestedCalls::new(self, open, made.span.inner(), recorder);
        let mut answer = self.call(made, Some(&nested)).await;
        nested.sign(&mut answer.receipt);
        match nested.ended(&answer) {
            None => Some(answer),
            Some(Ended::Differs(why)) => Some(recorder::stopped(answer.receipt, why)),
            Some(Ended::Waits(wait)) => {
                let (kind, waits, epoch) = (wait.kind, vec![*wait], self.driver.epoch().0);
                self.notes.journaled(Event::Waiting { waits, epoch }).await;
                self.driver.control.observer.0.wait_began(kind);
                None
            }
        }
    }

    /// Journals what has to be known of a call before it is made.
    async fn begin(&self, open: &OpenCall, recorder: Option<&Recorder>) {
        if let Some(recorder) = recorder
            && open.recording.is_none()
        {
            let RecordedWorld { now: at, seed } = recorder.world();
            self.notes.journaled(Event::RecordingStarted { index: open.index, at, seed }).await;
        }
        let may_be_repeated = open.is_repeatable || (recorder.is_some() && open.is_replayable);
        if !may_be_repeated {
            self.notes.journaled(Event::ToolsStarted { indexes: vec![open.index] }).await;
        }
    }
}

fn waits_its_turn(open: &OpenCall) -> bool {
    open.is_destructive && open.refusal.is_none()
}
