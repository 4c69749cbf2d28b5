//! `agent:tool/clock`: the time of day. It keeps nothing; asking for it costs the guest's own time.

use super::imports::Imports;
use super::nondeterminism::Nondeterminism;
use crate::bindings::agent::tool::clock::Host;

pub(super) const IMPORTS: Imports = Imports::Contract("clock");

/// Where the time comes from.
#[derive(Debug)]
pub(crate) struct ClockState(pub(crate) Nondeterminism);

impl Host for ClockState {
    fn now_ms(&mut self) -> u64 {
        u64::try_from(self.0.time_of_day().as_millis()).unwrap_or(u64::MAX)
    }
}
