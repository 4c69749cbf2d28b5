//! What all components share: the engine, the linkers, the slots and the limits.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Engine, Store, UpdateDeadline};

use crate::bindings::SandboxedTool;
use crate::compiled::CompiledCache;
use crate::compiler::Compilers;
use crate::contract::Wants;
use crate::engine::{self, Allocation};
use crate::host_work::HostWork;
use crate::limits::{DESCRIBE_SLOTS, Limits};
use crate::observer::Observer;
use crate::state::{CallState, Caller};

/// What a guest may move to the host at once beyond its output: the lists and records around it.
const OUTPUT_SLACK_BYTES: usize = 64 << 10;

/// What all components share.
pub(crate) struct Runtime {
    pub(crate) engine: Engine,
    pub(crate) allocation: Allocation,
    pub(crate) limits: Limits,
    pub(crate) cache: CompiledCache,
    pub(crate) compilers: Compilers,
    pub(crate) lane: Handle,
    pub(crate) observer: Arc<dyn Observer>,
    /// One permit per call that holds an instance.
    pub(crate) slots: Arc<Semaphore>,
    /// One permit per component that describes itself: the pool has instances for them beside the calls'.
    pub(crate) describe_slots: Arc<Semaphore>,
    /// Where the host works for guests.
    pub(crate) host_work: HostWork,
    pub(crate) metering: bool,
    contract: Linker<CallState>,
    contract_and_wasi: Linker<CallState>,
}

impl Runtime {
    pub(crate) fn new(config: crate::Config) -> wasmtime::Result<Self> {
        let (engine, allocation) = engine::build(&config.limits, config.metering)?;
        let mut contract = Linker::new(&engine);
        SandboxedTool::add_to_linker::<_, HasSelf<_>>(&mut contract, |state: &mut CallState| state)?;
        let mut contract_and_wasi = contract.clone();
        wasmtime_wasi::p2::add_to_linker_async(&mut contract_and_wasi)?;
        Ok(Self {
            cache: CompiledCache::open(config.cache, engine::fingerprint(&engine)),
            compilers: Compilers::new(config.compiler, config.metering),
            slots: Arc::new(Semaphore::new(config.limits.concurrency as usize)),
            describe_slots: Arc::new(Semaphore::new(DESCRIBE_SLOTS as usize)),
            host_work: HostWork::new(config.lane.clone()),
            engine,
            allocation,
            limits: config.limits,
            lane: config.lane,
            observer: config.observer,
            metering: config.metering,
            contract,
            contract_and_wasi,
        })
    }

    /// The linker for a component that wants this.
    pub(crate) fn linker(&self, wants: Wants) -> &Linker<CallState> {
        if wants.wasi { &self.contract_and_wasi } else { &self.contract }
    }

    /// A store for one call.
    pub(crate) fn fresh_store(&self, caller: Caller) -> wasmtime::Result<Store<CallState>> {
        let mut store = Store::new(&self.engine, CallState::new(caller, &self.limits));
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(self.limits.output_bytes.saturating_add(OUTPUT_SLACK_BYTES));
        store.set_epoch_deadline(1);
        let metering = self.metering;
        store.epoch_deadline_callback(move |store| {
            // A call that is stopped reports what it had used by then.
            if metering && let Ok(left) = store.get_fuel() {
                store.data().progress.set_fuel(u64::MAX - left);
            }
            if std::time::Instant::now() >= store.data().deadline {
                return Ok(UpdateDeadline::Interrupt);
            }
            Ok(UpdateDeadline::Yield(1))
        });
        if self.metering {
            store.set_fuel(u64::MAX)?;
        }
        Ok(store)
    }
}
