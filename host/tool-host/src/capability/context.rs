//! `agent:tool/context`: for which request the call is made, how long it may take, and whether anybody still waits.

use std::sync::Arc;
use std::time::Instant;

use wasmtime::component::{HasSelf, Linker};

use super::imports::Imports;
use crate::bindings::agent::tool::context::{Host, add_to_linker};
use crate::call::Progress;

pub(super) const IMPORTS: Imports = Imports::Contract("context");

/// What the call is told of itself, and the host goes by.
#[derive(Debug)]
pub(crate) struct ContextState {
    pub(crate) request_id: Arc<str>,
    pub(crate) deadline: Instant,
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
        let left = self.deadline.saturating_duration_since(Instant::now());
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    fn cancelled(&mut self) -> bool {
        self.progress.is_cancelled()
    }
}
