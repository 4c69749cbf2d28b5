//! The one wasmtime engine: how guests are compiled, and where their memory comes from.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use wasmtime::{CacheStore, Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::limits::epoch_interruption::start_epoch_clock;
use crate::limits::{CALLING_SLOTS, DESCRIBE_SLOTS, INSTANCES, MEMORIES, TABLE_ELEMENTS, TABLES, ToolLimits};

/// Deepest call stack of a guest, in bytes.
const GUEST_STACK_BYTES: usize = 1 << 20;

/// Stack of the fiber a guest runs on: the guest's own part and room for host functions above it.
const FIBER_STACK_BYTES: usize = 2 << 20;

/// What a pooled memory keeps resident between calls where the kernel can tell which pages were touched.
/// Measured: a call costs 20 µs with it and 38 µs without; a fixed `memset` of as much would cost 70 µs.
const KEPT_MEMORY_BYTES: usize = 1 << 20;

/// What a pooled table keeps resident, likewise.
const KEPT_TABLE_BYTES: usize = 64 << 10;

/// Slots that stay resident when they are unused: memory of an idle host for quick calls.
const WARM_SLOTS: u32 = 16;

/// Makes the engine and starts its clock.
///
/// Instances come from a pool where this machine allows one, else they are allocated on demand: the same
/// code, some thirty microseconds slower.
pub(crate) fn build(limits: &ToolLimits, metering: bool) -> wasmtime::Result<(Engine, Allocation)> {
    let (engine, allocation) = match Engine::new(&config(Some(limits), metering)) {
        Ok(engine) => (engine, Allocation::Pool),
        Err(error) => {
            tracing::info!(reason = format!("{error:#}"), "no instance pool on this machine");
            (Engine::new(&config(None, metering))?, Allocation::OnDemand)
        }
    };
    start_epoch_clock(engine.weak())?;
    Ok((engine, allocation))
}

/// An engine that compiles for the one above and runs nothing: where instances come from makes no difference
/// to the code.
pub(crate) fn for_compiling(metering: bool) -> wasmtime::Result<Engine> {
    Engine::new(&config(None, metering))
}

/// Such an engine for compiling versions of a component again and again: functions that are found in
/// `functions` are taken from there.
pub(crate) fn for_compiling_again(
    metering: bool,
    functions: Arc<dyn CacheStore>,
) -> wasmtime::Result<Engine> {
    let mut config = config(None, metering);
    config.enable_incremental_compilation(functions)?;
    Engine::new(&config)
}

/// Where instances come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// A pool set up when the host started.
    Pool,
    /// The operating system, each time.
    OnDemand,
}

/// Names everything that compiled code depends on beside the component itself.
pub(crate) fn fingerprint(engine: &Engine) -> u64 {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

fn config(pool: Option<&ToolLimits>, metering: bool) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.consume_fuel(metering);
    config.max_wasm_stack(GUEST_STACK_BYTES);
    config.async_stack_size(FIBER_STACK_BYTES);
    // A backtrace is for the operator's log; the symbols in it are the guest's own.
    config.wasm_backtrace_max_frames(std::num::NonZeroUsize::new(16));
    if let Some(limits) = pool {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pooling(limits)));
    }
    config
}

fn pooling(limits: &ToolLimits) -> PoolingAllocationConfig {
    // Room for as many calls of the largest component as there are slots, so that no component can use up
    // what another one needs, for those that call tools, and for those that describe themselves. It is
    // address space; only what is touched becomes memory.
    let calls = limits.concurrency.saturating_add(DESCRIBE_SLOTS + CALLING_SLOTS);
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(calls);
    pool.total_stacks(calls);
    pool.total_core_instances(calls.saturating_mul(INSTANCES));
    pool.total_memories(calls.saturating_mul(MEMORIES));
    pool.total_tables(calls.saturating_mul(TABLES));
    pool.max_core_instances_per_component(INSTANCES);
    pool.max_memories_per_component(MEMORIES);
    pool.max_memories_per_module(MEMORIES);
    pool.max_tables_per_component(TABLES);
    pool.max_tables_per_module(TABLES);
    pool.table_elements(TABLE_ELEMENTS);
    pool.max_memory_size(limits.memory_bytes);
    pool.max_unused_warm_slots(WARM_SLOTS);
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        pool.pagemap_scan(Enabled::Yes);
        pool.linear_memory_keep_resident(KEPT_MEMORY_BYTES);
        pool.table_keep_resident(KEPT_TABLE_BYTES);
    }
    pool
}
