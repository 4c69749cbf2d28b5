//! `agent:tool/context`: for which request and run the call is made, how long it may take, and whether
//! anybody still waits.

use std::sync::Arc;
use std::time::Instant;

use agent_core::trace::TraceContext;
use wasmtime::component::{HasSelf, Linker};

use super::imports::Imports;
use super::nondeterminism::Nondeterminism;
use crate::bindings::agent::tool::context::{Host, add_to_linker};
use crate::limits::progress::Progress;

pub(super) const IMPORTS: Imports = Imports::Contract("context");

/// What the call is told of itself, and the host goes by.
#[derive(Debug)]
pub(crate) struct ContextState {
    pub(crate) request_id: Arc<str>,
    pub(crate) run_id: Arc<str>,
    pub(crate) call_id: Arc<str>,
    pub(crate) attempt: u32,
    /// The user as this component may know it.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) deadline: Instant,
    pub(crate) nondeterminism: Nondeterminism,
    pub(crate) progress: Arc<Progress>,
}

pub(super) fn link<T: 'static>(
    linker: &mut Linker<T>,
    state: fn(&mut T) -> &mut ContextState,
) -> wasmtime::Result<()> {
    add_to_linker::<T, HasSelf<ContextState>>(linker, state)
}

impl Host for ContextState {
    fn request_id(&mut self) -> String {
        self.request_id.to_string()
    }

    fn remaining_ms(&mut self) -> u64 {
        let left = self.nondeterminism.remaining(self.deadline);
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    fn cancelled(&mut self) -> bool {
        self.progress.is_cancelled()
    }

    fn run_id(&mut self) -> String {
        self.run_id.to_string()
    }

    fn call_id(&mut self) -> String {
        self.call_id.to_string()
    }

    fn attempt(&mut self) -> u32 {
        self.attempt
    }

    fn get(&mut self, key: String) -> Option<String> {
        match key.as_str() {
            "traceparent" => self.trace.map(|trace| trace.to_string()),
            _ => None,
        }
    }

    fn user(&mut self) -> Option<String> {
        self.user.as_deref().map(str::to_owned)
    }
}
