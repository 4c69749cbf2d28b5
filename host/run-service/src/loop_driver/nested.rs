//! The calls that a tool makes of the run's other tools, and the questions that it asks: numbered, bounded,
//! journaled, and never nested deeper than one.
//!
//! A call is numbered and counted first, whatever becomes of it. Before one that must not be made twice its
//! beginning is journaled; every answer is journaled before the calling tool gets it. Calls beyond the limits
//! are refused without another word: a tool that asks for ever costs no line of the journal. What has to wait
//! for somebody ends the calling tool's call, where that can be made again (`recorder.rs`), and is refused
//! elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use boxed_async::boxed_async;
use serde_json::Value;

use super::call_context::{CallContext, MadeCall};
use super::gen_ai;
use super::nested_bounds::{self, MOST_OF_A_CALL};
use super::recorder::{Ended, Known, MOST_RECORDED_BYTES, Recorder};

use agent_core::agent_loop::{Approved, Decided, OpenCall, refusal};
use agent_core::ports::{CallEnds, NestedTools, Question, RecordedWorld, WaitTerms};
use agent_core::trace::{self, Parent};
use agent_core::words::{Event, ToolCall, ToolOutcome, ToolReceipt, ToolReturn, WaitKind, cut};

/// Most of them in one run. A run's journal is read at once wherever it is resumed, so it has to stay small:
/// these are about as many lines as the model's own calls may add (32 in each of nine replies).
const MOST_OF_A_RUN: u32 = 256;

/// Most bytes of an error that are journaled.
const ERROR_BYTES: usize = 400;

/// The run's other tools, for one call.
pub(super) struct NestedCalls<'a> {
    calls: &'a CallContext<'a>,
    outer: &'a OpenCall,
    /// Of the spans of its calls, whoever polls them: the outer call's.
    parent: Option<Parent>,
    /// How many calls it made.
    made: AtomicU32,
    /// Whether one of them went to a component that can tell users apart.
    per_user: AtomicBool,
    /// Present where the outer call can be made again.
    recorder: Option<Recorder>,
}

/// What is asked for when nothing is known of it yet.
enum NestedStep {
    Call,
    Question(Box<WaitTerms>),
    /// Neither: this is the answer.
    Refused(ToolReturn),
}

impl<'a> NestedCalls<'a> {
    pub(super) fn new(
        calls: &'a CallContext<'a>,
        outer: &'a OpenCall,
        parent: Option<Parent>,
        recorder: Option<Recorder>,
    ) -> Self {
        Self { calls, outer, parent, made: AtomicU32::new(0), per_user: AtomicBool::new(false), recorder }
    }

    /// Why the outer call does not have this answer of its tool, if it does not.
    pub(super) fn ended(&self, answer: &ToolReturn) -> Option<Ended> {
        let recorder = self.recorder.as_ref()?;
        // One that failed may have come less far.
        if answer.receipt.outcome == ToolOutcome::Ok {
            recorder.answered_after(self.made.load(Relaxed));
        }
        recorder.ended()
    }

    /// Puts what the calls came to into the outer call's receipt.
    pub(super) fn sign(&self, receipt: &mut ToolReceipt) {
        receipt.nested = self.made.load(Relaxed);
        receipt.detail_mut().per_user |= self.per_user.load(Relaxed);
    }

    /// The number of another call, if there may be one.
    fn take_number(&self) -> Option<u32> {
        let mut of_run = self.calls.nested_made.lock();
        let number = self.made.load(Relaxed);
        let is_counted = self.recorder.as_ref().is_some_and(|recorder| recorder.has_counted(number));
        if number >= MOST_OF_A_CALL || (!is_counted && *of_run >= MOST_OF_A_RUN) {
            return None;
        }
        *of_run += u32::from(!is_counted);
        // Nobody else writes it while the run's count is held.
        self.made.store(number + 1, Relaxed);
        Some(number)
    }

    fn one_too_many(name: String) -> ToolReturn {
        let bounds = format!("one call may make {MOST_OF_A_CALL}, those of a run {MOST_OF_A_RUN}");
        nested_bounds::one_too_many(name, &bounds)
    }

    /// Gives the answer that is known, or has it made and journals it.
    async fn step(
        &self,
        number: u32,
        asked: Arc<ToolCall>,
        what: NestedStep,
    ) -> Result<ToolReturn, CallEnds> {
        let component = match &what {
            NestedStep::Question(terms) => Some(terms.shown.component.as_str()),
            NestedStep::Call | NestedStep::Refused(_) => None,
        };
        let known = match &self.recorder {
            Some(recorder) => recorder.known(number, &asked, component)?,
            None => Known::Nothing,
        };
        let answer = match known {
            Known::Answer(answer) => {
                self.per_user.fetch_or(answer.receipt.is_per_user(), Relaxed);
                return Ok(answer);
            }
            Known::Interrupted => refusal::interrupted(&asked),
            Known::Decided(Decided::Answered(answer)) => *answer,
            Known::Decided(Decided::Made { call, approved }) => {
                self.call_of(number, &call, Some(&approved)).await?
            }
            Known::Nothing => match what {
                NestedStep::Refused(answer) => answer,
                NestedStep::Call => self.call_of(number, &asked, None).await?,
                NestedStep::Question(terms) => self.wait(number, &asked, &terms)?,
            },
        };
        self.per_user.fetch_or(answer.receipt.is_per_user(), Relaxed);
        self.journal(number, &asked, &answer).await;
        Ok(answer)
    }

    /// Calls a tool, unless somebody has to decide about that first.
    async fn call_of(
        &self,
        number: u32,
        call: &Arc<ToolCall>,
        approved: Option<&Approved>,
    ) -> Result<ToolReturn, CallEnds> {
        if let Some(refusal) = refusal::unfit(&self.calls.catalog, call) {
            return Ok(refusal);
        }
        let Some(tool) = self.calls.catalog.nestable().find(|tool| tool.name == call.name) else {
            return Ok(nested_bounds::calls_tools_itself(call));
        };
        let asked = approved.map_or(call, |approved| &approved.asked);
        let terms = self.calls.driver.tools.approval(asked, &self.calls.on_behalf.principal);
        if let Some(terms) = terms.filter(|terms| !terms.are_met(approved)) {
            return self.wait(number, asked, &terms);
        }
        // The semaphore is never closed, so there always is a permit.
        let _turn = self.calls.nested_turns.acquire().await;
        self.calls.driver.control.may_act().await;
        if !tool.is_repeatable {
            let (index, name) = (self.outer.index, call.name.clone());
            self.calls.notes.journaled(Event::NestedStarted { index, number, name }).await;
        }
        let span = trace::within(self.parent.as_ref(), || gen_ai::execute_tool(call));
        Ok(self.calls.call(MadeCall { id: &call.id, call, approved, open: self.outer, span }, None).await)
    }

    /// Ends the outer call until somebody has decided, or refuses what it asked for where that cannot be.
    fn wait(&self, number: u32, asked: &ToolCall, terms: &WaitTerms) -> Result<ToolReturn, CallEnds> {
        match &self.recorder {
            Some(recorder) if !recorder.has_gap() => {
                Err(recorder.wait(self.calls, self.outer, number, terms))
            }
            Some(_) => {
                let why = format!(
                    "somebody has to decide about it first, and the answers before it are more than the \
                     {MOST_RECORDED_BYTES} bytes that a run keeps to be gone on with"
                );
                Ok(WaitTerms::not_made(asked, &why))
            }
            None if terms.kind == WaitKind::Question => Ok(nested_bounds::nobody_to_ask(asked)),
            None => Ok(WaitTerms::refusal(asked)),
        }
    }

    /// Journals an answer. One that cannot be recorded leaves a call that must not be made again.
    async fn journal(&self, number: u32, asked: &ToolCall, answer: &ToolReturn) {
        let index = self.outer.index;
        let failed = answer.receipt.outcome != ToolOutcome::Ok;
        let error = failed.then(|| {
            let mut error = answer.content.clone();
            cut(&mut error, ERROR_BYTES);
            error
        });
        let mut recorded = None;
        if let Some(recorder) = &self.recorder {
            let answer = recorder.recorded(asked, answer);
            if !recorder.has_gap() && self.has_room(answer.bytes()) {
                recorded = Some(Box::new(answer));
            } else if recorder.leave_gap() {
                self.calls.notes.journaled(Event::ToolsStarted { indexes: vec![index] }).await;
            }
        }
        let receipt = answer.receipt.clone();
        self.calls.notes.journaled(Event::NestedReturned { index, number, receipt, error, recorded }).await;
    }

    /// Counts bytes that are to be recorded, if there is room for them.
    fn has_room(&self, bytes: usize) -> bool {
        let mut of_run = self.calls.recorded_bytes.lock();
        let has_room = of_run.saturating_add(bytes) <= MOST_RECORDED_BYTES;
        if has_room {
            *of_run += bytes;
        }
        has_room
    }
}

#[boxed_async]
impl NestedTools for NestedCalls<'_> {
    fn names(&self) -> Vec<String> {
        self.calls.catalog.nestable().map(|tool| tool.name.clone()).collect()
    }

    fn recorded(&self) -> Option<RecordedWorld> {
        self.recorder.as_ref().map(Recorder::world)
    }

    async fn call(&self, name: &str, arguments: &str) -> Result<ToolReturn, CallEnds> {
        let name = nested_bounds::shortened(name);
        let Some(number) = self.take_number() else { return Ok(Self::one_too_many(name)) };
        let id = format!("{}.{number}", self.outer.id);
        let (call, what) = match nested_bounds::read(id, name.clone(), arguments) {
            Ok(call) => (call, NestedStep::Call),
            Err(too_long) => {
                let call = ToolCall { id: String::new(), name, arguments: Value::Null };
                (call, NestedStep::Refused(too_long))
            }
        };
        self.step(number, Arc::new(call), what).await
    }

    async fn ask(&self, question: Question<'_>) -> Result<ToolReturn, CallEnds> {
        let outer = &self.outer.call;
        let Some(number) = self.take_number() else { return Ok(Self::one_too_many(outer.name.clone())) };
        let hints = self.calls.catalog.get(&outer.name).map(|tool| tool.hints).unwrap_or_default();
        let call = nested_bounds::question(outer.name.clone(), question);
        let what = match nested_bounds::terms(&call, question, hints) {
            Ok(terms) => NestedStep::Question(Box::new(terms)),
            Err(refused) => NestedStep::Refused(refused),
        };
        self.step(number, Arc::new(call), what).await
    }
}
