//! Makes the calls of shadows: beside those of the version that serves, after these were answered. Nobody
//! waits for them, and there are few at once, so that they take nothing from what serves.

use std::sync::Arc;
use std::time::Instant;

use agent_core::ports::ToolRequest;
use agent_core::words::ToolReturn;
use futures::StreamExt as _;
use tool_versions::verdicts::answer::{ComparedAnswer, agree};

use super::tool::Tool;
use crate::rollout::{ShadowCall, Side, TrialPart};
use crate::runtime::Runtime;

/// Calls that are made at once.
const AT_ONCE: usize = 2;

/// Makes the calls as they come. Never returns.
pub(crate) async fn run(runtime: &Arc<Runtime>) {
    let calls = futures::stream::unfold((), |()| async { Some((runtime.shadows.next().await?, ())) });
    calls.for_each_concurrent(AT_ONCE, |shadow| make(shadow, runtime.clone())).await;
    std::future::pending().await
}

async fn make(shadow: ShadowCall, runtime: Arc<Runtime>) {
    let (component, user) = (&shadow.trial.component, shadow.principal.user_id.as_deref());
    // The policy may have it for fewer callers than the version that serves. A call that is denied says
    // nothing of it.
    if !runtime.grants.admits(&shadow.policy, component.identity(), &shadow.principal) {
        return;
    }
    let Some(definition) = component.tools.iter().find(|tool| tool.spec.name == shadow.call.name) else {
        shadow.trial.compared(user, false);
        return;
    };
    let tried = TrialPart { running: shadow.trial.clone(), side: Side::New, is_shadow: true };
    let tool = Tool {
        tried: Some(tried),
        ..Tool::new(component.clone(), definition.clone(), shadow.policy.clone())
    };
    // What somebody has to approve is done once, and not once more beside it.
    if tool.approval(&runtime, &shadow.call).is_some() {
        return;
    }
    let request = ToolRequest {
        request_id: &shadow.request_id,
        run_id: &shadow.run_id,
        call_id: &shadow.call_id,
        attempt: shadow.attempt,
        principal: &shadow.principal,
        grants: &shadow.grants,
        call: &shadow.call,
        approved: None,
        deadline: Instant::now() + runtime.sandbox.limits().timeout,
        nested: None,
        // Nobody reads of it.
        progress: None,
    };
    let answer = Box::pin(super::call(&runtime, &Arc::new(tool), request)).await;
    let Some(agreed) = agree(as_answer(&shadow.answer), as_answer(&answer)) else { return };
    if !agreed {
        tracing::info!(
            component = component.id,
            tool = shadow.call.name,
            request_id = shadow.request_id,
            "a version that is tried answers otherwise"
        );
    }
    shadow.trial.compared(user, agreed);
}

fn as_answer(answer: &ToolReturn) -> ComparedAnswer<'_> {
    ComparedAnswer { outcome: answer.receipt.outcome, content: &answer.content }
}
