//! `agent:tool/ask`: a person's answer in the middle of a call, for components that the policy grants it.
//!
//! A question goes the way of a nested call: to the task that waits for the guest (`call/nested.rs`). What
//! comes back is an answer that was given already, or the end of the call.

use super::imports::Imports;
use super::toolbox::{NestedWish, Outer, Refused, exchange};
use crate::bindings::since_0_1_2::agent::tool::ask::{Fault, Host};

pub(super) const IMPORTS: Imports = Imports::Since("agent:tool/ask@0.1.2");

/// The way to whoever is asked; absent where nothing is granted, for calls that are nested themselves, and
/// outside of runs.
#[derive(Debug, Default)]
pub(crate) struct AskState(pub(crate) Option<Outer>);

impl Host for AskState {
    async fn ask(
        &mut self,
        question: String,
        schema: Option<String>,
    ) -> wasmtime::Result<Result<String, Fault>> {
        let denied = "this tool asks somebody in the middle of its call, and nobody can be asked here: only a tool \
                      that a run of a user calls itself can ask";
        let wish = NestedWish::Question { text: question, schema };
        let answer = exchange(self.0.as_ref(), wish, denied).await?;
        Ok(answer.map_err(|Refused { code, message }| Fault { code, message }))
    }
}
