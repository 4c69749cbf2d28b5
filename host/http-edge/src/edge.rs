//! What the handlers may use, made once by whoever starts the service.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::invoke::Invoke;
use agent_core::ports::{Probe, Toolbox};

use crate::readiness::Readiness;

/// The dependencies of the handlers.
pub struct Edge {
    /// Answers the callers.
    pub invoke: Arc<dyn Invoke>,
    /// Asked only which components could not be loaded.
    pub toolbox: Arc<dyn Toolbox>,
    /// What the service depends on, in the order of the health report.
    pub probes: Vec<Arc<dyn Probe>>,
    /// Writes the metrics in the text exposition format 0.0.4.
    pub metrics: RenderMetrics,
    /// Whether requests are still wanted.
    pub readiness: Readiness,
    /// Limits and such.
    pub settings: Settings,
}

/// Writes all metrics as they are now. It runs on a thread that serves requests, so it must not wait.
pub type RenderMetrics = Arc<dyn Fn() -> String + Send + Sync>;

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
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // The limit of the Node stack's body parser (decisions, "Body limit").
            max_body_bytes: 102_400,
            // At the body limit that is 5 KiB/s: slower than any network, faster than any slow-loris.
            body_time_limit: Duration::from_secs(20),
            // Half the interval at which orchestrators ask (interface, Limits, "Container probes").
            probe_time_limit: Duration::from_secs(5),
            // Decisions, "Client address".
            trusted_proxies: 0,
        }
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let probes: Vec<_> = self.probes.iter().map(|probe| probe.name()).collect();
        f.debug_struct("Edge")
            .field("probes", &probes)
            .field("readiness", &self.readiness)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
