//! One call: arguments checked, permits, a fresh store, a deadline, and an answer whatever happens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::ToolRequest;
use agent_core::words::{ToolOutcome, ToolReceipt, ToolReturn};
use wasmtime::Store;

use crate::bindings::exports::agent::tool::tool::Output;
use crate::bulkhead::Permits;
use crate::component::{Component, detail};
use crate::definition::Definition;
use crate::fault::Fault;
use crate::lane::{self, Lost, Start};
use crate::observer::{CallReport, Cost};
use crate::progress::Progress;
use crate::runtime::Runtime;
use crate::schema::{Fuel, Misfit};
use crate::state::{CallState, Caller};

/// Outputs of more bytes are never checked where the call runs: reading them alone takes long.
const CHECKED_HERE_BYTES: usize = 16 << 10;

/// A tool whose calls take longer on the mean is begun on the guests' runtime.
const HEAVY: Duration = Duration::from_millis(1);

/// A tool and the component that has it.
pub(crate) struct Tool {
    pub(crate) component: Arc<Component>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) name: Arc<str>,
}

/// Calls a tool and makes the receipt.
pub(crate) async fn call(runtime: &Arc<Runtime>, tool: &Arc<Tool>, request: ToolRequest<'_>) -> ToolReturn {
    let start = Instant::now();
    let progress = Arc::new(Progress::new(start, runtime.metering));
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
        name: request.call.name.clone(),
        component: Some(tool.component.id.clone()),
        // Microseconds are as fine as the clock is worth.
        duration_ms: (start.elapsed().as_secs_f64() * 1e6).round() / 1e3,
        outcome,
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
    let allowed =
        tool.definition.timeout.map_or(runtime.limits.timeout, |own| own.min(runtime.limits.timeout));
    let deadline = (start + allowed).min(request.deadline);
    let allowed = deadline.saturating_duration_since(start);

    // Nearly all arguments are checked by a few steps here. What takes more waits for permits first.
    let is_checked = match tool.definition.check_arguments(&request.call.arguments, &mut Fuel::inline()) {
        Ok(()) => true,
        Err(Misfit::Wrong(problems)) => return Err(Fault::arguments(&problems)),
        Err(Misfit::TooCostly) => false,
    };
    let permits = tool.component.bulkhead.admit(&runtime.slots, deadline).await;
    let permits = permits.map_err(|whose| Fault::busy(whose, allowed))?;
    let caller = Caller {
        request_id: request.request_id.to_owned(),
        component: tool.component.name.clone(),
        tool: tool.name.clone(),
        deadline,
        progress: progress.clone(),
        log_rate: tool.component.bulkhead.log_rate.clone(),
    };
    let guest = Guest { runtime: runtime.clone(), tool: tool.clone(), caller, allowed, deadline, permits };
    let mut arguments = request.call.arguments.to_string();
    if !is_checked {
        arguments = guest.check_arguments(arguments).await?;
    }
    let start = if tool.definition.run_time.get() > HEAVY { Start::OnLane } else { Start::Here };
    match lane::run(&runtime.lane, start, deadline, progress.clone(), guest.run(arguments)).await {
        Ok(result) => result,
        Err(Lost::Deadline) => Err(Fault::timed_out(allowed)),
        Err(Lost::Host(error)) => Err(Fault::host(error.to_string())),
    }
}

/// The part of a call that may move to another thread, with all it needs.
struct Guest {
    runtime: Arc<Runtime>,
    tool: Arc<Tool>,
    caller: Caller,
    allowed: Duration,
    deadline: Instant,
    /// Given back when the store is gone and no check is under way.
    permits: Arc<Permits>,
}

impl Guest {
    async fn run(self, arguments: String) -> Result<String, Fault> {
        let Self { runtime, tool, caller, allowed, deadline, permits } = self;
        let progress = caller.progress.clone();
        progress.begin();
        let output = {
            let mut store = runtime.fresh_store(caller).map_err(|error| Fault::host(detail(&error)))?;
            let ran = run_guest(&mut store, &tool, &arguments, &progress).await;
            progress.ended();
            if runtime.metering
                && let Ok(left) = store.get_fuel()
            {
                progress.set_fuel(u64::MAX - left);
            }
            match ran {
                Ok(Ok(output)) => output,
                Ok(Err(fault)) => return Err(fault),
                Err(error) => return Err(Fault::interrupted(&runtime.limits, &store, &error, allowed)),
            }
        };
        let Output { value, .. } = output;
        if value.len() > runtime.limits.output_bytes {
            return Err(Fault::too_much(&runtime.limits));
        }
        if value.len() <= CHECKED_HERE_BYTES {
            match tool.definition.check_output(&value, &mut Fuel::inline()) {
                Ok(()) => return Ok(value),
                Err(Misfit::Wrong(problem)) => return Err(Fault::output(problem)),
                Err(Misfit::TooCostly) => {}
            }
        }
        let component = tool.component.clone();
        let check = move || {
            let checked = tool.definition.check_output(&value, &mut Fuel::until(deadline));
            // The slot is free again when nothing more is done for the call.
            drop(permits);
            (value, checked)
        };
        let checked = runtime.host_work.run(&component.bulkhead.checks, deadline, check).await;
        match checked.map_err(|unfinished| Fault::unfinished(&unfinished, allowed))? {
            (value, Ok(())) => Ok(value),
            (_, Err(Misfit::Wrong(problem))) => Err(Fault::output(problem)),
            (_, Err(Misfit::TooCostly)) => Err(Fault::output_too_costly()),
        }
    }

    /// Checks arguments that take more than a few steps, beside the threads that serve.
    async fn check_arguments(&self, arguments: String) -> Result<String, Fault> {
        let (tool, permits, deadline) = (self.tool.clone(), self.permits.clone(), self.deadline);
        let check = move || {
            let checked = tool.definition.check_arguments_text(&arguments, &mut Fuel::until(deadline));
            drop(permits);
            (arguments, checked)
        };
        let checks = &self.tool.component.bulkhead.checks;
        let checked = self.runtime.host_work.run(checks, deadline, check).await;
        match checked.map_err(|unfinished| Fault::unfinished(&unfinished, self.allowed))? {
            (arguments, Ok(())) => Ok(arguments),
            (_, Err(Misfit::Wrong(problems))) => Err(Fault::arguments(&problems)),
            (_, Err(Misfit::TooCostly)) => Err(Fault::arguments_too_costly()),
        }
    }
}

/// Instantiates and calls. The outer error is wasmtime's, the inner one the tool's own failure.
async fn run_guest(
    store: &mut Store<CallState>,
    tool: &Tool,
    arguments: &str,
    progress: &Progress,
) -> wasmtime::Result<Result<Output, Fault>> {
    let instance = tool.component.pre.instantiate_async(&mut *store).await?;
    progress.instantiated();
    let returned = instance.agent_tool_tool().call_call(store, &tool.name, arguments).await?;
    Ok(returned.map_err(|failure| Fault::refused(&failure)))
}
