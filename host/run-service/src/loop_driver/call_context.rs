//! What the calls of one reply have in common: how each is made, on whose behalf, and where it leaves what is
//! to be journaled.

use parking_lot::Mutex;
use std::sync::Arc;

use agent_core::agent_loop::{Approved, OpenCall};
use agent_core::ports::{NestedTools, ToolRequest};
use agent_core::trace::{InTrace as _, Span};
use agent_core::words::{
    CallProgress, Catalog, Event, Grants, Principal, ToolCall, ToolProgress, ToolReturn, Usage,
};
use futures::future::pending;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{Driver, Journaled, gen_ai};
use crate::latest_progress::LatestProgress;

/// Most tool calls of one run that are made at once, so that it takes a bounded share of the sandboxes that
/// all runs have together. Calls that tools make have as many permits of their own: a tool never waits for
/// one that it holds itself.
pub(crate) const CALLS_AT_ONCE: usize = 16;

/// What the calls of one reply have in common.
pub(super) struct CallContext<'a> {
    pub(super) driver: &'a Driver<'a>,
    pub(super) on_behalf: OnBehalf,
    pub(super) turns: Semaphore,
    pub(super) catalog: Arc<Catalog>,
    pub(super) notes: Notes,
    /// Permits of the calls that tools make.
    pub(super) nested_turns: Semaphore,
    /// How many of those the run has made. Held for a few instructions, never across an await.
    pub(super) nested_made: Mutex<u32>,
    /// How many bytes of answers are recorded in the run. Held likewise.
    pub(super) recorded_bytes: Mutex<usize>,
    /// What the run has cost, and how many model calls it has made.
    pub(super) usage: Usage,
    pub(super) iterations: u32,
    /// How many events the journal had when the calls were begun.
    number: u64,
}

/// A call that is to be made.
pub(super) struct MadeCall<'a> {
    /// Names it within all runs.
    pub(super) id: &'a str,
    pub(super) call: &'a ToolCall,
    /// What somebody approved, if anybody did.
    pub(super) approved: Option<&'a Approved>,
    /// The call of the reply that it is, or that makes it.
    pub(super) open: &'a OpenCall,
    pub(super) span: Span,
}

/// What tools are told about the run. A copy, because the run itself takes note of answers while other calls
/// are under way.
pub(super) struct OnBehalf {
    pub(super) run_id: String,
    pub(super) principal: Principal,
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
    pub(super) fn new(driver: &'a Driver<'a>, journaled: &Journaled, notes: Notes) -> Self {
        let run = &journaled.run;
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
            recorded_bytes: Mutex::new(run.recorded_bytes()),
            usage: run.usage(),
            iterations: run.iterations(),
            number: journaled.next,
        }
    }

    /// Makes a call in its span, and tells whoever watches the run of its progress.
    pub(super) async fn call(&self, made: MadeCall<'_>, nested: Option<&dyn NestedTools>) -> ToolReturn {
        let MadeCall { id: call_id, call, approved, open, span } = made;
        let (latest, sink) = LatestProgress::shared();
        let mut reports = self.driver.control.live.as_ref().map(|live| live.reports(call_id));
        let tell = |progress: ToolProgress| {
            gen_ai::tool_progressed(&span, &progress);
            if let Some(reports) = &mut reports {
                let (index, id, name) = (open.index, open.call.id.clone(), call.name.clone());
                reports.tell(CallProgress { number: self.number, index, id, name, progress });
            }
        };
        let request = ToolRequest {
            request_id: self.driver.request_id,
            run_id: &self.on_behalf.run_id,
            call_id,
            attempt: self.on_behalf.attempt,
            principal: &self.on_behalf.principal,
            grants: &self.on_behalf.grants,
            call,
            approved,
            deadline: self.driver.control.ends_at(),
            nested,
            progress: Some(&sink),
        };
        let answer = self.driver.tools.call(request).in_trace(span.inner());
        let mut answer = latest.follow(answer, tell).await;
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

    /// Resolves when the event is in the journal, and never when it cannot be. Dropped, it may be journaled
    /// all the same.
    pub(super) async fn journaled(&self, event: Event) {
        let (is_journaled, journaled) = oneshot::channel();
        self.leave(Note::Awaited { event, is_journaled });
        if journaled.await.is_err() {
            pending().await
        }
    }
}
