//! One call: a fresh store, a deadline, and an answer whatever happens.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use agent_core::ports::{ToolRequest, ToolReturn};
use agent_core::result::{ToolOutcome, ToolReceipt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::{Store, Trap};

use crate::bindings::exports::agent::tool::tool::{Failure, Output};
use crate::component::{Component, detail};
use crate::definition::Definition;
use crate::lane::{self, Lost};
use crate::observer::{CallReport, Cost};
use crate::runtime::Runtime;
use crate::state::{CallState, Caller, printable};

/// Longest text of a tool's own failure that the model is told, in bytes.
const FAILURE_BYTES: usize = 4 << 10;

/// A tool and the component that has it.
pub(crate) struct Tool {
    pub(crate) component: Arc<Component>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) name: Arc<str>,
}

/// What a call came to.
struct Ended {
    result: Result<String, Fault>,
    cost: Cost,
}

/// Why a call gave no value: a text for the model, and for the log the whole truth.
struct Fault {
    outcome: ToolOutcome,
    model: String,
    log: String,
}

/// Calls a tool and makes the receipt.
pub(crate) async fn call(runtime: &Arc<Runtime>, tool: &Arc<Tool>, request: ToolRequest<'_>) -> ToolReturn {
    let start = Instant::now();
    let ended = match check_arguments(tool, &request).await {
        Ok(()) => run(runtime, tool, request, start).await,
        Err(problems) => Ended {
            result: Err(Fault {
                outcome: ToolOutcome::InvalidArguments,
                model: format!("Error: invalid arguments: {problems}"),
                log: String::new(),
            }),
            cost: Cost::default(),
        },
    };
    let duration = start.elapsed();
    let (content, outcome) = match ended.result {
        Ok(value) => (value, ToolOutcome::Ok),
        Err(fault) => {
            log_fault(tool, request.request_id, &fault);
            (fault.model, fault.outcome)
        }
    };
    runtime.observer.call_ended(&CallReport {
        tool: &tool.name,
        component: &tool.component.name,
        outcome,
        duration,
        cost: ended.cost,
    });
    let receipt = ToolReceipt {
        name: request.call.name.clone(),
        component: Some(tool.component.id.clone()),
        // Microseconds are as fine as the clock is worth.
        duration_ms: (duration.as_secs_f64() * 1e6).round() / 1e3,
        outcome,
    };
    ToolReturn { content, receipt }
}

/// Values of more bytes are checked on a thread for blocking work: how long that takes is up to a stranger's
/// schema, and it cannot be interrupted.
const CHECKED_HERE_BYTES: usize = 16 << 10;

async fn check_arguments(tool: &Arc<Tool>, request: &ToolRequest<'_>) -> Result<(), String> {
    let arguments = &request.call.arguments;
    // Schemas are bounded, so only a large value can take long.
    if !is_large(arguments) {
        return tool.definition.check_arguments(arguments);
    }
    let (tool, arguments) = (tool.clone(), arguments.clone());
    let check = tokio::task::spawn_blocking(move || tool.definition.check_arguments(&arguments));
    match tokio::time::timeout_at(request.deadline.into(), check).await {
        Ok(Ok(checked)) => checked,
        Ok(Err(_)) | Err(_) => Err("they could not be checked in time".into()),
    }
}

/// Whether a value has many bytes, without writing it down.
fn is_large(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    fn spend(value: &Value, left: &mut usize) -> bool {
        let own = match value {
            Value::String(text) => text.len(),
            Value::Object(members) => members.keys().map(String::len).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => 0,
        };
        let Some(rest) = left.checked_sub(own + 4) else { return false };
        *left = rest;
        match value {
            Value::Array(parts) => parts.iter().all(|part| spend(part, left)),
            Value::Object(members) => members.values().all(|part| spend(part, left)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }
    !spend(value, &mut CHECKED_HERE_BYTES.clone())
}

async fn run(runtime: &Arc<Runtime>, tool: &Arc<Tool>, request: ToolRequest<'_>, start: Instant) -> Ended {
    let allowed =
        tool.definition.timeout.map_or(runtime.limits.timeout, |own| own.min(runtime.limits.timeout));
    let deadline = (start + allowed).min(request.deadline);
    let timed_out = || Ended { result: Err(timed_out(deadline - start)), cost: Cost::default() };

    let Some(slot) = take_slot(&runtime.slots, deadline).await else { return timed_out() };
    let gone = Arc::new(AtomicBool::new(false));
    let caller = Caller {
        request_id: request.request_id.to_owned(),
        component: tool.component.name.clone(),
        tool: tool.name.clone(),
        deadline,
        gone: gone.clone(),
    };
    let guest = Guest {
        runtime: runtime.clone(),
        tool: tool.clone(),
        caller,
        allowed: deadline - start,
        arguments: request.call.arguments.to_string(),
        _slot: slot,
    };
    let call = guest.run();
    match lane::run(&runtime.lane, deadline, gone, call).await {
        Ok(ended) => ended,
        Err(Lost::Deadline) => timed_out(),
        Err(Lost::Host(error)) => Ended { result: Err(host_error(error.to_string())), cost: Cost::default() },
    }
}

/// A slot, now or when one is free; nothing when the deadline passes first.
async fn take_slot(slots: &Arc<Semaphore>, deadline: Instant) -> Option<OwnedSemaphorePermit> {
    if let Ok(slot) = slots.clone().try_acquire_owned() {
        return Some(slot);
    }
    tokio::time::timeout_at(deadline.into(), slots.clone().acquire_owned()).await.ok()?.ok()
}

/// The part of a call that may move to another thread, with all it needs.
struct Guest {
    runtime: Arc<Runtime>,
    tool: Arc<Tool>,
    caller: Caller,
    allowed: Duration,
    arguments: String,
    /// Given back when the store is gone.
    _slot: OwnedSemaphorePermit,
}

impl Guest {
    async fn run(self) -> Ended {
        let Self { runtime, tool, caller, allowed, arguments, _slot } = self;
        let begun = Instant::now();
        let mut store = match runtime.fresh_store(caller) {
            Ok(store) => store,
            Err(error) => return Ended { result: Err(host_error(detail(&error))), cost: Cost::default() },
        };
        let instance = match tool.component.pre.instantiate_async(&mut store).await {
            Ok(instance) => instance,
            Err(error) => {
                let cost = Cost { instantiate: begun.elapsed(), ..cost_of(&runtime, &store) };
                return Ended { result: Err(interrupted(&runtime, &store, &error, allowed)), cost };
            }
        };
        let instantiated = Instant::now();
        let returned = instance.agent_tool_tool().call_call(&mut store, &tool.name, &arguments).await;
        let cost = Cost {
            instantiate: instantiated - begun,
            run: instantiated.elapsed(),
            ..cost_of(&runtime, &store)
        };
        let result = match returned {
            Ok(Ok(output)) => accept(&runtime, &tool.definition, output).await,
            Ok(Err(failure)) => Err(refused(&failure)),
            Err(error) => Err(interrupted(&runtime, &store, &error, allowed)),
        };
        Ended { result, cost }
    }
}

fn cost_of(runtime: &Runtime, store: &Store<CallState>) -> Cost {
    let fuel = runtime.metering.then(|| store.get_fuel().map_or(0, |left| u64::MAX - left));
    Cost { peak_memory_bytes: store.data().limiter.peak_memory(), fuel, ..Cost::default() }
}

async fn accept(runtime: &Runtime, definition: &Arc<Definition>, output: Output) -> Result<String, Fault> {
    let value = output.value;
    if value.len() > runtime.limits.output_bytes {
        return Err(too_much(runtime));
    }
    let (value, checked) = if value.len() <= CHECKED_HERE_BYTES {
        let checked = definition.check_output(&value);
        (value, checked)
    } else {
        let definition = definition.clone();
        let check = tokio::task::spawn_blocking(move || {
            let checked = definition.check_output(&value);
            (value, checked)
        });
        check.await.map_err(|error| host_error(error.to_string()))?
    };
    match checked {
        Ok(()) => Ok(value),
        Err(problem) => Err(Fault {
            outcome: ToolOutcome::InvalidOutput,
            model: "Error: the tool returned something that does not match its own description.".into(),
            log: problem,
        }),
    }
}

/// The tool's own failure: its text goes to the model, cut and cleaned.
fn refused(failure: &Failure) -> Fault {
    let text = format!("{}: {}", printable(&failure.code, 64), printable(&failure.message, FAILURE_BYTES));
    Fault { outcome: ToolOutcome::Failed, model: format!("Error: {text}"), log: text }
}

/// What wasmtime's error means.
fn interrupted(
    runtime: &Runtime,
    store: &Store<CallState>,
    error: &wasmtime::Error,
    allowed: Duration,
) -> Fault {
    let trap = error.downcast_ref::<Trap>();
    if trap == Some(&Trap::Interrupt) {
        return timed_out(allowed);
    }
    if error.is::<wasmtime::PoolConcurrencyLimitError>() {
        return host_error(detail(error));
    }
    let limiter = &store.data().limiter;
    if limiter.denied() {
        return Fault {
            outcome: ToolOutcome::MemoryLimit,
            model: format!(
                "Error: the tool needed more memory than it may have ({} MiB) and was stopped.",
                runtime.limits.memory_bytes >> 20
            ),
            log: detail(error),
        };
    }
    if trap.is_none() && moved_too_much(error) {
        return too_much(runtime);
    }
    let log = detail(error);
    Fault { outcome: ToolOutcome::Trapped, model: "Error: the tool crashed.".into(), log }
}

/// Whether a guest handed over more bytes than the store lets it. wasmtime keeps the type of this error to
/// itself, so its words are all there is; the sandbox tests fail when they change.
fn moved_too_much(error: &wasmtime::Error) -> bool {
    error.root_cause().to_string().contains("fuel allocated for hostcalls has been exhausted")
}

fn too_much(runtime: &Runtime) -> Fault {
    let most = runtime.limits.output_bytes;
    Fault {
        outcome: ToolOutcome::OutputLimit,
        model: format!("Error: the tool returned more than {most} bytes. Ask it for less."),
        log: format!("returned more than {most} bytes"),
    }
}

fn timed_out(allowed: Duration) -> Fault {
    let milliseconds = allowed.as_millis();
    Fault {
        outcome: ToolOutcome::TimedOut,
        model: format!("Error: the tool did not finish within {milliseconds} ms and was stopped."),
        log: format!("did not finish within {milliseconds} ms"),
    }
}

fn host_error(log: String) -> Fault {
    Fault { outcome: ToolOutcome::HostError, model: "Error: the tool could not be run.".into(), log }
}

fn log_fault(tool: &Tool, request_id: &str, fault: &Fault) {
    let (component, name) = (&*tool.component.id, &*tool.name);
    let (outcome, reason) = (fault.outcome.as_str(), fault.log.as_str());
    match fault.outcome {
        // Part of everyday work: the model reads it and does better.
        ToolOutcome::Ok
        | ToolOutcome::Failed
        | ToolOutcome::InvalidArguments
        | ToolOutcome::UnknownTool
        | ToolOutcome::NotRun => {
            tracing::debug!(request_id, component, tool = name, outcome, reason, "tool call failed");
        }
        ToolOutcome::TimedOut
        | ToolOutcome::Trapped
        | ToolOutcome::MemoryLimit
        | ToolOutcome::OutputLimit
        | ToolOutcome::InvalidOutput => {
            tracing::warn!(request_id, component, tool = name, outcome, reason, "tool call stopped");
        }
        ToolOutcome::HostError => {
            tracing::error!(request_id, component, tool = name, outcome, reason, "tool call not possible");
        }
    }
}
