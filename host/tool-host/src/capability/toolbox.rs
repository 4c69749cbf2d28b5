//! `agent:tool/toolbox`: the run's other tools, for components that the policy grants it.
//!
//! The guest runs on a thread of its own and borrows nothing of the run. So a call is handed to the task that
//! waits for the guest (`call/nested.rs`), which makes it and hands the answer back.

use agent_core::ports::CallEnds;
use agent_core::words::{ToolOutcome, ToolReturn};
use tokio::sync::{mpsc, oneshot};

use super::imports::Imports;
use crate::bindings::agent::tool::toolbox::Host;
use crate::bindings::agent::tool::types::Fault;

pub(super) const IMPORTS: Imports = Imports::Contract("toolbox");

/// Something that a guest asks for.
#[derive(Debug)]
pub(crate) struct NestedCall {
    pub(crate) wish: NestedWish,
    pub(crate) answer: oneshot::Sender<Result<ToolReturn, CallEnds>>,
}

/// What a guest asks for, as it wrote it.
#[derive(Debug)]
pub(crate) enum NestedWish {
    /// A call of a tool; the arguments are JSON text.
    Call { name: String, arguments: String },
    /// A person's answer, which the JSON Schema allows.
    Question { text: String, schema: Option<String> },
}

/// The way to the run's tools; absent where nothing is granted, for calls that are nested themselves, and
/// outside of runs.
#[derive(Debug, Default)]
pub(crate) struct ToolboxState(pub(crate) Option<Outer>);

/// A call that may call tools or ask.
#[derive(Debug, Clone)]
pub(crate) struct Outer {
    /// What may be called, sorted.
    pub(crate) names: Vec<String>,
    pub(crate) calls: mpsc::Sender<NestedCall>,
}

impl Host for ToolboxState {
    async fn call(&mut self, name: String, arguments: String) -> wasmtime::Result<Result<String, Fault>> {
        let wish = NestedWish::Call { name, arguments };
        let answer = exchange(self.0.as_ref(), wish, "this call may not call tools").await?;
        Ok(answer.map_err(|Refused { code, message }| Fault { code, message }))
    }

    async fn names(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(self.0.as_ref().map(|outer| outer.names.clone()).unwrap_or_default())
    }
}

/// Why a wish of a guest was not granted, in the contract's words.
pub(super) struct Refused {
    pub(super) code: String,
    pub(super) message: String,
}

/// Has a wish granted by who carries out the guest's own call, the `outer` one; `denied` is said where nobody
/// does. Traps where the call ends here, because it has to wait.
pub(super) async fn exchange(
    outer: Option<&Outer>,
    wish: NestedWish,
    denied: &str,
) -> wasmtime::Result<Result<String, Refused>> {
    let refused = |code: &str, message: &str| Refused { code: code.into(), message: message.into() };
    let Some(Outer { calls, .. }) = outer else { return Ok(Err(refused("denied", denied))) };
    let (answer, answered) = oneshot::channel();
    // Whoever serves these ends with the guest's own call, which interrupts the guest.
    let gone = || Ok(Err(refused("unavailable", "the run has ended")));
    if calls.send(NestedCall { wish, answer }).await.is_err() {
        return gone();
    }
    let Ok(returned) = answered.await else { return gone() };
    let returned = returned?;
    Ok(match returned.receipt.outcome {
        ToolOutcome::Ok => Ok(returned.content),
        _ => Err(Refused { code: code(&returned), message: returned.content }),
    })
}

/// The contract's word for a call that gave no value.
fn code(returned: &ToolReturn) -> String {
    let word = match returned.receipt.outcome {
        ToolOutcome::UnknownTool => "unknown-tool",
        ToolOutcome::InvalidArguments => "invalid-arguments",
        ToolOutcome::Failed | ToolOutcome::NotRun => returned.receipt.code().unwrap_or("tool-failed"),
        _ => "tool-failed",
    };
    word.to_owned()
}
