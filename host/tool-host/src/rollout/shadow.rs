//! The calls that a shadow is to make: those that the version that serves has answered. Few wait, and what
//! there is no room for is not made. `shadow_calls.rs` makes them.

use std::sync::Arc;

use agent_core::ports::ToolRequest;
use agent_core::words::{Grants, Principal, ToolCall, ToolReturn};
use tokio::sync::{Mutex, mpsc};
use tool_policy::Policy;

use super::canary::RunningTrial;

/// Calls that wait to be made.
const MOST_WAITING: usize = 32;

/// The calls that are to be made.
pub(crate) struct Shadows {
    sender: mpsc::Sender<ShadowCall>,
    receiver: Mutex<mpsc::Receiver<ShadowCall>>,
}

/// A call that was answered, to be made again by the version that is tried.
pub(crate) struct ShadowCall {
    pub(crate) trial: Arc<RunningTrial>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) request_id: String,
    pub(crate) run_id: String,
    pub(crate) call_id: String,
    pub(crate) attempt: u32,
    pub(crate) principal: Principal,
    pub(crate) grants: Grants,
    pub(crate) call: ToolCall,
    /// What the version that serves answered.
    pub(crate) answer: ToolReturn,
}

impl ShadowCall {
    /// A call of a tool that was answered like this.
    pub(crate) fn of(
        trial: Arc<RunningTrial>,
        policy: &Arc<Policy>,
        request: &ToolRequest<'_>,
        answer: &ToolReturn,
    ) -> Self {
        Self {
            trial,
            policy: policy.clone(),
            request_id: request.request_id.to_owned(),
            run_id: request.run_id.to_owned(),
            call_id: request.call_id.to_owned(),
            attempt: request.attempt,
            principal: request.principal.clone(),
            grants: request.grants.clone(),
            call: request.call.clone(),
            answer: answer.clone(),
        }
    }
}

impl Shadows {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        Self { sender, receiver: Mutex::new(receiver) }
    }

    /// Makes the call later, if there is room.
    pub(crate) fn offer(&self, call: ShadowCall) {
        // silent-ok: what there is no room for is not compared.
        let _ = self.sender.try_send(call);
    }

    /// The calls, one after another as they come. There is one reader.
    pub(crate) async fn next(&self) -> Option<ShadowCall> {
        self.receiver.lock().await.recv().await
    }
}
