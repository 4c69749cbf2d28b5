//! One call that may come to something that waits: it ends there, and is made again when that is decided,
//! with the answers that its nested calls and questions had.
//!
//! What is recorded is in the journal before the tool is told of it. A nested call that must not be made
//! twice is in the journal before it is made. So whoever makes the call again, also after a kill, repeats
//! none of those: it gives the answers that are known, and says that the outcome is not known of one that was
//! begun. A tool that asks for something else than it did before is not gone on with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use agent_core::agent_loop::{Decided, OpenCall, OpenWait, RecordedStep, Recording};
use agent_core::ports::{CallEnds, REJECTED, RecordedWorld, WaitTerms, WaitingCall};
use agent_core::words::{
    CallPlace, EnclosingCall, RecordedAnswer, ToolCall, ToolOutcome, ToolReceipt, ToolReturn, Verdict, Wait,
    cut,
};
use parking_lot::Mutex;

use super::call_context::CallContext;
use crate::clock;

/// Most bytes of answers that are recorded in one run: its journal is read at once wherever it is resumed.
pub(super) const MOST_RECORDED_BYTES: usize = 2 << 20;

/// Most bytes of arguments that are shown where a call differs from what it was.
const SHOWN_BYTES: usize = 200;

/// Code of the receipt of a call that asked for something else when it was made again.
const DIFFERS: &str = "replay-differs";

/// What is recorded of a call, and how it ended where it has no answer.
pub(super) struct Recorder {
    recording: Recording,
    job_id: String,
    /// The time that the guest is told.
    now: AtomicU64,
    /// Whether an answer was not recorded, so that the call cannot be made again.
    has_gap: AtomicBool,
    ended: Mutex<Option<Ended>>,
}

/// Why a call has no answer of its tool.
pub(super) enum Ended {
    Waits(Box<Wait>),
    /// What the model is told of a call that asked for something else than before.
    Differs(String),
}

/// What is known of a nested call or question before it is made.
pub(super) enum Known {
    Nothing,
    /// The answer that the tool was given before.
    Answer(ToolReturn),
    /// A call that must not be made twice was begun.
    Interrupted,
    /// Somebody has decided about it.
    Decided(Decided),
}

impl Recorder {
    /// The recorder of a call that may come to something that waits, in a run that can.
    pub(super) fn of(calls: &CallContext<'_>, open: &OpenCall) -> Option<Self> {
        let job_id = calls.driver.job_id()?;
        let may_wait = || calls.driver.tools.may_wait_within(open.may_ask, open.calls_tools);
        if open.recording.is_none() && !may_wait() {
            return None;
        }
        let recording = open.recording.clone().unwrap_or_else(|| Recording {
            at: clock::millis(),
            seed: clock::new_id(),
            ..Recording::default()
        });
        Some(Self {
            now: AtomicU64::new(recording.at),
            recording,
            job_id: job_id.to_owned(),
            has_gap: AtomicBool::new(false),
            ended: Mutex::default(),
        })
    }

    pub(super) fn world(&self) -> RecordedWorld {
        RecordedWorld { now: self.now.load(Relaxed), seed: self.recording.seed.clone() }
    }

    /// Whether the run has counted the nested call of that number before.
    pub(super) fn has_counted(&self, number: u32) -> bool {
        number < self.recording.count
    }

    /// What is known of the nested call or question of that number, if it is the one that it was. `component`
    /// is what asks a question: one that another version was asked is asked once more.
    pub(super) fn known(
        &self,
        number: u32,
        asked: &Arc<ToolCall>,
        component: Option<&str>,
    ) -> Result<Known, CallEnds> {
        match self.recording.steps.get(&number).map(|step| &**step) {
            Some(RecordedStep::Answered { receipt, answer }) => {
                if receipt.name != asked.name || answer.asked != asked.arguments_digest() {
                    return Err(self.differs(number, &described(&receipt.name, &answer.arguments), asked));
                }
                self.now.fetch_max(answer.at, Relaxed);
                let (content, receipt) = (answer.content.clone(), receipt.clone());
                Ok(Known::Answer(ToolReturn { content, receipt }))
            }
            Some(RecordedStep::Begun { name }) if *name == asked.name => Ok(Known::Interrupted),
            Some(RecordedStep::Begun { name }) => Err(self.differs(number, &format!("`{name}`"), asked)),
            None => {
                let Some(open) = self.recording.waits.get(&number) else { return Ok(Known::Nothing) };
                let shown = &open.wait.shown;
                if shown.tool != asked.name || shown.arguments != asked.arguments {
                    let was = described(&shown.tool, &shown.arguments.to_string());
                    return Err(self.differs(number, &was, asked));
                }
                if component.is_some_and(|component| component != shown.component) {
                    return Ok(Known::Nothing);
                }
                Ok(decided(open, asked))
            }
        }
    }

    /// The answer as it is recorded.
    pub(super) fn recorded(&self, asked: &ToolCall, answer: &ToolReturn) -> RecordedAnswer {
        let mut arguments = asked.arguments.to_string();
        cut(&mut arguments, SHOWN_BYTES);
        let now = clock::millis();
        let at = self.now.fetch_max(now, Relaxed).max(now);
        RecordedAnswer { asked: asked.arguments_digest(), arguments, content: answer.content.clone(), at }
    }

    /// Notes that an answer is not recorded. True the first time.
    pub(super) fn leave_gap(&self) -> bool {
        !self.has_gap.swap(true, Relaxed)
    }

    pub(super) fn has_gap(&self) -> bool {
        self.has_gap.load(Relaxed)
    }

    /// Ends the call until these terms are decided about its nested call or question of that number.
    pub(super) fn wait(
        &self,
        calls: &CallContext<'_>,
        open: &OpenCall,
        number: u32,
        terms: &WaitTerms,
    ) -> CallEnds {
        let within = EnclosingCall { tool: open.call.name.clone(), number };
        let place = CallPlace { index: open.index, nested: Some(number) };
        let waiting = WaitingCall {
            id: &Wait::new_id(&self.job_id, &calls.on_behalf.run_id, calls.iterations, place),
            times_shown: self.recording.shown.get(&number).copied().unwrap_or_default(),
            index: open.index,
            within: Some(&within),
            usage: calls.usage,
        };
        let wait = terms.wait(waiting, clock::millis());
        self.end(Ended::Waits(Box::new(wait)))
    }

    fn differs(&self, number: u32, was: &str, asked: &ToolCall) -> CallEnds {
        let is = described(&asked.name, &asked.arguments.to_string());
        self.end(differs(number, &format!("was another one than before: expected {was}, asked for {is}")))
    }

    /// Notes that the call has come to an answer without something that it asked for before, having made that
    /// many nested calls and asked that many questions.
    pub(super) fn answered_after(&self, made: u32) {
        let Recording { steps, waits, .. } = &self.recording;
        let step = steps.range(made..).next().map(|(number, step)| {
            (
                *number,
                match &**step {
                    RecordedStep::Begun { name } => format!("`{name}`"),
                    RecordedStep::Answered { receipt, answer } => described(&receipt.name, &answer.arguments),
                },
            )
        });
        let wait = waits.range(made..).next().map(|(number, open)| {
            (*number, described(&open.wait.shown.tool, &open.wait.shown.arguments.to_string()))
        });
        if let Some((number, was)) = step.into_iter().chain(wait).min() {
            self.end(differs(number, &format!("was not asked for: expected {was}")));
        }
    }

    /// Notes why the call ends: the first reason counts.
    fn end(&self, ended: Ended) -> CallEnds {
        self.ended.lock().get_or_insert(ended);
        CallEnds
    }

    /// Why the call has no answer of its tool, if it has none.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.ended.lock().take()
    }
}

/// What the model is told of a call that was another one when it was made again.
fn differs(number: u32, how: &str) -> Ended {
    Ended::Differs(format!(
        "Error: the call was made again after it had waited, and its nested call {number} {how}. It was stopped \
         there. What it did before was not done again. Call it so that what it asks for depends on its arguments \
         and on earlier answers only."
    ))
}

/// What was decided about a nested call or question, as its tool is told.
fn decided(open: &OpenWait, asked: &Arc<ToolCall>) -> Known {
    let Some(mut decided) = open.makes_of(asked) else { return Known::Nothing };
    if let Decided::Answered(told) = &mut decided {
        match open.decided().map(|decision| &decision.verdict) {
            // Tools read JSON, also of a text.
            Some(Verdict::Answer { answer }) => told.content = answer.to_string(),
            _ => told.receipt.detail_mut().code = Some(REJECTED.to_owned()),
        }
    }
    Known::Decided(decided)
}

/// The answer to a call that was not gone on with.
pub(super) fn stopped(receipt: ToolReceipt, content: String) -> ToolReturn {
    let mut receipt = ToolReceipt { outcome: ToolOutcome::Failed, ..receipt };
    receipt.detail_mut().code = Some(DIFFERS.to_owned());
    ToolReturn { content, receipt }
}

fn described(tool: &str, arguments: &str) -> String {
    let mut shown = arguments.to_owned();
    cut(&mut shown, SHOWN_BYTES);
    format!("`{tool}` with {shown}")
}
