//! What a call's store carries: the limiter, and what each capability keeps of the call.

use std::sync::Arc;
use std::time::Instant;

use agent_core::ports::ProgressSink;
use agent_core::trace::TraceContext;
use tool_grants::Granted;
use wasmtime_wasi::{WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use crate::capability::ask::AskState;
use crate::capability::clock::ClockState;
use crate::capability::config::ConfigState;
use crate::capability::context::{CallIds, ContextState};
use crate::capability::key_value::KeyValueState;
use crate::capability::log::{LogRate, LogSource, LogState};
use crate::capability::nondeterminism::Nondeterminism;
use crate::capability::progress::ProgressState;
use crate::capability::secrets::SecretsState;
use crate::capability::toolbox::ToolboxState;
use crate::capability::wasi::WasiState;
use crate::capability::wasi_http::HttpState;
use crate::limits::ToolLimits;
use crate::limits::memory_limiter::Limiter;
use crate::limits::progress::Progress;

/// State of one call. Made for it and thrown away after it.
pub(crate) struct CallState {
    pub(crate) limiter: Limiter,
    /// What it may use, where fuel is counted.
    pub(crate) fuel: u64,
    pub(crate) context: ContextState,
    pub(crate) log: LogState,
    pub(crate) clock: ClockState,
    pub(crate) report: ProgressState,
    pub(crate) config: ConfigState,
    pub(crate) secrets: SecretsState,
    /// Dropped before `wasi`, which holds the bodies that its requests still send.
    pub(crate) http: HttpState,
    pub(crate) key_value: KeyValueState,
    pub(crate) toolbox: ToolboxState,
    pub(crate) ask: AskState,
    pub(crate) wasi: WasiState,
}

/// For whom a call is.
pub(crate) struct Caller {
    pub(crate) ids: CallIds,
    pub(crate) attempt: u32,
    /// The user as this component may know it.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) component: Arc<str>,
    pub(crate) tool: Arc<str>,
    pub(crate) deadline: Instant,
    pub(crate) progress: Arc<Progress>,
    pub(crate) log_rate: Arc<LogRate>,
    pub(crate) limits: ToolLimits,
    pub(crate) granted: Option<Arc<Granted>>,
    pub(crate) requests: Option<Arc<tool_egress::Call>>,
    pub(crate) key_value: KeyValueState,
    pub(crate) toolbox: ToolboxState,
    pub(crate) ask: AskState,
    /// Where its clocks and random numbers come from.
    pub(crate) nondeterminism: Nondeterminism,
    /// Where its reports go, if anybody reads them.
    pub(crate) reports: Option<Arc<dyn ProgressSink>>,
}

impl Caller {
    /// The fuel that the call may use.
    pub(crate) fn fuel(&self) -> u64 {
        self.granted.as_ref().and_then(|granted| granted.fuel()).unwrap_or(u64::MAX)
    }
}

impl CallState {
    pub(crate) fn new(caller: Caller) -> Self {
        let fuel = caller.fuel();
        let Caller { ids, attempt, user, trace, component, tool, .. } = caller;
        let Caller {
            deadline,
            progress,
            log_rate,
            limits,
            granted,
            requests,
            key_value,
            toolbox,
            ask,
            nondeterminism,
            reports,
            ..
        } = caller;
        let log = LogState::new(
            &limits,
            LogSource { ids: ids.clone(), component, tool },
            log_rate,
            granted.clone(),
        );
        Self {
            fuel,
            limiter: Limiter::new(limits.memory_bytes, progress.clone()),
            report: ProgressState { log: log.clone(), progress: progress.clone(), reports },
            config: ConfigState { granted: granted.clone() },
            secrets: SecretsState { granted },
            http: HttpState::new(requests, log.clone()),
            key_value,
            toolbox,
            ask,
            wasi: WasiState::new(log.clone(), nondeterminism.clone()),
            log,
            context: ContextState {
                ids,
                attempt,
                user,
                trace,
                deadline,
                nondeterminism: nondeterminism.clone(),
                progress,
            },
            clock: ClockState(nondeterminism),
        }
    }

    /// The state, for a guest that asks for something of the contract: it went on after whatever it was
    /// denied.
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

impl WasiHttpView for CallState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let wasi = self.wasi.view();
        self.http.view(wasi.table)
    }
}
