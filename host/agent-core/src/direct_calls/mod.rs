//! Calls of tools that belong to no run: a client's own program decides about them, as one that speaks MCP does.
//!
//! They go the way of a run's calls: the tools are those that the caller may use, a tool's own limits, permits and grants
//! hold, what it may call itself is bounded (`nested.rs`), and each call has its span and its log line. What a run adds is
//! not there: no journal, so nothing is resumed, and no budget of tokens. Dropping a call interrupts the tool.

mod nested;
mod permits;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tracing::Instrument as _;
use uuid::Uuid;

use crate::driver::gen_ai;
use crate::ports::{NestedTools, ToolRequest, ToolSet, Toolbox};
use crate::run::refusal;
use crate::words::{Catalog, Grants, Principal, ToolCall, ToolReturn};
use nested::NestedCalls;
use permits::CallPermits;

pub use permits::MOST_AT_ONCE;

/// How often it is looked whether a caller's tools have changed. A look is cheap, and whoever waits for a swap is a program
/// that asks for the list again.
const LOOK: Duration = Duration::from_secs(1);

/// The tools, for callers without a run. Clones share their permits.
#[derive(Clone)]
pub struct DirectCalls {
    toolbox: Arc<dyn Toolbox>,
    time_limit: Duration,
    permits: CallPermits,
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
    /// Its arguments.
    pub arguments: &'a Map<String, Value>,
}

impl DirectCalls {
    /// Calls end after `time_limit` at the latest; a tool's own limit may be shorter.
    pub fn new(toolbox: Arc<dyn Toolbox>, time_limit: Duration) -> Self {
        Self { toolbox, time_limit, permits: CallPermits::default() }
    }

    /// The tools that the caller may use now, sorted by name.
    pub fn catalog(&self, caller: &Principal) -> Arc<Catalog> {
        self.toolbox.current_for(caller).catalog().clone()
    }

    /// Resolves when the caller's tools are no longer those of this digest: with the digest of those that they are.
    pub async fn changed(&self, caller: &Principal, digest: &str) -> String {
        loop {
            let catalog = self.catalog(caller);
            if catalog.digest() != digest {
                return catalog.digest().to_owned();
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Makes a call. Whatever goes wrong is an answer. A tool that is tried serves a share of the calls, as it does of runs.
    pub async fn call(&self, wanted: DirectCall<'_>) -> ToolReturn {
        let id = format!("call_{}", Uuid::now_v7().simple());
        let tools = self.toolbox.for_run(wanted.caller, &id);
        let call = ToolCall::of_object(id, wanted.name.to_owned(), wanted.arguments.clone());
        let span = gen_ai::execute_tool(&call);
        let mut answer = self.answer(&*tools, &wanted, &call).instrument(span.clone()).await;
        answer.receipt.detail_mut().arguments = Some(call.arguments_digest());
        answer.receipt.bound();
        gen_ai::tool_ended(&span, &answer);
        log(&wanted, &call, &answer);
        answer
    }

    async fn answer(&self, tools: &dyn ToolSet, wanted: &DirectCall<'_>, call: &ToolCall) -> ToolReturn {
        if let Some(refusal) = refusal::unfit(tools.catalog(), call) {
            return refusal;
        }
        let Some(_permit) = self.permits.acquire(wanted.caller) else {
            let why = format!("you have {MOST_AT_ONCE} calls under way already: wait until one has ended");
            return refusal::not_run(call, &why);
        };
        let request = ToolRequest {
            request_id: wanted.request_id,
            run_id: "",
            call_id: &call.id,
            attempt: 1,
            principal: wanted.caller,
            grants: Grants::none(),
            call,
            deadline: Instant::now() + self.time_limit,
            nested: None,
        };
        if !tools.catalog().get(&call.name).is_some_and(|tool| tool.calls_tools) {
            return tools.call(request).await;
        }
        let nested = NestedCalls::new(tools, request);
        let mut answer =
            tools.call(ToolRequest { nested: Some(&nested as &dyn NestedTools), ..request }).await;
        nested.sign(&mut answer.receipt);
        answer
    }
}

/// The line of a call. Runs have theirs in the journal; here it is all that is left. Neither arguments nor answers are in
/// it.
fn log(wanted: &DirectCall<'_>, call: &ToolCall, answer: &ToolReturn) {
    let receipt = &answer.receipt;
    // What a stranger wrote is not logged unless a tool has that name.
    let tool = receipt.component.as_ref().map(|_| call.name.as_str());
    tracing::info!(
        request_id = wanted.request_id,
        user_id = wanted.caller.user_id,
        call_id = call.id,
        tool,
        component = receipt.component,
        outcome = receipt.outcome.as_str(),
        duration_ms = receipt.duration_ms,
        nested = receipt.nested,
        "a tool was called outside of runs"
    );
}

impl std::fmt::Debug for DirectCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectCalls").field("time_limit", &self.time_limit).finish_non_exhaustive()
    }
}
