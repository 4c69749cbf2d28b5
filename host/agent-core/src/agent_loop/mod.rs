//! An agent run as a value: events in, steps out. No async, no clock, no I/O.
//!
//! ```text
//! Run::start(task, catalog)  -> Step          Step = AskModel | CallTools | Done
//! run.on(Event)              -> Step
//! Run::resume(events)        -> Step          the same run, folded from its journal
//! ```
//!
//! The rules of a run live here and nowhere else: how many model calls it may make, what it may spend, and
//! what a model is told about a tool that does not exist. Carrying steps out is `run-service`'s
//! business.
//!
//! What happened is taken from the events alone, and the rules are asked only for what comes next. So a
//! journal folds to the same history with whatever tools are loaded when it is read.

mod budget;
mod children;
mod conversation;
mod given_call;
mod open_wait;
mod output;
mod progress;
mod recorded_end;
mod recording;
pub mod refusal;
mod remaining;
mod repeats;
mod replies;
mod resume;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use budget::most_catalog_tokens;
pub use children::{MOST_DEPTH, RUN_AGENT};
pub use conversation::kept_history;
pub use open_wait::{Approved, Decided, OpenWait};
pub use progress::{attempts_without_progress, hand_backs_without_progress};
pub use recorded_end::recorded_end;
pub use recording::{RecordedStep, Recording};

use crate::words::{
    AgentResult, CallPlace, Catalog, Event, Grants, Limit, Message, ModelReply, Principal, StopReason, Task,
    ToolCall, ToolReceipt, ToolReturn, ToolSpec, Usage, Wait,
};
use repeats::Repeats;

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask the model to go on from [`Run::messages`].
    AskModel(ModelCall),
    /// Answer these calls, many at once: those of the last reply that are still open, in its order.
    CallTools(Vec<OpenCall>),
    /// Let go of the run until somebody has decided about all of these, which are in its journal: every call
    /// of the last reply that is not answered waits.
    Park(Vec<Wait>),
    /// The run is over.
    Done(Box<AgentResult>),
}

/// How the model is to be asked. What is not in the conversation by itself goes into the journal with the
/// reply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelCall {
    /// Most tokens the reply may have.
    pub max_tokens: u32,
    /// Sampling temperature.
    pub temperature: f64,
    /// About how many tokens the model will read.
    pub input_tokens: u64,
    /// The limit that makes this the last call, which is to end the run in words: the model is to call no
    /// tools, and calls in its reply are not made.
    pub last_by: Option<Limit>,
}

impl ModelCall {
    /// What happened when the model replied to it.
    pub fn replied(&self, reply: ModelReply) -> Event {
        self.checked(reply, None)
    }

    /// [`Self::replied`] with what is wrong with the reply, held against the output that is wanted
    /// ([`Run::format_of`]).
    pub fn checked(&self, reply: ModelReply, output_fault: Option<String>) -> Event {
        let (input_tokens, last_by) = (Some(self.input_tokens), self.last_by);
        Event::ModelReplied { reply, input_tokens, last_by, output_fault }
    }
}

/// A tool call that waits for its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCall {
    /// Index of the call in the reply, counted from 0.
    pub index: usize,
    /// Names the call within all runs: `run_….<model call>.<index>`. The same whenever the run is taken up.
    pub id: String,
    /// What the model asked for.
    pub call: Arc<ToolCall>,
    /// The answer, when it is known without calling a tool: there is none of that name, the arguments are not
    /// a JSON object, there are too many calls, or it would be the third time in a row for nothing.
    pub refusal: Option<ToolReturn>,
    /// The approval of the call, if somebody gave one. The call is only made if it would be shown like that
    /// still.
    pub approved: Option<Approved>,
    /// How often it was shown to somebody.
    pub times_shown: u32,
    /// Whether the call may be made again when its answer is lost. Of one that may not,
    /// [`Event::ToolsStarted`] has to be journaled before it is made.
    pub is_repeatable: bool,
    /// Whether the call may destroy something. Those that may are made one after another, in the order of the
    /// reply; all others at once (host/docs/interface/decisions-runs.md#how-a-run-ends).
    pub is_destructive: bool,
    /// Whether the tool may call other tools.
    pub calls_tools: bool,
    /// Whether the tool may ask somebody.
    pub may_ask: bool,
    /// Whether the call may be made again with what was recorded of it, whatever its tool says of itself.
    pub is_replayable: bool,
    /// What was recorded of the call when it was made before, if anything was.
    pub recording: Option<Recording>,
}

/// An event that does not answer the step the run waits for, or a journal that does not begin a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("run {run_id} cannot go on with this event: it {expected}")]
pub struct UnexpectedEvent {
    run_id: String,
    expected: &'static str,
}

/// One agent run.
#[derive(Debug)]
pub struct Run {
    task: Task,
    catalog: Arc<Catalog>,
    messages: Vec<Message>,
    /// How many of them stood there before the run: instructions and history.
    before: usize,
    usage: Usage,
    /// Usage of the last reply and how many messages there were with it: what the next call will read.
    last: Option<(Usage, usize)>,
    iterations: u32,
    /// The last reply had neither words nor calls.
    last_was_empty: bool,
    /// Whether the last reply had to be the output that the caller may want.
    is_output: bool,
    /// What is wrong with the last reply as the output that the caller wants.
    output_fault: Option<String>,
    /// How often the model was told so.
    corrections: u32,
    model: String,
    receipts: Vec<ToolReceipt>,
    repeats: Repeats,
    /// How often the run was taken up.
    resumes: u32,
    /// Calls of the last reply that were begun and must not be begun twice, by index.
    started: BTreeSet<usize>,
    /// Calls in `started` whose worker died: whether they had an effect is not known.
    interrupted: BTreeSet<usize>,
    /// How many calls its tools have made of other tools, in the whole run.
    nested_calls: u32,
    /// How many of them each call of the last reply has made, by index.
    nested: BTreeMap<usize, u32>,
    /// What is recorded of calls of the last reply, by index.
    recordings: BTreeMap<usize, Recording>,
    /// Bytes of answers that are recorded, in the whole run.
    recorded_bytes: usize,
    /// What of the last reply waited for somebody or does, and how often each was shown.
    waits: BTreeMap<CallPlace, OpenWait>,
    shown: BTreeMap<CallPlace, u32>,
    /// The epoch of the journal's last writer, if the last of them were written under it.
    waits_epoch: Option<u64>,
    waiting: Waiting,
}

/// The calls of a reply in its order, each with its answer once there is one.
type Calls = Vec<(Arc<ToolCall>, Option<ToolReturn>)>;

/// What a run waits for.
#[derive(Debug)]
enum Waiting {
    Model,
    /// At least one of them has no answer.
    Tools(Calls),
    /// For somebody to take its result.
    Nothing(StopReason),
    /// The run has ended and its result was given away.
    Over,
}

impl Run {
    /// Begins a run with the tools of `catalog`.
    pub fn start(task: Task, catalog: Arc<Catalog>) -> (Self, Step) {
        let mut run = Self::begin(task, catalog);
        let step = match &run.waiting {
            Waiting::Tools(calls) => run.call_or_park(calls),
            Waiting::Model | Waiting::Nothing(_) | Waiting::Over => run.ask_model(),
        };
        (run, step)
    }

    /// Takes note of what happened and says what to do next: what is still open of the last step, or the
    /// next one.
    pub fn on(&mut self, event: Event) -> Result<Step, UnexpectedEvent> {
        self.take_note(event)?;
        self.next_step()
    }

    /// Id of the run.
    pub fn id(&self) -> &str {
        &self.task.id
    }

    /// On whose behalf it is made.
    pub fn principal(&self) -> &Principal {
        &self.task.principal
    }

    /// What it may do.
    pub fn grants(&self) -> &Grants {
        &self.task.grants
    }

    /// Which attempt at it this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.resumes.saturating_add(1)
    }

    /// The conversation so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The tools the run started with.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Tokens of all model calls so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Model calls that were answered so far.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Calls that its tools have made of other tools so far.
    pub fn nested_calls(&self) -> u32 {
        self.nested_calls
    }

    fn begin(task: Task, catalog: Arc<Catalog>) -> Self {
        let (mut messages, before) = conversation::begin(&task);
        let waiting = given_call::first_step(&task, &mut messages);
        Self {
            messages,
            before,
            model: task.model.clone(),
            task,
            catalog,
            usage: Usage::default(),
            last: None,
            iterations: 0,
            last_was_empty: false,
            is_output: false,
            output_fault: None,
            corrections: 0,
            receipts: Vec::new(),
            repeats: Repeats::default(),
            resumes: 0,
            started: BTreeSet::new(),
            interrupted: BTreeSet::new(),
            nested_calls: 0,
            nested: BTreeMap::new(),
            recordings: BTreeMap::new(),
            recorded_bytes: 0,
            waits: BTreeMap::new(),
            shown: BTreeMap::new(),
            waits_epoch: None,
            waiting,
        }
    }

    /// [`Self::on`] for whoever carries nothing of the run out.
    pub fn take_note(&mut self, event: Event) -> Result<(), UnexpectedEvent> {
        match event {
            Event::TakenUp { .. } => {
                self.resumes += 1;
                // Whoever takes a run up writes this first, under an epoch of their own.
                self.waits_epoch = None;
                self.interrupted.append(&mut self.started);
                return Ok(());
            }
            Event::HandedBack => return Ok(()),
            Event::ToolsStarted { indexes } => return self.on_start(indexes),
            Event::Waiting { waits, epoch } => return self.on_waiting(waits, epoch),
            Event::Decided { wait, decision } => return self.on_decided(&wait, decision),
            Event::RecordingStarted { index, at, seed } => return self.on_recording(index, at, seed),
            Event::NestedStarted { index, number, name } => {
                return self.on_step(index, number, RecordedStep::Begun { name });
            }
            Event::NestedReturned { index, number, receipt, recorded, .. } => {
                return self.on_nested_return(index, number, receipt, recorded);
            }
            _ => {}
        }
        match (std::mem::replace(&mut self.waiting, Waiting::Over), event) {
            (Waiting::Model, Event::ModelReplied { reply, input_tokens, last_by, output_fault }) => {
                self.is_output = output::is_output(&reply, last_by);
                self.output_fault = output_fault;
                self.waiting = self.on_reply(reply, input_tokens, last_by);
            }
            (Waiting::Tools(calls), Event::ToolReturned { index, answer }) => {
                self.waiting = self.on_return(calls, index, answer)?;
            }
            (Waiting::Model, Event::Cancelled) => self.waiting = Waiting::Nothing(StopReason::Cancelled),
            (Waiting::Tools(calls), Event::Cancelled) => {
                self.leave_unanswered(calls, "the run was cancelled");
                self.waiting = Waiting::Nothing(StopReason::Cancelled);
            }
            (Waiting::Model, _) => return Err(self.unexpected("waits for the model")),
            (Waiting::Tools(_), _) => return Err(self.unexpected("waits for tools")),
            (Waiting::Nothing(_) | Waiting::Over, _) => return Err(self.unexpected("has ended")),
        }
        Ok(())
    }

    fn next_step(&mut self) -> Result<Step, UnexpectedEvent> {
        match &self.waiting {
            Waiting::Model => Ok(self.ask_model()),
            Waiting::Tools(calls) if self.can_read_answers() => Ok(self.call_or_park(calls)),
            // The last reply was so long that nobody could read what its tools say.
            Waiting::Tools(_) => Ok(self.stop_before_tools(StopReason::TokenBudget)),
            Waiting::Nothing(reason) => Ok(self.finish(*reason)),
            Waiting::Over => Err(self.unexpected("has ended")),
        }
    }

    /// Calls what waits for nobody. When there is nothing like that left, the run is let go of.
    fn call_or_park(&self, calls: &[(Arc<ToolCall>, Option<ToolReturn>)]) -> Step {
        let open = calls.iter().enumerate().filter(|(_, (_, answer))| answer.is_none());
        let ready = open.filter(|(index, (call, _))| !self.is_held(*index, call));
        let ready: Vec<_> = ready.map(|(index, (call, _))| self.open_call(index, call)).collect();
        if !ready.is_empty() {
            return Step::CallTools(ready);
        }
        let undecided = self.waits().filter(|open| open.decided().is_none());
        Step::Park(undecided.map(|open| open.wait.clone()).collect())
    }

    fn open_call(&self, index: usize, call: &Arc<ToolCall>) -> OpenCall {
        let tool = self.catalog.get(&call.name);
        let (call, approved, rejection) = match self.decided(index, call) {
            Some(Decided::Made { call, approved }) => (call, Some(approved), None),
            Some(Decided::Answered(answer)) => (call.clone(), None, Some(*answer)),
            None => (call.clone(), None, None),
        };
        OpenCall {
            index,
            id: format!("{}.{}.{index}", self.task.id, self.iterations),
            refusal: rejection.or_else(|| self.refuse(index, &call)),
            call,
            approved,
            times_shown: self.times_shown(CallPlace { index, nested: None }),
            is_repeatable: tool.is_some_and(|tool| tool.is_repeatable && !tool.calls_tools),
            is_destructive: tool.is_some_and(|tool| self.may_destroy(tool)),
            calls_tools: tool.is_some_and(|tool| tool.calls_tools),
            may_ask: tool.is_some_and(|tool| tool.may_ask),
            is_replayable: tool.is_some_and(|tool| tool.is_replayable),
            recording: self.recording(index),
        }
    }

    /// Whether a call of the tool may destroy something. One that calls other tools may destroy what they do.
    fn may_destroy(&self, tool: &ToolSpec) -> bool {
        tool.is_destructive
            || (tool.calls_tools && self.catalog.nestable().any(|nested| nested.is_destructive))
    }

    fn on_start(&mut self, indexes: Vec<usize>) -> Result<(), UnexpectedEvent> {
        let Waiting::Tools(calls) = &self.waiting else { return Err(self.unexpected("waits for no tools")) };
        let is_open = |index: &usize| matches!(calls.get(*index), Some((_, None)));
        if !indexes.iter().all(is_open) {
            return Err(self.unexpected("waits for other tools"));
        }
        self.started.extend(indexes);
        Ok(())
    }

    fn on_return(
        &mut self,
        mut calls: Calls,
        index: usize,
        answer: ToolReturn,
    ) -> Result<Waiting, UnexpectedEvent> {
        match calls.get_mut(index) {
            Some((_, open @ None)) => *open = Some(answer),
            Some(_) | None => return Err(self.unexpected("waits for other tools")),
        }
        if calls.iter().any(|(_, answer)| answer.is_none()) {
            return Ok(Waiting::Tools(calls));
        }
        self.repeats.note(calls.iter().filter_map(|(call, answer)| Some((call, answer.as_ref()?))));
        for (call, answer) in calls {
            self.answer(&call, answer);
        }
        Ok(self.behind_answers())
    }

    fn answer(&mut self, call: &ToolCall, answer: Option<ToolReturn>) {
        let Some(ToolReturn { content, receipt }) = answer else { return };
        let (tool_call_id, name) = (call.id.clone(), call.name.clone());
        self.messages.push(Message::Tool { tool_call_id, name, content });
        self.receipts.push(receipt);
    }

    /// The answer to a call that is not made.
    fn refuse(&self, index: usize, call: &ToolCall) -> Option<ToolReturn> {
        if self.interrupted.contains(&index) {
            return Some(self.broken_off(index, call));
        }
        refusal::refuse(&self.catalog, index, call)
            .or_else(|| self.repeats.is_pointless(call).then(|| refusal::remind(call)))
    }

    /// The answer to a call that was begun and is not made again: what it did is not known.
    fn broken_off(&self, index: usize, call: &ToolCall) -> ToolReturn {
        let mut answer = refusal::interrupted(call);
        answer.receipt.nested = self.nested.get(&index).copied().unwrap_or_default();
        answer
    }

    /// Answers calls that will not be made any more, so that the transcript stays whole. One that was begun,
    /// has called other tools or began a run may have had an effect: nobody is told of it that nothing ran.
    fn leave_unanswered(&mut self, calls: Calls, why: &str) {
        for (index, (call, answer)) in calls.into_iter().enumerate() {
            let was_begun = self.started.contains(&index)
                || self.interrupted.contains(&index)
                || self.nested.contains_key(&index);
            let answer = answer.or_else(|| self.unanswered_child(index, &call));
            let answer = answer.unwrap_or_else(|| match was_begun {
                true => self.broken_off(index, &call),
                false => refusal::not_run(&call, why),
            });
            self.answer(&call, Some(answer));
        }
    }

    fn finish(&mut self, stop_reason: StopReason) -> Step {
        self.waiting = Waiting::Over;
        // The caller has the history, and the instructions are not the caller's to read.
        let messages = self.messages.split_off(self.before);
        let output = self.last_words(&messages).unwrap_or_default().to_owned();
        let output_value = self.output_value(&output, stop_reason);
        Step::Done(Box::new(AgentResult {
            id: self.task.id.clone(),
            output_error: self.output_error(stop_reason, output_value.is_some()),
            output_value,
            output,
            stop_reason,
            messages,
            usage: self.usage,
            iterations: self.iterations,
            model: self.model.clone(),
            tool_calls: std::mem::take(&mut self.receipts),
        }))
    }

    fn unexpected(&self, expected: &'static str) -> UnexpectedEvent {
        UnexpectedEvent { run_id: self.task.id.clone(), expected }
    }
}
