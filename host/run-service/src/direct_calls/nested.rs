//! The calls that a tool makes of the caller's other tools when it is called outside of runs: bounded as in a
//! run, not journaled, and never nested deeper than one.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use agent_core::agent_loop::refusal;
use agent_core::ports::{CallEnds, NestedTools, Question, ToolRequest, ToolSet};
use agent_core::trace::{self, InTrace as _, Parent};
use agent_core::words::{ToolCall, ToolReceipt, ToolReturn};
use boxed_async::boxed_async;
use tokio::sync::Semaphore;

use crate::loop_driver::nested_bounds::{self, MOST_OF_A_CALL};
use crate::loop_driver::{CALLS_AT_ONCE, gen_ai};

/// The caller's other tools, for one call.
pub(super) struct NestedCalls<'a> {
    tools: &'a dyn ToolSet,
    outer: ToolRequest<'a>,
    /// Of the spans of its calls, whoever polls them: the outer call's.
    parent: Option<Parent>,
    turns: Semaphore,
    made: AtomicU32,
    /// Whether one of them went to a component that can tell users apart.
    per_user: AtomicBool,
}

impl<'a> NestedCalls<'a> {
    /// Calls on behalf of `outer`.
    pub(super) fn new(tools: &'a dyn ToolSet, outer: ToolRequest<'a>) -> Self {
        Self {
            tools,
            outer,
            parent: trace::parent(),
            turns: Semaphore::new(CALLS_AT_ONCE),
            made: AtomicU32::new(0),
            per_user: AtomicBool::new(false),
        }
    }

    /// Puts what the calls came to into the outer call's receipt.
    pub(super) fn sign(&self, receipt: &mut ToolReceipt) {
        receipt.nested = self.made.load(Relaxed);
        receipt.detail_mut().per_user |= self.per_user.load(Relaxed);
    }

    /// The number of another call, if there may be one.
    fn take_number(&self) -> Option<u32> {
        self.made.fetch_update(Relaxed, Relaxed, |made| (made < MOST_OF_A_CALL).then_some(made + 1)).ok()
    }

    async fn answer(&self, call: &ToolCall) -> ToolReturn {
        let catalog = self.tools.catalog();
        if let Some(refusal) = refusal::unfit(catalog, call) {
            return refusal;
        }
        if !catalog.nestable().any(|tool| tool.name == call.name) {
            return nested_bounds::calls_tools_itself(call);
        }
        // The semaphore is never closed, so there always is a permit.
        let _turn = self.turns.acquire().await;
        let span = trace::within(self.parent.as_ref(), || gen_ai::execute_tool(call));
        let request = ToolRequest { call_id: &call.id, call, approved: None, nested: None, ..self.outer };
        let answer = self.tools.call(request).in_trace(span.inner()).await;
        gen_ai::tool_ended(&span, &answer);
        answer
    }
}

#[boxed_async]
impl NestedTools for NestedCalls<'_> {
    fn names(&self) -> Vec<String> {
        self.tools.catalog().nestable().map(|tool| tool.name.clone()).collect()
    }

    async fn call(&self, name: &str, arguments: &str) -> Result<ToolReturn, CallEnds> {
        let name = nested_bounds::shortened(name);
        let Some(number) = self.take_number() else {
            let bounds = format!("one call may make {MOST_OF_A_CALL}");
            return Ok(nested_bounds::one_too_many(name, &bounds));
        };
        let id = format!("{}.{number}", self.outer.call_id);
        let answer = match nested_bounds::read(id, name, arguments) {
            Ok(call) => self.answer(&call).await,
            Err(too_long) => too_long,
        };
        self.per_user.fetch_or(answer.receipt.is_per_user(), Relaxed);
        Ok(answer)
    }

    /// A direct call belongs to no run that could wait.
    async fn ask(&self, question: Question<'_>) -> Result<ToolReturn, CallEnds> {
        let call = nested_bounds::question(self.outer.call.name.clone(), question);
        Ok(nested_bounds::nobody_to_ask(&call))
    }
}
