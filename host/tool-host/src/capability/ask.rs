//! `agent:tool/ask`: a person's answer in the middle of a call, for components that the policy grants it.
//!
//! A question goes the way of a nested call: to the task that waits for the guest (`call/nested.rs`). What
//! comes back is an answer that was given already, or the end of the call.

use agent_core::words::ToolOutcome;
use tokio::sync::oneshot;
use wasmtime::component::{HasSelf, Linker};

use super::imports::Imports;
use super::toolbox::{NestedCall, NestedWish, Outer, code};
use crate::bindings::since_0_1_2::agent::tool::ask::{Fault, Host, add_to_linker};

pub(super) const IMPORTS: Imports = Imports::Since("agent:tool/ask@0.1.2");

/// The way to whoever is asked; absent where nothing is granted, for calls that are nested themselves, and
/// outside of runs.
#[derive(Debug, Default)]
pub(crate) struct AskState(pub(crate) Option<Outer>);

pub(super) fn link<T: Send + 'static>(
    linker: &mut Linker<T>,
    state: fn(&mut T) -> &mut AskState,
) -> wasmtime::Result<()> {
    add_to_linker::<T, HasSelf<AskState>>(linker, state)
}

impl Host for AskState {
    async fn ask(
        &mut self,
        question: String,
        schema: Option<String>,
    ) -> wasmtime::Result<Result<String, Fault>> {
        let fault = |code: &str, message: &str| Fault { code: code.into(), message: message.into() };
        let Some(Outer { calls, .. }) = &self.0 else {
            return Ok(Err(fault(
                "denied",
                "this tool asks somebody in the middle of its call, and nobody can be asked here: only a tool that \
                 a run of a user calls itself can ask",
            )));
        };
        let (answer, answered) = oneshot::channel();
        let wish = NestedWish::Question { text: question, schema };
        // Whoever serves these ends with this one's own call, which interrupts the guest.
        let gone = || Ok(Err(fault("unavailable", "the run has ended")));
        if calls.send(NestedCall { wish, answer }).await.is_err() {
            return gone();
        }
        let Ok(returned) = answered.await else { return gone() };
        let returned = returned?;
        Ok(match returned.receipt.outcome {
            ToolOutcome::Ok => Ok(returned.content),
            _ => Err(Fault { code: code(&returned), message: returned.content }),
        })
    }
}
