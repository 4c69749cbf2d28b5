//! The component of the benchmark on bare wasmtime.

use std::hint::black_box;

use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};

use crate::expression;

mod bindings {
    wasmtime::component::bindgen!({ path: "../../wit", world: "sandboxed-tool", exports: { default: async } });
}

/// wasmtime as the design measured it: a pool with page-map scan, a fresh store for every call, and nothing
/// else: no limits, no deadline, no validation.
pub(crate) struct Bare {
    engine: Engine,
    pre: bindings::SandboxedToolPre<Imports>,
}

struct Imports;

impl bindings::agent::tool::context::Host for Imports {
    fn request_id(&mut self) -> String {
        String::new()
    }
    fn remaining_ms(&mut self) -> u64 {
        0
    }
    fn cancelled(&mut self) -> bool {
        false
    }
    fn run_id(&mut self) -> String {
        String::new()
    }
    fn call_id(&mut self) -> String {
        String::new()
    }
    fn attempt(&mut self) -> u32 {
        1
    }
    fn get(&mut self, _key: String) -> Option<String> {
        None
    }
    fn user(&mut self) -> Option<String> {
        None
    }
}

impl bindings::agent::tool::config::Host for Imports {
    fn get(&mut self, _key: String) -> Option<String> {
        None
    }
}

impl bindings::agent::tool::secrets::Host for Imports {
    fn exists(&mut self, _name: String) -> bool {
        false
    }
}

impl bindings::agent::tool::progress::Host for Imports {
    fn report(&mut self, _message: String, _fraction: Option<f64>) -> bool {
        true
    }
}

impl bindings::agent::tool::clock::Host for Imports {
    fn now_ms(&mut self) -> u64 {
        0
    }
}

impl bindings::agent::tool::log::Host for Imports {
    fn write(&mut self, _level: String, _message: String, _fields: Vec<(String, String)>) {}
}

/// Whether guests look at every loop and function whether they shall stop, as those of the tool host do. A
/// host that cannot trust them needs that, and it is a fifth of this guest's instructions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guests {
    Trusted,
    Interruptible,
}

impl Bare {
    pub(crate) fn pooled(wasm: &[u8], guests: Guests) -> Self {
        let mut pool = PoolingAllocationConfig::default();
        pool.total_memories(256).total_core_instances(4096).total_component_instances(128);
        if PoolingAllocationConfig::is_pagemap_scan_available() {
            pool.pagemap_scan(Enabled::Yes).linear_memory_keep_resident(1 << 20).table_keep_resident(1 << 16);
        }
        let mut config = wasmtime::Config::new();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        Self::with(config, wasm, guests)
    }

    pub(crate) fn on_demand(wasm: &[u8], guests: Guests) -> Self {
        Self::with(wasmtime::Config::new(), wasm, guests)
    }

    fn with(mut config: wasmtime::Config, wasm: &[u8], guests: Guests) -> Self {
        config.epoch_interruption(guests == Guests::Interruptible);
        let engine = Engine::new(&config).unwrap();
        let mut linker = Linker::new(&engine);
        bindings::SandboxedTool::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut Imports| state)
            .unwrap();
        let component = Component::new(&engine, wasm).unwrap();
        let pre = bindings::SandboxedToolPre::new(linker.instantiate_pre(&component).unwrap()).unwrap();
        Self { engine, pre }
    }

    pub(crate) async fn call(&self) {
        let mut store = Store::new(&self.engine, Imports);
        // The clock of this engine never ticks.
        store.set_epoch_deadline(1);
        let instance = self.pre.instantiate_async(&mut store).await.unwrap();
        let tool = instance.agent_tool_tool();
        let output =
            tool.call_call(&mut store, "calculate", &expression().to_string()).await.unwrap().unwrap();
        black_box(output.value);
    }
}
