//! The calls that a tool makes of the run's other tools: numbered, bounded, journaled, and never nested deeper than one.
//!
//! A call is numbered and counted first, whatever becomes of it. Before one that must not be made twice its beginning is
//! journaled; every answer is journaled before the calling tool gets it. Calls beyond the limits are refused without
//! another word: a tool that asks for ever costs no line of the journal.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use async_trait::async_trait;
use tracing::Span;

use super::call_context::CallContext;
use super::gen_ai;

use crate::ports::{DENIED, LIMIT_EXCEEDED, NestedTools};
use crate::run::{OpenCall, refusal};
use crate::words::{Event, ToolCall, ToolOutcome, ToolReceipt, ToolReturn, cut};

/// Most calls that one call may make of other tools: several times what a task in one script takes, and few enough that
/// the whole journal of a call can be read by a person.
const MOST_OF_A_CALL: u32 = 64;

/// Most of them in one run. A run's journal is read at once wherever it is resumed, so it has to stay small: these are
/// about as many lines as the model's own calls may add (32 in each of nine replies).
const MOST_OF_A_RUN: u32 = 256;

/// Most bytes of arguments as a tool wrote them. They are read and hashed on the service's own threads.
const ARGUMENTS_BYTES: usize = 256 << 10;

/// Most bytes of a name as a tool wrote it. Those of tools are shorter.
const NAME_BYTES: usize = 100;

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
        let mut of_run = self.calls.nested_made.lock().unwrap_or_else(PoisonError::into_inner);
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
            return refused(call, DENIED, "a tool that calls tools is not called by another one");
        };
        // The semaphore is never closed, so there always is a permit.
        let _turn = self.calls.nested_turns.acquire().await;
        if !tool.is_repeatable {
            let (index, name) = (self.outer.index, call.name.clone());
            self.calls.notes.journaled(Event::NestedStarted { index, number, name }).await;
        }
        let span = self.span.in_scope(|| gen_ai::execute_tool(call));
        self.calls.call(&call.id, call, None, span).await
    }
}

#[async_trait]
impl NestedTools for NestedCalls<'_> {
    fn names(&self) -> Vec<String> {
        self.calls.catalog.nestable().map(|tool| tool.name.clone()).collect()
    }

    async fn call(&self, name: &str, arguments: &str) -> ToolReturn {
        let mut name = name.to_owned();
        cut(&mut name, NAME_BYTES);
        let Some(number) = self.take_number() else {
            let call = ToolCall::from_text(String::new(), name, String::new());
            let why = format!(
                "there are too many calls of tools by tools: one call may make {MOST_OF_A_CALL}, those of a run \
                 {MOST_OF_A_RUN}"
            );
            return refused(&call, LIMIT_EXCEEDED, &why);
        };
        let id = format!("{}.{number}", self.outer.id);
        let answer = if arguments.len() > ARGUMENTS_BYTES {
            too_long(&name)
        } else {
            self.answer(number, &ToolCall::from_text(id, name, arguments.to_owned())).await
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

fn refused(call: &ToolCall, code: &str, why: &str) -> ToolReturn {
    let mut refusal = refusal::not_run(call, why);
    refusal.receipt.detail_mut().code = Some(code.to_owned());
    refusal
}

fn too_long(name: &str) -> ToolReturn {
    ToolReturn {
        content: format!("Error: the arguments are too long: at most {ARGUMENTS_BYTES} bytes are read."),
        receipt: ToolReceipt::new(name, ToolOutcome::InvalidArguments),
    }
}
