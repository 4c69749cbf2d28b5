//! Where guests run: the engine, the limits, one linker per set of capabilities, and a fresh store for every
//! call.

use std::sync::Arc;

use wasmtime::component::Linker;
use wasmtime::{Engine, Store};

use crate::capability::state::{CallState, Caller};
use crate::capability::{CapabilitySet, Linkers};
use crate::compiler::engine::{self, Allocation};
use crate::limits::epoch_interruption::interrupt_at_deadline;
use crate::limits::{ToolLimits, Transfer};

/// Makes stores.
pub(crate) struct Sandbox {
    engine: Engine,
    allocation: Allocation,
    limits: ToolLimits,
    /// Whether fuel is counted.
    metering: bool,
    linkers: Linkers,
}

impl Sandbox {
    pub(crate) fn new(limits: ToolLimits, metering: bool) -> wasmtime::Result<Self> {
        let (engine, allocation) = engine::build(&limits, metering)?;
        Ok(Self { linkers: Linkers::new(&engine), engine, allocation, limits, metering })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Where instances come from on this machine.
    pub(crate) fn allocation(&self) -> Allocation {
        self.allocation
    }

    /// What one call may use up.
    pub(crate) fn limits(&self) -> &ToolLimits {
        &self.limits
    }

    pub(crate) fn counts_fuel(&self) -> bool {
        self.metering
    }

    /// The linker for components that want these.
    pub(crate) fn linker(&self, capabilities: CapabilitySet) -> wasmtime::Result<Arc<Linker<CallState>>> {
        self.linkers.of(capabilities)
    }

    /// A store for one call. Typed values take more room on their way to the host than their text.
    pub(crate) fn store(&self, caller: Caller, transfer: Transfer) -> wasmtime::Result<Store<CallState>> {
        let most_at_once = transfer.most_at_once(&caller.limits);
        let fuel = caller.fuel();
        let mut store = Store::new(&self.engine, CallState::new(caller));
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(most_at_once);
        let metering = self.metering;
        interrupt_at_deadline(&mut store, move |store| {
            // A call that is stopped reports what it had used by then.
            if metering && let Ok(left) = store.get_fuel() {
                store.data().context.progress.set_fuel(fuel.saturating_sub(left));
            }
            let context = &store.data().context;
            context.progress.tick();
            context.deadline
        });
        if self.metering {
            store.set_fuel(fuel)?;
        }
        Ok(store)
    }

    /// The fuel that was used up of what the call had, if it is counted.
    pub(crate) fn fuel_used(&self, store: &Store<CallState>, had: u64) -> Option<u64> {
        let left = self.metering.then(|| store.get_fuel().ok()).flatten()?;
        Some(had.saturating_sub(left))
    }
}
