//! What one agent run may use up, and the policies around it: permits, circuit breaker, cache, cluster.

use std::path::PathBuf;
use std::time::Duration;

use agent_core::circuit_breaker::DEFAULT_MIN_VOLUME;
use run_service::jobs::DEFAULT_WORKERS;
use run_service::layers::{DEFAULT_PLACES, DEFAULT_WAIT};

use super::context::Variant;
use super::http_url::HttpUrl;
use super::reader::{Reader, Reported};
use super::setting::{HOUR, millis, milliseconds, number, one_of, path, settings, url};
use super::token_budget;

settings! {
    /// How many agents may run at once, those of requests and jobs together. Variant A alone has no limit
    /// unless this is set.
    MAX_CONCURRENT_AGENTS = number(1, 100_000).or_number(|| DEFAULT_PLACES as u64);
    /// How many jobs the process works on at once. Each of them is one of MAX_CONCURRENT_AGENTS as well.
    JOB_WORKERS = number(1, 1_000).or_number(|| DEFAULT_WORKERS as u64);
    /// How long a request waits for a free agent before it is turned away.
    ADMISSION_WAIT_MS = milliseconds(0, HOUR).or_number(|| millis(DEFAULT_WAIT));
    /// How long one agent run may take, an attempt at a job included. The one setting to raise for a slow
    /// local model: LLM_TIMEOUT_MS follows it.
    AGENT_TIMEOUT_MS = milliseconds(1, HOUR).or_number(|| 30_000);
    /// How many runs the circuit breaker must have seen before it may open.
    CIRCUIT_MIN_VOLUME = number(0, 1_000_000).or_number(|| DEFAULT_MIN_VOLUME);
    /// Whether results are kept and given again to the same question.
    RESULT_CACHE = one_of(&["on", "off"]).or("on");
    /// A file with what the model is told before every conversation, at most 64 KiB of UTF-8. It is read when
    /// the service starts.
    AGENT_INSTRUCTIONS = path();
    /// Whether runs that can wait have the tools `ask_user`, `wait_until`, `wait_for_event` and `run_agent`
    /// to do so. The last needs `NODE_WORKERS` off where the queue is in Redis.
    WAIT_TOOLS = one_of(&["off", "on"]).or("off");
    /// Where gateway requests of high priority go.
    AGENT_CLUSTER_URL = url(&["https", "http"]);
}

/// What one agent run may use up, and the policies around it.
#[derive(Debug, Clone)]
pub struct Agent {
    /// How many may run at once (`MAX_CONCURRENT_AGENTS`). Variant A alone has no limit unless one is set
    /// (host/docs/interface/decisions-http.md#capacity-and-time).
    pub max_concurrent: Option<usize>,
    /// How many jobs are worked on at once (`JOB_WORKERS`).
    pub job_workers: usize,
    /// How long a request waits for its turn (`ADMISSION_WAIT_MS`).
    pub admission_wait: Duration,
    /// Most tokens of one run (`TOKEN_BUDGET_PER_REQUEST`).
    pub token_budget: u64,
    /// How long one run may take (`AGENT_TIMEOUT_MS`).
    pub timeout: Duration,
    /// How many runs the circuit breaker needs to judge (`CIRCUIT_MIN_VOLUME`).
    pub circuit_min_volume: u64,
    /// Whether results are kept (`RESULT_CACHE`).
    pub result_cache: bool,
    /// The file with what the model is told first (`AGENT_INSTRUCTIONS`).
    pub instructions: Option<PathBuf>,
    /// Whether runs have tools to wait (`WAIT_TOOLS`).
    pub wait_tools: bool,
    /// Where gateway requests of high priority go (`AGENT_CLUSTER_URL`).
    pub cluster_url: Option<HttpUrl>,
}

impl Agent {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let is_limited =
            reader.variant().is_some_and(Variant::serves_b) || reader.is_set(&MAX_CONCURRENT_AGENTS);
        let max_concurrent = reader.number(&MAX_CONCURRENT_AGENTS);
        if reader.variant().is_some_and(Variant::serves_b) && !reader.is_set(&AGENT_CLUSTER_URL) {
            // host/docs/interface/decisions-http.md#gateway-and-serverless.
            reader.warn("AGENT_CLUSTER_URL is not set: gateway requests of high priority are handled here");
        }
        read_all!(Self {
            max_concurrent: max_concurrent.map(|count| Some(count).filter(|_| is_limited)),
            job_workers: reader.number(&JOB_WORKERS),
            admission_wait: reader.duration(&ADMISSION_WAIT_MS),
            token_budget: token_budget::read(reader),
            timeout: reader.duration(&AGENT_TIMEOUT_MS),
            circuit_min_volume: reader.number(&CIRCUIT_MIN_VOLUME),
            result_cache: reader.switch(&RESULT_CACHE),
            instructions: reader.path(&AGENT_INSTRUCTIONS),
            wait_tools: reader.switch(&WAIT_TOOLS),
            cluster_url: reader.http_url(&AGENT_CLUSTER_URL),
        })
    }
}
