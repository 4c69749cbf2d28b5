//! `agent:tool/context`: for which request the call is made, how long it may take, and whether anybody still waits. It
//! reads what the call's state has anyway.

use std::time::Instant;

use wasmtime::component::HasSelf;

use super::{Capability, Imports};
use crate::bindings::agent::tool::context::{Host, add_to_linker};
use crate::call::CallState;

pub(super) const CAPABILITY: Capability = Capability {
    imports: Imports::Contract("context"),
    link: |linker| add_to_linker::<_, HasSelf<_>>(linker, |call: &mut CallState| call),
    ended: None,
};

impl Host for CallState {
    fn request_id(&mut self) -> String {
        self.limiter.clear_denied();
        self.request_id.clone()
    }

    fn remaining_ms(&mut self) -> u64 {
        self.limiter.clear_denied();
        let left = self.deadline.saturating_duration_since(Instant::now());
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    fn cancelled(&mut self) -> bool {
        self.limiter.clear_denied();
        self.progress.is_cancelled()
    }
}
