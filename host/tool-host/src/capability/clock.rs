//! `agent:tool/clock`: the time of day. It keeps no state; asking for it costs the guest's own time.

use std::time::{SystemTime, UNIX_EPOCH};

use wasmtime::component::HasSelf;

use super::{Capability, Imports};
use crate::bindings::agent::tool::clock::{Host, add_to_linker};
use crate::call::CallState;

pub(super) const CAPABILITY: Capability = Capability {
    imports: Imports::Contract("clock"),
    link: |linker| add_to_linker::<_, HasSelf<_>>(linker, |call: &mut CallState| call),
    ended: None,
};

impl Host for CallState {
    fn now_ms(&mut self) -> u64 {
        self.limiter.clear_denied();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
