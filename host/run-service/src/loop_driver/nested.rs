//! The calls that a tool makes of the run's other tools: numbered, bounded, journaled, and never nested
//! deeper than one.
//!
//! A call is numbered and counted first, whatever becomes of it. Before one that must not be made twice its
//! beginning is journaled; every answer is journaled before the calling tool gets it. Calls beyond the limits
//! are refused without another word: a tool that asks for ever costs no line of the journal.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use async_trait::async_trait;
use tracing::Span;

use super::call_context::{CallContext, MadeCall};
use super::gen_ai;
use super::nested_bounds::{self, MOST_OF_A_CALL};

use agent_core::agent_loop::{OpenCall, refusal};
use agent_core::ports::NestedTools;
use agent_core::words::{Event, ToolCall, ToolOutcome, ToolReceipt, ToolReturn, cut};

/// Most of them in one run. A run's journal is read at once wherever it is resumed, so it has to stay small:
/// these are about as many lines as the model's own calls may add (32 in each of nine replies).
const MOST_OF_A_RUN: u32 = 256;

/// Most bytes of an error that are journaled.
const ERROR_BYTES: usize = 400;

/// The run's other tools, for one call.
pub(super) struct NestedCalls<'a> {
    calls: &'a CallContext<'a>,
    outer: &'a OpenCall,
    /// The outer call's: the spans of its calls are within it, whoever polls them.
    span: Span,
    /// How many calls it made.
    made: AtomicU32,
    /// Whether one of them went to a component that can tell users apart.
    per_user: AtomicBool,
}

impl<'a> NestedCalls<'a> {
    pub(super) fn new(calls: &'a CallContext<'a>, outer: &'a OpenCall, span: Span) -> Self {
        Self { calls, outer, span, made: AtomicU32::new(0), per_user: AtomicBool::new(false) }
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
        if number >= MOST_OF_A_CALL || *of_run >= MOST_OF_A_RUN {
            return None;
        }
        *of_run += 1;
        // Nobody else writes it while the run's count is held.
        self.made.store(number + 1, Relaxed);
        Some(number)
    }

    async fn answer(&self, number: u32, call: &ToolCall) -> ToolReturn {
        if let Some(refusal) = refusal::unfit(&self.calls.catalog, call) {
            return refusal;
        }
        let Some(tool) = self.calls.catalog.nestable().find(|tool| tool.name == call.name) else {
            return nested_bounds::calls_tools_itself(call);
        };
        // The semaphore is never closed, so there always is a permit.
        let _turn = self.calls.nested_turns.acquire().await;
        if !tool.is_repeatable {
            let (index, name) = (self.outer.index, call.name.clone());
            self.calls.notes.journaled(Event::NestedStarted { index, number, name }).await;
        }
        let span = self.span.in_scope(|| gen_ai::execute_tool(call));
        self.calls.call(MadeCall { id: &call.id, call, open: self.outer, span }, None).await
    }
}

#[async_trait]
impl NestedTools for NestedCalls<'_> {
    fn names(&self) -> Vec<String> {
        self.calls.catalog.nestable().map(|tool| tool.name.clone()).collect()
    }

    async fn call(&self, name: &str, arguments: &str) -> ToolReturn {
        let name = nested_bounds::shortened(name);
        let Some(number) = self.take_number() else {
            let bounds = format!("one call may make {MOST_OF_A_CALL}, those of a run {MOST_OF_A_RUN}");
            return nested_bounds::one_too_many(name, &bounds);
        };
        let id = format!("{}.{number}", self.outer.id);
        let answer = match nested_bounds::read(id, name, arguments) {
            Ok(call) => self.answer(number, &call).await,
            Err(too_long) => too_long,
        };
        self.per_user.fetch_or(answer.receipt.is_per_user(), Relaxed);
        let failed = answer.receipt.outcome != ToolOutcome::Ok;
        let error = failed.then(|| {
            let mut error = answer.content.clone();
            cut(&mut error, ERROR_BYTES);
            error
        });
        let returned =
            Event::NestedReturned { index: self.outer.index, number, receipt: answer.receipt.clone(), error };
        self.calls.notes.journaled(returned).await;
        answer
    }
}
