//! `agent:tool/clock`: the time of day. It keeps nothing; asking for it costs the guest's own time.

use std::time::{SystemTime, UNIX_EPOCH};

use wasmtime::component::{HasSelf, Linker};

use super::imports::Imports;
use crate::bindings::agent::tool::clock::{Host, add_to_linker};

pub(super) const IMPORTS: Imports = Imports::Contract("clock");

/// What a call has of it: nothing.
#[derive(Debug, Default)]
pub(crate) struct ClockState;

pub(super) fn link<T: 'static>(
    linker: &mut Linker<T>,
    state: fn(&mut T) -> &mut ClockState,
) -> wasmtime::Result<()> {
    add_to_linker::<T, HasSelf<ClockState>>(linker, state)
}

impl Host for ClockState {
    fn now_ms(&mut self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
