//! What all components of a tool host share, part by part.

use std::sync::Arc;

use crate::bulkhead::Slots;
use crate::compiled::CompiledCache;
use crate::compiler::Compilers;
use crate::config::Config;
use crate::engine;
use crate::grants::Grants;
use crate::guest_runtime::GuestRuntime;
use crate::host_work_pool::HostWork;
use crate::observer::Observer;
use crate::sandbox::Sandbox;

/// What all components share.
pub(crate) struct Runtime {
    /// Makes the stores that guests run in.
    pub(crate) sandbox: Sandbox,
    /// Components that were compiled before.
    pub(crate) cache: CompiledCache,
    /// Compiles those that were not.
    pub(crate) compilers: Compilers,
    /// Admits calls.
    pub(crate) slots: Slots,
    /// Where guests run that take long.
    pub(crate) guest_runtime: GuestRuntime,
    /// Where the host works for guests.
    pub(crate) host_work: HostWork,
    /// What components are granted.
    pub(crate) grants: Arc<Grants>,
    /// Who is told of calls and swaps.
    pub(crate) observer: Arc<dyn Observer>,
}

impl Runtime {
    pub(crate) fn new(config: Config, grants: Grants) -> wasmtime::Result<Self> {
        let slots = Slots::new(&config.limits);
        let sandbox = Sandbox::new(config.limits, config.metering)?;
        Ok(Self {
            cache: CompiledCache::open(config.cache, engine::fingerprint(sandbox.engine())),
            compilers: Compilers::new(config.compiler, config.metering),
            slots,
            host_work: HostWork::new(config.guest_runtime.clone()),
            guest_runtime: GuestRuntime::new(config.guest_runtime),
            grants: Arc::new(grants),
            observer: config.observer,
            sandbox,
        })
    }
}
