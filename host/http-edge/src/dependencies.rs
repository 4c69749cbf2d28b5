//! What the handlers may use, made once by whoever starts the service.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use agent_core::ports::{
    Cluster, IdempotencyStore, JobQueue, Probe, RateWindows, ResultCache, RunStore, Spawn, ToolAdmin, Toolbox,
};
use agent_core::trace::TraceContext;
use axum::Router;
use run_service::conversations::Conversations;
use run_service::direct_calls::DirectCalls;
use run_service::jobs::Jobs;
use run_service::layers::Invoke;
use run_service::streams::{RunStreams, StreamPermits};
use run_service::waits::Waits;
use run_service::webhooks::Webhooks;

use crate::middleware::refusals::Rules;
use crate::openapi::Described;
use crate::origins::{Hosts, Origins};
use crate::readiness::Readiness;
use crate::tokens::Tokens;

/// The dependencies of the handlers: those of each variant that is served, and what all of them share.
pub struct Edge {
    /// The dependencies of Variant A, if it is served.
    pub a: Option<VariantA>,
    /// The dependencies of Variant B, if it is served.
    pub b: Option<VariantB>,
    /// Writes the metrics.
    pub metrics: RenderMetrics,
    /// Whether requests are still wanted.
    pub readiness: Readiness,
    /// Is told of every request that was answered, or that nobody waits for any more.
    pub observe: ObserveRequest,
    /// Where idempotency keys are kept.
    pub idempotency: Idempotency,
    /// Whose pages may call from a browser.
    pub origins: Origins,
    /// Under which names requests are answered.
    pub hosts: Hosts,
    /// Limits and such.
    pub settings: Settings,
}

/// Where idempotency keys are kept, and what carries requests out that have one.
#[derive(Clone)]
pub struct Idempotency {
    /// Keeps the keys.
    pub store: Arc<dyn IdempotencyStore>,
    /// Runs what goes on when its client has left.
    pub spawn: Arc<dyn Spawn>,
}

/// The name of the task that serves a WebSocket. Shutdown is to wait for those as it does for connections.
pub const SOCKET_TASK: &str = "websocket";

/// What Variant A needs.
pub struct VariantA {
    /// Answers the callers.
    pub invoke: Arc<dyn Invoke>,
    /// Answers those who want events; without it they get the plain answer.
    pub streams: Option<RunStreams>,
    /// Asked only which components do not serve.
    pub toolbox: Arc<dyn Toolbox>,
    /// What the service depends on, in the order of the health report.
    pub probes: Vec<Arc<dyn Probe>>,
}

/// What Variant B needs.
pub struct VariantB {
    /// Answers the callers.
    pub invoke: Arc<dyn Invoke>,
    /// Answers those who want events; without it they get the plain answer.
    pub streams: Option<RunStreams>,
    /// Takes the work that nobody waits for.
    pub jobs: Jobs,
    /// What jobs wait for, and who decides.
    pub waits: Waits,
    /// What was said in earlier runs of users.
    pub conversations: Conversations,
    /// Where the ends of jobs are sent; absent when nothing can be sent.
    pub webhooks: Option<Webhooks>,
    /// What an administrator may invalidate; absent when no results are kept.
    pub cache: Option<Arc<dyn ResultCache>>,
    /// Counts requests. It has its own way out when a store fails, so that an error is a surprise.
    pub windows: Arc<dyn RateWindows>,
    /// Takes gateway requests of high priority; absent when they are handled here.
    pub cluster: Option<Arc<dyn Cluster>>,
    /// Verifies who is calling.
    pub tokens: Tokens,
    /// Runs a trivial query.
    pub database: Arc<dyn Probe>,
    /// Pings the key-value store.
    pub key_value: Arc<dyn Probe>,
    /// Sends a short message to the model.
    pub llm: Arc<dyn Probe>,
    /// Asked whether the tools are prepared, and how those of a caller are called.
    pub toolbox: Arc<dyn Toolbox>,
    /// Calls tools for MCP clients.
    pub tool_calls: DirectCalls,
    /// Everybody's runs, for administrators.
    pub runs: Arc<dyn RunStore>,
    /// Everybody's jobs, for administrators.
    pub queue: Arc<dyn JobQueue>,
    /// Shows and changes which tools serve, for administrators; without it nothing under `/admin/tools` is
    /// served.
    pub tool_admin: Option<Arc<dyn ToolAdmin>>,
    /// How long a request waits at most for a run that a job goes on with.
    pub run_timeout: Duration,
    /// Answers clients of OpenAI; absent when nobody does (`OPENAI_API`).
    pub openai: Option<Dialect>,
    /// Whether the stores have the tables that are needed: a database that was down when the service started
    /// gets them as soon as it is there.
    pub prepared: Arc<AtomicBool>,
    /// Whether `NODE_ENV` is `production`: then clients learn nothing of what goes wrong in here.
    pub production: bool,
}

/// The operations of Variant B in the form that other clients know: routes of another crate. Their requests
/// count in the same windows.
#[derive(Clone, Copy)]
pub struct Dialect {
    /// Where they are nested, with a slash at both ends.
    pub prefix: &'static str,
    /// The routes, and what the document says of them.
    pub routes: RoutesOverB,
}

/// Makes routes over the operations of Variant B, within these rules.
pub type RoutesOverB = fn(&Arc<RouteState<VariantB>>, Rules) -> (Router, Vec<Described>);

/// Writes all metrics as they are now. It runs on a thread that serves requests, so it must not wait.
pub type RenderMetrics = Arc<dyn Fn(MetricsFormat) -> String + Send + Sync>;

/// How metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Prometheus' text exposition format 0.0.4.
    Text,
    /// OpenMetrics 1.0.0, which has exemplars.
    OpenMetrics,
}

/// Counts requests. It runs on a thread that serves requests, so it must not wait.
pub type ObserveRequest = Arc<dyn Fn(&AnsweredRequest<'_>) + Send + Sync>;

/// A request and what became of it. Every field has few values, whatever callers send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweredRequest<'a> {
    /// The pattern of its path, such as `/api/agent/jobs/{job_id}`; none when no route has it.
    pub route: Option<&'a str>,
    /// One of the methods that HTTP knows, or `other`.
    pub method: &'static str,
    /// 499 when the client went away before its answer was ready.
    pub status: u16,
    /// Until its answer was ready.
    pub took: Duration,
    /// Where it stands in traces.
    pub trace: Option<TraceContext>,
}

/// How many requests there may be within a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// So many.
    pub requests: u64,
    /// Whole seconds.
    pub period: Duration,
}

/// How often one may call what is under `/api/`, `/admin/` and `/v1/`, and `/mcp`. The defaults are the
/// interface's (host/docs/interface/errors-and-limits.md#limits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimits {
    /// Of one address: everything under the two counts, reading jobs included.
    pub address: RateLimit,
    pub user: RateLimit,
    /// Requests of one user whose token has the tier `premium`, within the same period.
    pub premium_requests: u64,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            address: RateLimit { requests: 100, period: Duration::from_mins(15) },
            user: RateLimit { requests: 10, period: Duration::from_mins(1) },
            premium_requests: 100,
        }
    }
}

/// What an operator may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Most bytes a request body may have (`MAX_BODY_BYTES`).
    pub max_body_bytes: usize,
    /// How long a client may take to send a body, from the first byte we wait for to the last.
    pub body_time_limit: Duration,
    /// How long one check of a health report may take.
    pub probe_time_limit: Duration,
    /// How many proxies stand in front of the service and append to `X-Forwarded-For` (`TRUST_PROXY`).
    pub trusted_proxies: usize,
    /// How often one may call.
    pub rates: RateLimits,
    /// Most WebSockets of all users at once (`MAX_WEBSOCKETS`).
    pub max_websockets: usize,
    /// Whether answers are passed on whole (AWS Lambda): streams without an end of their own are refused or
    /// short.
    pub whole_answers: bool,
}

/// One variant's share of the [`Edge`]: the state of its handlers.
pub struct RouteState<V> {
    pub variant: V,
    pub readiness: Readiness,
    pub settings: Settings,
    pub idempotency: Idempotency,
    /// When the edge was made, which is when the process began as far as clients can tell.
    pub began: Instant,
    /// Counts streams.
    pub streams: StreamPermits,
    /// Counts the WebSockets of each user, and all of them.
    pub sockets: StreamPermits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // The limit of the Node stack's body parser (host/docs/interface/decisions-http.md#bodies).
            max_body_bytes: 102_400,
            // At the body limit that is 5 KiB/s: slower than any network, faster than any slow-loris.
            body_time_limit: Duration::from_secs(20),
            // Half the interval at which orchestrators ask (host/docs/interface/errors-and-limits.md#limits).
            probe_time_limit: Duration::from_secs(5),
            // host/docs/interface/decisions-http.md#callers.
            trusted_proxies: 0,
            rates: RateLimits::default(),
            // Each keeps what was said until its last response, at most some 300 KiB.
            max_websockets: 256,
            whole_answers: false,
        }
    }
}
