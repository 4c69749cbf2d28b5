//! What the calls of one reply have in common: how each is made, on whose behalf, and where it leaves what is to be
//! journaled.

use std::sync::{Arc, Mutex};

use futures::future::pending;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tracing::{Instrument, Span};

use super::{Driver, gen_ai};
use crate::agent_loop::Run;
use crate::ports::{NestedTools, ToolRequest};
use crate::words::{Catalog, Event, Grants, Principal, ToolCall, ToolReturn};

/// Most tool calls of one run that are made at once, so that it takes a bounded share of the sandboxes that all runs have
/// together. Calls that tools make have as many permits of their own: a tool never waits for one that it holds itself.
pub(crate) const CALLS_AT_ONCE: usize = 16;

/// What the calls of one reply have in common.
pub(super) struct CallContext<'a> {
    pub(super) driver: &'a Driver<'a>,
    on_behalf: OnBehalf,
    pub(super) turns: Semaphore,
    pub(super) catalog: Arc<Catalog>,
    pub(super) notes: Notes,
    /// Permits of the calls that tools make.
    pub(super) nested_turns: Semaphore,
    /// How many of those the run has made. Held for a few instructions, never across an await.
    pub(super) nested_made: Mutex<u32>,
}

/// What tools are told about the run. A copy, because the run itself takes note of answers while other calls are under
/// way.
struct OnBehalf {
    run_id: String,
    principal: Principal,
    grants: Grants,
    attempt: u32,
}

/// Something to be journaled.
#[expect(clippy::large_enum_variant, reason = "one for each call of a tool, and moved once")]
pub(super) enum Note {
    Answered { index: usize, answer: ToolReturn },
    Awaited { event: Event, is_journaled: oneshot::Sender<()> },
}

/// Where calls leave what is to be journaled.
pub(super) struct Notes(pub(super) mpsc::UnboundedSender<Note>);

impl<'a> CallContext<'a> {
    pub(super) fn new(driver: &'a Driver<'a>, run: &Run, notes: Notes) -> Self {
        let on_behalf = OnBehalf {
            run_id: run.id().to_owned(),
            principal: run.principal().clone(),
            grants: run.grants().clone(),
            attempt: run.attempt(),
        };
        Self {
            driver,
            on_behalf,
            turns: Semaphore::new(CALLS_AT_ONCE),
            catalog: run.catalog().clone(),
            notes,
            nested_turns: Semaphore::new(CALLS_AT_ONCE),
            nested_made: Mutex::new(run.nested_calls()),
        }
    }

    /// Makes a call in its span.
    pub(super) async fn call(
        &self,
        call_id: &str,
        call: &ToolCall,
        nested: Option<&dyn NestedTools>,
        span: Span,
    ) -> ToolReturn {
        let request = ToolRequest {
            request_id: self.driver.request_id,
            run_id: &self.on_behalf.run_id,
            call_id,
            attempt: self.on_behalf.attempt,
            principal: &self.on_behalf.principal,
            grants: &self.on_behalf.grants,
            call,
            deadline: self.driver.deadline,
            nested,
        };
        let mut answer = self.driver.tools.call(request).instrument(span.clone()).await;
        answer.receipt.detail_mut().arguments = Some(call.arguments_digest());
        answer.receipt.bound();
        gen_ai::tool_ended(&span, &answer);
        answer
    }
}

impl Notes {
    pub(super) fn leave(&self, note: Note) {
        // Nobody listens only once the journal has failed, which ends whoever makes calls as well.
        let _ = self.0.send(note);
    }

    /// Resolves when the event is in the journal, and never when it cannot be. Dropped, it may be journaled all the same.
    pub(super) async fn journaled(&self, event: Event) {
        let (is_journaled, journaled) = oneshot::channel();
        self.leave(Note::Awaited { event, is_journaled });
        if journaled.await.is_err() {
            pending().await
        }
    }
}
