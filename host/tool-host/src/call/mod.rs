//! One call: arguments checked, permits, a fresh store, a deadline, and an answer whatever happens.
//!
//! In the order of a call: `validation.rs` checks the arguments, [`crate::bulkhead`] admits it,
//! [`crate::guest_runtime`] says on which thread it goes on, `guest.rs` runs the guest in a store whose state is
//! `state.rs`, `validation.rs` checks the output. `fault.rs` has the words for whatever goes wrong, `progress.rs` what
//! the call has used up until now.

mod admitted;
mod fault;
mod guest;
mod progress;
mod state;
mod tool;
mod validation;

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::ToolRequest;
use agent_core::trace;
use agent_core::words::{ToolOutcome, ToolReceipt, ToolReturn};

use crate::guest_runtime::Start;
use crate::observer::{CallReport, Cost};
use crate::runtime::Runtime;
use admitted::Admitted;
use fault::Fault;

pub(crate) use progress::Progress;
pub(crate) use state::{CallState, Caller};
pub(crate) use tool::Tool;

/// A tool whose calls take longer on the mean is begun on the guests' runtime.
const HEAVY: Duration = Duration::from_millis(1);

/// Calls a tool and makes the receipt.
pub(crate) async fn call(runtime: &Arc<Runtime>, tool: &Arc<Tool>, request: ToolRequest<'_>) -> ToolReturn {
    let start = Instant::now();
    let progress = Arc::new(Progress::new(start, runtime.sandbox.counts_fuel()));
    let mut report = Report { runtime, tool, start, progress: &progress, outcome: ToolOutcome::Cancelled };
    let (content, outcome) = match attempt(runtime, tool, &request, start, &progress).await {
        Ok(value) => (value, ToolOutcome::Ok),
        Err(fault) => {
            fault.log(tool, request.request_id);
            (fault.model, fault.outcome)
        }
    };
    report.outcome = outcome;
    drop(report);
    let receipt = ToolReceipt {
        component: Some(tool.component.id.clone()),
        // Microseconds are as fine as the clock is worth.
        duration_ms: (start.elapsed().as_secs_f64() * 1e6).round() / 1e3,
        ..ToolReceipt::new(&request.call.name, outcome)
    };
    ToolReturn { content, receipt }
}

/// Tells the observer what the call came to when it is dropped, which it also is when the caller goes away.
struct Report<'a> {
    runtime: &'a Runtime,
    tool: &'a Tool,
    start: Instant,
    progress: &'a Progress,
    outcome: ToolOutcome,
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        let cost = self.progress.cost();
        if cost != Cost::default() {
            self.tool.definition.run_time.add(cost.instantiate + cost.run);
        }
        self.runtime.observer.call_ended(&CallReport {
            tool: &self.tool.name,
            component: &self.tool.component.name,
            outcome: self.outcome,
            duration: self.start.elapsed(),
            cost,
        });
    }
}

async fn attempt(
    runtime: &Arc<Runtime>,
    tool: &Arc<Tool>,
    request: &ToolRequest<'_>,
    start: Instant,
    progress: &Arc<Progress>,
) -> Result<String, Fault> {
    let granted = runtime.grants.of_call(&tool.policy, &tool.component.name, &tool.component.digest).await;
    let granted = granted.map_err(|problem| {
        tracing::warn!(component = &*tool.component.name, problem, "a call was not made");
        Fault::ungranted(&problem)
    })?;
    if granted.is_none() && tool.component.wants_http {
        return Err(Fault::ungranted("the policy has no lines for it any more"));
    }
    let host = runtime.sandbox.limits();
    let limits = granted.as_ref().map_or_else(|| host.clone(), |granted| granted.limits(host));
    let limit = limits.timeout;
    let allowed = tool.definition.timeout.map_or(limit, |own| own.min(limit));
    let deadline = (start + allowed).min(request.deadline);
    let allowed = deadline.saturating_duration_since(start);

    let is_checked = validation::check_quickly(&tool.definition, &request.call.arguments)?;
    let permits = tool.component.bulkhead.admit(&runtime.slots, deadline).await;
    let permits = permits.map_err(|whose| Fault::busy(whose, allowed))?;
    let caller = Caller {
        request_id: request.request_id.into(),
        run_id: request.run_id.into(),
        call_id: request.call_id.into(),
        attempt: request.attempt,
        trace: trace::current(),
        component: tool.component.name.clone(),
        tool: tool.name.clone(),
        deadline,
        progress: progress.clone(),
        log_rate: tool.component.bulkhead.log_rate.clone(),
        requests: granted.as_deref().and_then(|granted| runtime.grants.begin(granted, deadline)),
        granted: granted.clone(),
        limits: limits.clone(),
    };
    let admitted = Admitted {
        runtime: runtime.clone(),
        tool: tool.clone(),
        granted,
        limits,
        allowed,
        deadline,
        permits,
    };
    let mut arguments = request.call.arguments.to_string();
    if !is_checked {
        arguments = admitted.check_arguments(arguments).await?;
    }
    let start = if tool.definition.run_time.get() > HEAVY { Start::OnGuestRuntime } else { Start::Here };
    let run = admitted.run(caller, arguments);
    match runtime.guest_runtime.run(start, deadline, progress.clone(), run).await {
        Ok(result) => result,
        Err(unfinished) => Err(Fault::unfinished(&unfinished, allowed)),
    }
}
