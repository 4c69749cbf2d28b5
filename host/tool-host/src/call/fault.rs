//! Why a call gave no value, in words: some for the model, and for the log the whole truth.

use std::time::Duration;

use agent_core::ports::{CallEnds, DENIED};
use agent_core::words::ToolOutcome;
use json_schema::text_sanitizer::printable;
use wasmtime::{Trap, WasmBacktrace};

use super::tool::Tool;
use crate::bindings::exports::agent::tool::tool::Failure;
use crate::capability::state::CallState;
use crate::component::bulkhead::Busy;
use crate::error::detail;
use crate::limits::ToolLimits;
use crate::threads::guest_runtime::Unfinished;

/// Longest code of a tool's own failure that is kept, in bytes.
const CODE_BYTES: usize = 64;

/// Longest text of a tool's own failure that the model is told, in bytes.
const FAILURE_BYTES: usize = 4 << 10;

/// Why a call gave no value.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) outcome: ToolOutcome,
    /// What the model is told.
    pub(super) model: String,
    /// What the operator is told.
    pub(super) log: String,
    /// The code of the tool's own failure.
    pub(super) code: Option<String>,
    /// When the tool asks to be tried again: what it says in its failure.
    pub(super) retry_after: Option<Duration>,
}

impl Fault {
    pub(super) fn arguments(problems: &str) -> Self {
        Self::new(
            ToolOutcome::InvalidArguments,
            format!("Error: invalid arguments: {problems}"),
            String::new(),
        )
    }

    pub(super) fn arguments_too_costly() -> Self {
        Self::arguments("they are too large to be checked; make them smaller")
    }

    pub(super) fn output(problem: String) -> Self {
        Self::new(
            ToolOutcome::InvalidOutput,
            "Error: the tool returned something that does not match its own description.".into(),
            problem,
        )
    }

    pub(super) fn output_too_costly() -> Self {
        Self::new(
            ToolOutcome::OutputLimit,
            "Error: the tool returned too much to be checked. Ask it for less.".into(),
            "to check its output against its schema would take more steps or memory than there are".into(),
        )
    }

    pub(super) fn too_much(limits: &ToolLimits) -> Self {
        let most = limits.output_bytes;
        Self::new(
            ToolOutcome::OutputLimit,
            format!("Error: the tool returned more than {most} bytes. Ask it for less."),
            format!("returned more than {most} bytes"),
        )
    }

    pub(super) fn timed_out(allowed: Duration) -> Self {
        let milliseconds = allowed.as_millis();
        Self::new(
            ToolOutcome::TimedOut,
            format!("Error: the tool did not finish within {milliseconds} ms and was stopped."),
            format!("did not finish within {milliseconds} ms"),
        )
    }

    /// The tool used up the instructions that the policy gives it.
    fn out_of_fuel(most: u64) -> Self {
        Self::new(
            ToolOutcome::TimedOut,
            format!("Error: the tool needed more than the {most} instructions it may use and was stopped."),
            format!("needed more fuel than {most}"),
        )
    }

    /// No permit came free in time; nothing ran.
    pub(super) fn busy(whose: Busy, allowed: Duration) -> Self {
        let milliseconds = allowed.as_millis();
        let who = match whose {
            Busy::Component => "the tool is",
            Busy::Host => "all tools are",
        };
        Self::new(
            ToolOutcome::TimedOut,
            format!(
                "Error: {who} busy with other calls; this one did not get its turn within {milliseconds} ms. Try again later."
            ),
            match whose {
                Busy::Component => format!("all permits of its component were taken for {milliseconds} ms"),
                Busy::Host => format!("all slots were taken for {milliseconds} ms"),
            },
        )
    }

    /// What the tool is granted was not there in time; nothing ran.
    pub(super) fn no_grants(allowed: Duration) -> Self {
        let milliseconds = allowed.as_millis();
        Self::new(
            ToolOutcome::TimedOut,
            format!("Error: the tool could not be started within {milliseconds} ms. Try again later."),
            format!("the values of its secrets were not read within {milliseconds} ms"),
        )
    }

    /// The policy does not let it run; nothing ran.
    pub(super) fn ungranted(problem: &str) -> Self {
        Self {
            code: Some(DENIED.to_owned()),
            ..Self::new(
                ToolOutcome::Failed,
                "Error: denied: the operator does not let this tool run at the moment.".into(),
                format!("was not run: {problem}"),
            )
        }
    }

    pub(super) fn host(log: String) -> Self {
        Self::new(ToolOutcome::HostError, "Error: the tool could not be run.".into(), log)
    }

    pub(super) fn unfinished(unfinished: &Unfinished, allowed: Duration) -> Self {
        match unfinished {
            Unfinished::Deadline => Self::timed_out(allowed),
            Unfinished::Host(error) => Self::host(error.to_string()),
        }
    }

    /// The tool's own failure: its text goes to the model, cut and cleaned.
    pub(super) fn refused(failure: &Failure) -> Self {
        let code = printable(&failure.code, CODE_BYTES);
        let text = format!("{code}: {}", printable(&failure.message, FAILURE_BYTES));
        let after = failure.meta.iter().find(|(key, _)| key == "retry-after-ms");
        Self {
            code: Some(code),
            retry_after: after.and_then(|(_, value)| value.parse().ok()).map(Duration::from_millis),
            ..Self::new(ToolOutcome::Failed, format!("Error: {text}"), text)
        }
    }

    fn new(outcome: ToolOutcome, model: String, log: String) -> Self {
        Self { outcome, model, log, code: None, retry_after: None }
    }

    /// What wasmtime's error means.
    pub(super) fn interrupted(
        limits: &ToolLimits,
        call: &CallState,
        error: &wasmtime::Error,
        allowed: Duration,
    ) -> Self {
        let trap = error.downcast_ref::<Trap>();
        if trap == Some(&Trap::Interrupt) {
            return Self::timed_out(allowed);
        }
        if trap == Some(&Trap::OutOfFuel) {
            return Self::out_of_fuel(call.fuel);
        }
        if let Some(ends) = error.downcast_ref::<CallEnds>() {
            return Self::new(ToolOutcome::Cancelled, format!("Error: {ends}."), ends.to_string());
        }
        if error.is::<wasmtime::PoolConcurrencyLimitError>() {
            return Self::host(detail(error));
        }
        if call.limiter.denied() {
            return Self::new(
                ToolOutcome::MemoryLimit,
                format!(
                    "Error: the tool needed more memory than it may have ({} MiB) and was stopped.",
                    limits.memory_bytes >> 20
                ),
                detail(error),
            );
        }
        // With guest code on the stack it was no return value but what the guest gave to an import.
        let importing = error.downcast_ref::<WasmBacktrace>().is_some();
        if trap.is_none() && moved_too_much(error) && !importing {
            return Self::too_much(limits);
        }
        if trap.is_none() && !importing && error.root_cause().is::<std::str::Utf8Error>() {
            return Self::output(format!(
                "its answer is no UTF-8 text ({}): write bytes as base64, and texts as UTF-8",
                error.root_cause()
            ));
        }
        let mut log = detail(error);
        if trap == Some(&Trap::UnreachableCodeReached) {
            log.insert_str(
                0,
                "it panicked or aborted, and what it printed stands in the log: have it return a failure instead; ",
            );
        }
        Self::new(ToolOutcome::Trapped, "Error: the tool crashed.".into(), log)
    }

    pub(super) fn log(&self, tool: &Tool, request_id: &str) {
        let (component, name) = (&*tool.component.id, &*tool.name);
        let (outcome, reason) = (self.outcome.as_str(), self.log.as_str());
        match self.outcome {
            // Part of everyday work: the model reads it and does better.
            ToolOutcome::Ok
            | ToolOutcome::Failed
            | ToolOutcome::InvalidArguments
            | ToolOutcome::UnknownTool
            | ToolOutcome::Cancelled
            | ToolOutcome::Interrupted
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
                tracing::error!(
                    request_id,
                    component,
                    tool = name,
                    outcome,
                    reason,
                    "tool call not possible"
                );
            }
        }
    }
}

/// Whether a guest handed over more bytes than the store lets it. wasmtime keeps the type of this error to
/// itself, so its words are all there is; the sandbox tests fail when they change.
fn moved_too_much(error: &wasmtime::Error) -> bool {
    error.root_cause().to_string().contains("fuel allocated for hostcalls has been exhausted")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A tool's own failure.
    pub(in crate::call) fn failure(code: &str, retry_after_ms: Option<&str>) -> Failure {
        let meta = retry_after_ms.map(|after| ("retry-after-ms".to_owned(), after.to_owned()));
        Failure { code: code.into(), message: "not now".into(), meta: meta.into_iter().collect() }
    }
}
