//! What a call's store carries: the limiter, and what each capability keeps of the call.

use std::sync::Arc;
use std::time::Instant;

use agent_core::trace::TraceContext;
use wasmtime_wasi::{WasiCtxView, WasiView};

use super::progress::Progress;
use crate::capability::{ClockState, ContextState, LogRate, LogState, ProgressState, WasiState};
use crate::limits::{Limiter, Limits};

/// State of one call. Made for it and thrown away after it.
pub(crate) struct CallState {
    pub(crate) limiter: Limiter,
    pub(crate) context: ContextState,
    pub(crate) log: LogState,
    pub(crate) clock: ClockState,
    pub(crate) report: ProgressState,
    pub(crate) wasi: WasiState,
}

/// For whom a call is.
pub(crate) struct Caller {
    pub(crate) request_id: Arc<str>,
    pub(crate) run_id: Arc<str>,
    pub(crate) call_id: Arc<str>,
    pub(crate) attempt: u32,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) component: Arc<str>,
    pub(crate) tool: Arc<str>,
    pub(crate) deadline: Instant,
    pub(crate) progress: Arc<Progress>,
    pub(crate) log_rate: Arc<LogRate>,
}

impl CallState {
    pub(crate) fn new(caller: Caller, limits: &Limits) -> Self {
        let Caller { request_id, run_id, call_id, attempt, trace, component, tool, .. } = caller;
        let Caller { deadline, progress, log_rate, .. } = caller;
        let log = LogState::new(limits, request_id.clone(), component, tool, log_rate);
        Self {
            limiter: Limiter::new(limits.memory_bytes, progress.clone()),
            report: ProgressState { log: log.clone(), progress: progress.clone() },
            wasi: WasiState::new(log.clone()),
            log,
            context: ContextState { request_id, run_id, call_id, attempt, trace, deadline, progress },
            clock: ClockState,
        }
    }

    /// The state, for a guest that asks for something of the contract: it went on after whatever it was denied.
    pub(crate) fn active(&mut self) -> &mut Self {
        self.limiter.clear_denied();
        self
    }
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.wasi.view()
    }
}
