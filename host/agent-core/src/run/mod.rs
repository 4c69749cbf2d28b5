//! An agent run as a value: events in, steps out. No async, no clock, no I/O.
//!
//! ```text
//! Run::start(task, catalog)  -> Step          Step = AskModel | CallTools | Done
//! run.on(Event)              -> Step
//! Run::resume(events)        -> Step          the same run, folded from its journal
//! ```
//!
//! The rules of a run live here and nowhere else: how many model calls it may make, what it may spend, and
//! what a model is told about a tool that does not exist. Carrying steps out is [`crate::drive`]'s business.

mod budget;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::message::{Message, Options, ToolCall, Usage};
use crate::ports::{Finish, ModelReply, ToolReturn};
use crate::result::{AgentResult, StopReason, ToolOutcome, ToolReceipt};

/// Most model calls of one run (interface, Limits, "Agent iterations").
pub const MAX_ITERATIONS: u32 = 10;

/// Default of `TOKEN_BUDGET_PER_REQUEST` (interface, Limits).
pub const DEFAULT_TOKEN_BUDGET: u64 = 10_000;

/// What a run may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Most model calls.
    pub iterations: u32,
    /// Most tokens of all model calls together.
    pub tokens: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { iterations: MAX_ITERATIONS, tokens: DEFAULT_TOKEN_BUDGET }
    }
}

/// What a run is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Id of the run, `run_…`.
    pub id: String,
    /// The caller's text; it becomes the one user message.
    pub input: String,
    /// The caller's wishes for every model call.
    pub options: Options,
    /// What the run may use up.
    pub limits: Limits,
    /// `provider/model` that is asked; stands in the result when no reply came to say better.
    pub model: String,
}

/// Something that happened to a run. A run is the fold of its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run began. Always and only the first event.
    Started {
        /// What it is to do.
        task: Task,
        /// Digest of the tool set it began with.
        tools: String,
    },
    /// The model replied to [`Step::AskModel`].
    ModelReplied {
        /// What it said.
        reply: ModelReply,
    },
    /// The tools of [`Step::CallTools`] returned, in the order they were asked for.
    ToolsReturned {
        /// One answer per call.
        returns: Vec<ToolReturn>,
    },
    /// Somebody cancelled the run.
    Cancelled,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask the model to go on from [`Run::messages`].
    AskModel {
        /// Most tokens the reply may have.
        max_tokens: u32,
        /// Sampling temperature.
        temperature: f64,
    },
    /// Call these tools, all at once.
    CallTools(Vec<ToolCall>),
    /// The run is over.
    Done(Box<AgentResult>),
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
    usage: Usage,
    /// Usage of the last reply and how many messages there were with it: what the next call will read.
    last: Option<(Usage, usize)>,
    input_estimate: u64,
    iterations: u32,
    model: String,
    receipts: Vec<ToolReceipt>,
    waiting: Waiting,
}

/// What a run waits for.
#[derive(Debug)]
enum Waiting {
    Model,
    /// The reply's calls in its order, each with its answer if the run could give it without a tool.
    Tools(Vec<(ToolCall, Option<ToolReturn>)>),
    Nothing,
}

impl Run {
    /// Begins a run with the tools of `catalog`.
    pub fn start(task: Task, catalog: Arc<Catalog>) -> (Self, Step) {
        let mut run = Self {
            messages: vec![Message::User { content: task.input.clone() }],
            model: task.model.clone(),
            task,
            catalog,
            usage: Usage::default(),
            last: None,
            input_estimate: 0,
            iterations: 0,
            receipts: Vec::new(),
            waiting: Waiting::Nothing,
        };
        let step = run.ask_model();
        (run, step)
    }

    /// Folds a journal: the run as it was after its last event, and the step it was to take then.
    pub fn resume(
        events: impl IntoIterator<Item = Event>,
        catalog: Arc<Catalog>,
    ) -> Result<(Self, Step), UnexpectedEvent> {
        let mut events = events.into_iter();
        let Some(Event::Started { task, .. }) = events.next() else {
            return Err(UnexpectedEvent { run_id: String::new(), expected: "has not started" });
        };
        let (mut run, mut step) = Self::start(task, catalog);
        for event in events {
            step = run.on(event)?;
        }
        Ok((run, step))
    }

    /// Takes note of what happened and says what to do next.
    pub fn on(&mut self, event: Event) -> Result<Step, UnexpectedEvent> {
        let waiting = std::mem::replace(&mut self.waiting, Waiting::Nothing);
        match (waiting, event) {
            (Waiting::Model, Event::ModelReplied { reply }) => Ok(self.on_reply(reply)),
            (Waiting::Tools(calls), Event::ToolsReturned { returns }) => self.on_returns(calls, returns),
            (Waiting::Model, Event::Cancelled) => Ok(self.finish(StopReason::Cancelled)),
            (Waiting::Tools(calls), Event::Cancelled) => {
                self.leave_unanswered(calls, "the run was cancelled");
                Ok(self.finish(StopReason::Cancelled))
            }
            (Waiting::Model, Event::Started { .. } | Event::ToolsReturned { .. }) => {
                Err(self.unexpected("waits for the model"))
            }
            (Waiting::Tools(_), Event::Started { .. } | Event::ModelReplied { .. }) => {
                Err(self.unexpected("waits for tools"))
            }
            (Waiting::Nothing, _) => Err(self.unexpected("has ended")),
        }
    }

    /// Id of the run.
    pub fn id(&self) -> &str {
        &self.task.id
    }

    /// The conversation so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The tools the run started with.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn ask_model(&mut self) -> Step {
        if self.iterations >= self.task.limits.iterations {
            return self.finish(StopReason::MaxIterations);
        }
        let input = match self.last {
            None => budget::estimate_first_input(self.catalog.prompt_bytes(), &self.messages),
            Some((usage, seen)) => {
                budget::estimate_next_input(usage, self.messages.get(seen..).unwrap_or_default())
            }
        };
        let wanted = self.task.options.max_tokens;
        let allowance = budget::reply_allowance(self.task.limits.tokens, self.usage.total(), input, wanted);
        let Some(max_tokens) = allowance else {
            return self.finish(StopReason::TokenBudget);
        };
        self.input_estimate = input;
        self.waiting = Waiting::Model;
        Step::AskModel { max_tokens, temperature: self.task.options.temperature.unwrap_or(0.0) }
    }

    fn on_reply(&mut self, reply: ModelReply) -> Step {
        self.iterations += 1;
        self.model = reply.model;
        let calls = reply.tool_calls.clone();
        let message = Message::Assistant { content: reply.content, tool_calls: reply.tool_calls };
        let usage = reply.usage.unwrap_or_else(|| budget::estimate_usage(self.input_estimate, &message));
        self.usage = self.usage.plus(usage);
        self.messages.push(message);
        self.last = Some((usage, self.messages.len()));

        if reply.finish == Finish::Length {
            // The last of the calls may be cut in half, so none of them is made.
            self.leave_unanswered(unanswered(calls), "the reply that asked for it was cut off");
            return self.finish(self.reason_for_cut_off());
        }
        if calls.is_empty() {
            return self.finish(StopReason::Completed);
        }
        if self.iterations >= self.task.limits.iterations {
            // No model call is left that could read what the tools say.
            self.leave_unanswered(unanswered(calls), "the run reached its limit of model calls");
            return self.finish(StopReason::MaxIterations);
        }
        self.call_tools(calls)
    }

    fn call_tools(&mut self, calls: Vec<ToolCall>) -> Step {
        let calls: Vec<_> = calls
            .into_iter()
            .map(|call| {
                let refusal = self.refuse(&call);
                (call, refusal)
            })
            .collect();
        let callable: Vec<_> =
            calls.iter().filter(|(_, refusal)| refusal.is_none()).map(|(call, _)| call.clone()).collect();
        if callable.is_empty() {
            self.take_answers(calls, Vec::new());
            return self.ask_model();
        }
        self.waiting = Waiting::Tools(calls);
        Step::CallTools(callable)
    }

    fn on_returns(
        &mut self,
        calls: Vec<(ToolCall, Option<ToolReturn>)>,
        returns: Vec<ToolReturn>,
    ) -> Result<Step, UnexpectedEvent> {
        let open = calls.iter().filter(|(_, answer)| answer.is_none()).count();
        if open != returns.len() {
            return Err(self.unexpected("waits for another number of tools"));
        }
        self.take_answers(calls, returns);
        Ok(self.ask_model())
    }

    /// Answers every call, in the order asked, with its own answer or the next of `returns`.
    fn take_answers(&mut self, calls: Vec<(ToolCall, Option<ToolReturn>)>, returns: Vec<ToolReturn>) {
        let mut returns = returns.into_iter();
        for (call, answer) in calls {
            let Some(answer) = answer.or_else(|| returns.next()) else { return };
            self.messages.push(Message::Tool {
                tool_call_id: call.id,
                name: call.name,
                content: answer.content,
            });
            self.receipts.push(answer.receipt);
        }
    }

    /// The answer to a call that no tool can take.
    fn refuse(&self, call: &ToolCall) -> Option<ToolReturn> {
        if self.catalog.get(&call.name).is_none() {
            let known: Vec<_> = self.catalog.tools().iter().map(|tool| tool.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let text = format!("Error: there is no tool of that name. The tools are: {known}.");
            return Some(without_running(call, text, ToolOutcome::UnknownTool));
        }
        if !call.arguments.is_object() {
            let text = "Error: the arguments are not a JSON object. Call the tool again with one.".to_owned();
            return Some(without_running(call, text, ToolOutcome::InvalidArguments));
        }
        None
    }

    /// Answers calls that will not be made any more, so that the transcript stays whole.
    fn leave_unanswered(&mut self, calls: Vec<(ToolCall, Option<ToolReturn>)>, why: &str) {
        let calls = calls
            .into_iter()
            .map(|(call, answer)| {
                let text = format!("Error: not run, because {why}.");
                let answer = answer.or_else(|| Some(without_running(&call, text, ToolOutcome::NotRun)));
                (call, answer)
            })
            .collect();
        self.take_answers(calls, Vec::new());
    }

    /// Whose limit a reply ran into: the caller's or the provider's, or what the budget had left.
    fn reason_for_cut_off(&self) -> StopReason {
        let left = self.task.limits.tokens.saturating_sub(self.usage.total());
        let wanted = self.task.options.max_tokens.map_or(u64::MAX, u64::from);
        let last_output = self.last.map_or(0, |(usage, _)| usage.output_tokens);
        if last_output < wanted && left < budget::LEAST_REPLY_TOKENS {
            StopReason::TokenBudget
        } else {
            StopReason::MaxTokens
        }
    }

    fn finish(&mut self, stop_reason: StopReason) -> Step {
        self.waiting = Waiting::Nothing;
        let output = self.messages.iter().rev().find_map(|message| match message {
            Message::Assistant { content, .. } => Some(content.clone()),
            Message::User { .. } | Message::Tool { .. } => None,
        });
        Step::Done(Box::new(AgentResult {
            id: self.task.id.clone(),
            output: output.unwrap_or_default(),
            stop_reason,
            messages: std::mem::take(&mut self.messages),
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

fn unanswered(calls: Vec<ToolCall>) -> Vec<(ToolCall, Option<ToolReturn>)> {
    calls.into_iter().map(|call| (call, None)).collect()
}

fn without_running(call: &ToolCall, content: String, outcome: ToolOutcome) -> ToolReturn {
    let receipt = ToolReceipt { name: call.name.clone(), component: None, duration_ms: 0.0, outcome };
    ToolReturn { content, receipt }
}
