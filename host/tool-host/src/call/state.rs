//! What a call's store carries: the limiter, the deadline, for whom the call is, and what each capability keeps of it.

use std::sync::Arc;
use std::time::Instant;

use super::Progress;
use crate::capability::{self, LogBudget, LogRate, WasiState};
use crate::limits::{Limiter, Limits};

/// State of one call. Made for it and thrown away after it.
pub(crate) struct CallState {
    pub(crate) limiter: Limiter,
    pub(crate) deadline: Instant,
    pub(crate) progress: Arc<Progress>,
    pub(crate) request_id: String,
    pub(crate) component: Arc<str>,
    pub(crate) tool: Arc<str>,
    pub(crate) log: LogBudget,
    pub(crate) wasi: WasiState,
}

/// For whom a call is.
pub(crate) struct Caller {
    pub(crate) request_id: String,
    pub(crate) component: Arc<str>,
    pub(crate) tool: Arc<str>,
    pub(crate) deadline: Instant,
    pub(crate) progress: Arc<Progress>,
    pub(crate) log_rate: Arc<LogRate>,
}

impl CallState {
    pub(crate) fn new(caller: Caller, limits: &Limits) -> Self {
        let Caller { request_id, component, tool, deadline, progress, log_rate } = caller;
        Self {
            limiter: Limiter::new(limits.memory_bytes, progress.clone()),
            deadline,
            progress,
            request_id,
            component,
            tool,
            log: LogBudget::new(limits, log_rate),
            wasi: WasiState::default(),
        }
    }
}

impl Drop for CallState {
    fn drop(&mut self) {
        capability::ended(self);
    }
}
