//! Calls of tools that belong to no run: a client's own program decides about them, as one that speaks MCP
//! does.
//!
//! They go the way of a run's calls: the tools are those that the caller may use, a tool's own limits,
//! permits and grants hold, what it may call itself is bounded (`nested.rs`), and each call has its span and
//! its log line. What a run adds is not there: no journal, so nothing is resumed, and no budget of tokens.
//! Dropping a call interrupts the tool. Only a call that has to wait for somebody, or may have to in its
//! middle, becomes a run, of that one call (`waiting.rs`).

mod changes;
mod nested;
mod permits;
#[cfg(test)]
mod tests;
mod waiting;

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::agent_loop::refusal;
use agent_core::ports::{NestedTools, ProgressSink, ToolRequest, ToolSet, Toolbox};
use agent_core::trace::InTrace as _;
use agent_core::words::{
    Catalog, Grants, Principal, ToolCall, ToolOutcome, ToolProgress, ToolReceipt, ToolReturn,
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::latest_progress::LatestProgress;
use crate::layers::{InvokeError, PreparedTools};
use crate::loop_driver::gen_ai;
use nested::NestedCalls;
use permits::CallPermits;

pub use changes::ToolChanges;
pub use permits::MOST_AT_ONCE;
pub use waiting::{CallRun, CallState, Called, WaitingCalls};

/// The tools, for callers without a run. Clones share their permits.
#[derive(Clone)]
pub struct DirectCalls {
    toolbox: Arc<dyn Toolbox>,
    prepared: PreparedTools,
    time_limit: Duration,
    permits: CallPermits,
    stopping: CancellationToken,
    /// Absent where nothing can wait: a call that has to is refused by name.
    waiting: Option<WaitingCalls>,
}

/// A call that somebody wants to be made.
#[derive(Debug, Clone, Copy)]
pub struct DirectCall<'a> {
    /// The request or session on whose behalf it is made.
    pub request_id: &'a str,
    /// Who makes it.
    pub caller: &'a Principal,
    /// The tool's name, as the caller wrote it.
    pub name: &'a str,
    /// Arguments of the call.
    pub arguments: &'a Map<String, Value>,
    /// Where the tool's progress goes: at most a report in
    /// [`latest_progress::PAUSE`](crate::latest_progress::PAUSE).
    /// Absent where nobody reads it.
    pub progress: Option<&'a dyn ProgressSink>,
}

impl DirectCalls {
    /// Calls end after `time_limit` at the latest; a tool's own limit may be shorter. Callers wait for the
    /// tools to be prepared, however long that takes.
    pub fn new(toolbox: Arc<dyn Toolbox>, time_limit: Duration) -> Self {
        let prepared = PreparedTools::new(toolbox.clone(), Duration::MAX);
        Self {
            toolbox,
            prepared,
            time_limit,
            permits: CallPermits::default(),
            stopping: CancellationToken::new(),
            waiting: None,
        }
    }

    /// Makes callers wait for the tools to be prepared as `prepared` has it.
    #[must_use]
    pub fn waiting_for(self, prepared: PreparedTools) -> Self {
        Self { prepared, ..self }
    }

    /// Stops telling anybody of changes when `stopping` is cancelled. Calls under way go on.
    #[must_use]
    pub fn until(self, stopping: CancellationToken) -> Self {
        Self { stopping, ..self }
    }

    /// Has calls wait there that somebody has to decide about first.
    #[must_use]
    pub fn kept_in(self, waiting: WaitingCalls) -> Self {
        Self { waiting: Some(waiting), ..self }
    }

    /// Where calls wait, if they can.
    pub fn waiting(&self) -> Option<&WaitingCalls> {
        self.waiting.as_ref()
    }

    /// Waits until the tools are prepared. Before that, a list has a part of them and a call finds none.
    pub async fn prepared(&self) -> Result<(), InvokeError> {
        self.prepared.wait().await
    }

    /// The tools that the caller may use now, sorted by name.
    pub fn catalog(&self, caller: &Principal) -> Arc<Catalog> {
        self.toolbox.current_for(caller).catalog().clone()
    }

    /// The changes of the caller's tools from now on, or since they were those of this digest.
    pub fn changes(&self, caller: &Principal, since: Option<&str>) -> ToolChanges {
        let digest = match since {
            Some(digest) => digest.to_owned(),
            None => self.catalog(caller).digest().to_owned(),
        };
        ToolChanges::since(digest, caller.clone(), (self.toolbox.clone(), self.stopping.clone()))
    }

    /// Makes a call, or has it wait. Whatever goes wrong is an answer. A tool that is tried serves a share of
    /// the calls, as it does of runs.
    pub async fn call(&self, wanted: DirectCall<'_>) -> Called {
        let id = format!("call_{}", clock::new_id());
        let tools = self.toolbox.for_run(wanted.caller, &id);
        let call = ToolCall::of_object(id, wanted.name.to_owned(), wanted.arguments.clone());
        match self.waiting_for_call(&*tools, &wanted, &call) {
            Some(waiting) => self.keep(waiting, &wanted, &call).await,
            None => Called::Answered(self.make(&*tools, &wanted, &call).await),
        }
    }

    /// Where this call waits, if it may have to and can.
    fn waiting_for_call(
        &self,
        tools: &dyn ToolSet,
        wanted: &DirectCall<'_>,
        call: &ToolCall,
    ) -> Option<&WaitingCalls> {
        let waiting = self.waiting.as_ref().filter(|_| wanted.caller.user_id.is_some())?;
        let catalog = tools.catalog();
        let tool = catalog.get(&call.name).filter(|_| refusal::unfit(catalog, call).is_none())?;
        // What may come to something that waits in its middle is a run from its beginning.
        let may_wait = tools.may_wait_within(tool.may_ask, tool.calls_tools);
        (may_wait || tools.approval(call, wanted.caller).is_some()).then_some(waiting)
    }

    async fn keep(&self, waiting: &WaitingCalls, wanted: &DirectCall<'_>, call: &ToolCall) -> Called {
        let Some(_permit) = self.permits.acquire(wanted.caller) else {
            return Called::Answered(too_many(call));
        };
        let called = waiting.begin(wanted, call).await;
        let user_id = wanted.caller.user_id.as_deref();
        match &called {
            Called::Waits { job_id } => {
                tracing::info!(user_id, call_id = call.id, tool = call.name, job_id, "a direct call waits");
            }
            Called::Answered(answer) => CallLine { wanted, call, is_written: false }.write(&answer.receipt),
        }
        called
    }

    async fn make(&self, tools: &dyn ToolSet, wanted: &DirectCall<'_>, call: &ToolCall) -> ToolReturn {
        let span = gen_ai::execute_tool(call);
        let line = CallLine { wanted, call, is_written: false };
        let (latest, sink) = LatestProgress::shared();
        let tell = |progress: ToolProgress| {
            gen_ai::tool_progressed(&span, &progress);
            if let Some(reader) = wanted.progress {
                reader.report(progress);
            }
        };
        let answer = self.answer(tools, wanted, (call, &sink)).in_trace(span.inner());
        let mut answer = latest.follow(answer, tell).await;
        answer.receipt.detail_mut().arguments = Some(call.arguments_digest());
        answer.receipt.bound();
        gen_ai::tool_ended(&span, &answer);
        line.write(&answer.receipt);
        answer
    }

    async fn answer(
        &self,
        tools: &dyn ToolSet,
        wanted: &DirectCall<'_>,
        (call, progress): (&ToolCall, &Arc<dyn ProgressSink>),
    ) -> ToolReturn {
        if let Some(refusal) = refusal::unfit(tools.catalog(), call) {
            return refusal;
        }
        let Some(_permit) = self.permits.acquire(wanted.caller) else {
            return too_many(call);
        };
        let request = ToolRequest {
            request_id: wanted.request_id,
            run_id: "",
            call_id: &call.id,
            attempt: 1,
            principal: wanted.caller,
            grants: Grants::none(),
            call,
            approved: None,
            deadline: Instant::now() + self.time_limit,
            nested: None,
            progress: Some(progress),
        };
        if !tools.catalog().get(&call.name).is_some_and(|tool| tool.calls_tools || tool.may_ask) {
            return tools.call(request).await;
        }
        let nested = NestedCalls::new(tools, request);
        let mut answer =
            tools.call(ToolRequest { nested: Some(&nested as &dyn NestedTools), ..request }).await;
        nested.sign(&mut answer.receipt);
        answer
    }
}

fn too_many(call: &ToolCall) -> ToolReturn {
    let why = format!("you have {MOST_AT_ONCE} calls under way already: wait until one has ended");
    refusal::not_run(call, &why)
}

/// The log line of a call, also of one that is dropped. Runs have theirs in the journal; here it is all that
/// is left. Neither arguments nor answers are in it; the request is the span's to name.
struct CallLine<'a> {
    wanted: &'a DirectCall<'a>,
    call: &'a ToolCall,
    is_written: bool,
}

impl CallLine<'_> {
    fn write(mut self, receipt: &ToolReceipt) {
        self.is_written = true;
        // What a stranger wrote is not logged unless a tool has that name.
        let tool = receipt.component.as_ref().map(|_| self.call.name.as_str());
        tracing::info!(
            user_id = self.wanted.caller.user_id,
            call_id = self.call.id,
            tool,
            component = receipt.component,
            outcome = receipt.outcome.as_str(),
            duration_ms = receipt.duration_ms,
            nested = receipt.nested,
            "a tool was called outside of runs"
        );
    }
}

impl Drop for CallLine<'_> {
    fn drop(&mut self) {
        if self.is_written {
            return;
        }
        tracing::info!(
            user_id = self.wanted.caller.user_id,
            call_id = self.call.id,
            outcome = ToolOutcome::Cancelled.as_str(),
            "a tool was called outside of runs"
        );
    }
}
