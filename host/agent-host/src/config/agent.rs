//! What the agent may use up, and what stands around it.

use std::time::Duration;

use super::http_url::HttpUrl;
use super::problem::Problems;
use super::reader::{self, Reader, Reported};
use super::service::Variant;
use super::variables::{
    ADMISSION_WAIT_MS, AGENT_CLUSTER_URL, AGENT_TIMEOUT_MS, CIRCUIT_MIN_VOLUME, MAX_CONCURRENT_AGENTS,
    RESULT_CACHE, TOKEN_BUDGET_PER_REQUEST,
};
use super::vars::Vars;

/// What the agent may use up, and what stands around it.
#[derive(Debug, Clone)]
pub struct Agent {
    /// How many may run at once (`MAX_CONCURRENT_AGENTS`). Variant A alone has no limit unless one is set
    /// (decisions, "Open circuit, agent past 30 s").
    pub max_concurrent: Option<usize>,
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
    /// Where gateway requests of high priority go (`AGENT_CLUSTER_URL`).
    pub cluster_url: Option<HttpUrl>,
}

impl Agent {
    /// Reads only the token budget, for commands that run no agent.
    pub fn token_budget_of(vars: &impl Vars) -> Result<u64, Problems> {
        reader::collect(vars, |reader| reader.number(&TOKEN_BUDGET_PER_REQUEST))
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let max_concurrent = reader.number(&MAX_CONCURRENT_AGENTS);
        let is_limited =
            reader.variant().is_some_and(Variant::serves_b) || reader.is_set(&MAX_CONCURRENT_AGENTS);
        let admission_wait = reader.duration(&ADMISSION_WAIT_MS);
        let token_budget = reader.number(&TOKEN_BUDGET_PER_REQUEST);
        let timeout = reader.duration(&AGENT_TIMEOUT_MS);
        let circuit_min_volume = reader.number(&CIRCUIT_MIN_VOLUME);
        let result_cache = reader.switch(&RESULT_CACHE);
        let cluster_url = reader.http_url(&AGENT_CLUSTER_URL);
        if reader.variant().is_some_and(Variant::serves_b) && !reader.is_set(&AGENT_CLUSTER_URL) {
            // Decisions, "Gateway".
            reader.warn("AGENT_CLUSTER_URL is not set: gateway requests of high priority are handled here");
        }
        Ok(Self {
            max_concurrent: Some(max_concurrent?).filter(|_| is_limited),
            admission_wait: admission_wait?,
            token_budget: token_budget?,
            timeout: timeout?,
            circuit_min_volume: circuit_min_volume?,
            result_cache: result_cache?,
            cluster_url: cluster_url?,
        })
    }
}
