//! What is counted, in Prometheus' text exposition format, and with exemplars in OpenMetrics'
//! (`open_metrics`).
//!
//! - `invocations`: the three series of the interface (host/docs/interface/errors-and-limits.md#metrics).
//!   `outcomes`: what runs came to. `models`, `tools`: what a run spends its time on.
//! - `http`: requests by route and status, and connections. `service`, `queue`: what stands around a run.
//!   `retention`: what is removed of what has ended.
//! - `process`, `runtime`: what the process uses up, read at every scrape.
//! - `telemetry`: what was lost of the log and of the traces.
//! - `family`: samples that are known only when they are asked for. `described`: all metrics by name, for
//!   their reference.
//!
//! A label's values are bounded: names of the configuration, of loaded components, or words of this code.
//! Nothing that a caller sends or a provider answers becomes a label.
//!
//! What does not belong here: the endpoint and its content type, which are http-edge's.

mod buckets;
mod described;
mod exemplars;
mod family;
mod http;
mod invocations;
mod models;
mod open_metrics;
mod outcomes;
#[cfg(target_os = "linux")]
mod process;
mod queue;
mod retention;
mod runtime;
mod service;
mod telemetry;
#[cfg(test)]
mod tests;
mod tools;

use std::sync::Arc;

use agent_core::circuit_breaker::SharedCircuit;
use agent_core::ports::{Model, RateWindows};
use http_edge::MetricsFormat;
use prometheus::TextEncoder;
use run_service::layers::Admission;
use tokio::runtime::Handle;
use tokio::time::Instant;

pub use described::{Described, Register};
pub use http::HttpMetrics;
pub use invocations::Metered;
pub use models::{MeteredModel, ProviderState};
pub use outcomes::CountedOutcomes;
pub use queue::QueueDepth;
pub use retention::RetentionMetrics;
pub use service::{MeteredWindows, ServiceMetrics};
pub use tools::ToolMetrics;

use crate::config::Environment;
use described::DescribedRegistry;
use exemplars::Exemplars;
use invocations::Invocations;
use models::{ModelMetrics, Providers};
use outcomes::Outcomes;

/// All series of the process.
pub struct Metrics {
    registry: DescribedRegistry,
    invocations: Invocations,
    outcomes: Outcomes,
    models: ModelMetrics,
    tools: Arc<ToolMetrics>,
    service: Arc<ServiceMetrics>,
    http: Arc<HttpMetrics>,
    retention: Arc<RetentionMetrics>,
}

impl Metrics {
    /// All series at zero. `process_prefix` stands before the names of the process's own (`METRICS_PREFIX`);
    /// `runtimes` are those whose tasks are counted.
    pub fn new(
        environment: Environment,
        process_prefix: &str,
        runtimes: Vec<Handle>,
    ) -> prometheus::Result<Self> {
        let registry = DescribedRegistry::default();
        #[cfg(target_os = "linux")]
        registry.register(Box::new(process::collector(process_prefix)?))?;
        registry.register(Box::new(runtime::collector(process_prefix, runtimes)?))?;
        registry.register(Box::new(telemetry::log()?))?;
        registry.register(Box::new(telemetry::traces()?))?;
        Ok(Self {
            invocations: Invocations::register(&registry, environment)?,
            outcomes: Outcomes::register(&registry)?,
            models: ModelMetrics::register(&registry)?,
            tools: Arc::new(ToolMetrics::new(&registry)?),
            service: Arc::new(ServiceMetrics::register(&registry)?),
            http: Arc::new(HttpMetrics::register(&registry)?),
            retention: Arc::new(RetentionMetrics::register(&registry)?),
            registry,
        })
    }

    /// Every metric that a process can have, by name.
    pub fn described(process_prefix: &str, handle: &Handle) -> prometheus::Result<Vec<Described>> {
        let metrics = Self::new(Environment::Development, process_prefix, vec![handle.clone()])?;
        metrics.show_providers(Vec::new())?;
        metrics.show_gates(SharedCircuit::new(0, || Instant::now().into_std()), Admission::unlimited())?;
        metrics.show_queue()?;
        Ok(metrics.registry.into_described())
    }

    /// Everything as it is now. Reads a few files of `/proc` and waits for nothing.
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        if let Err(error) = TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text) {
            // Only a family without a name or without samples can fail, and `gather` gives neither.
            tracing::error!(error = &error as &dyn std::error::Error, "not all metrics could be written");
        }
        text
    }

    /// The metrics in the form that a scrape asks for.
    pub fn render_as(&self, format: MetricsFormat) -> String {
        match format {
            MetricsFormat::Text => self.render(),
            MetricsFormat::OpenMetrics => open_metrics::render(&self.registry.gather(), &self.exemplars()),
        }
    }

    fn exemplars(&self) -> [Exemplars; 5] {
        [
            self.invocations.exemplars.clone(),
            self.models.exemplars.clone(),
            self.tools.exemplars.clone(),
            self.service.exemplars.clone(),
            self.http.exemplars.clone(),
        ]
    }

    /// Counts what `inner` answers.
    pub fn metered<I>(&self, inner: I) -> Metered<I> {
        Metered::new(inner, self.invocations.clone())
    }

    /// Counts what becomes of everything that `inner` is asked. Belongs around what turns runs away.
    pub fn judged<I>(&self, inner: I) -> CountedOutcomes<I> {
        CountedOutcomes::new(inner, self.outcomes.clone())
    }

    /// Counts what `inner` is asked, under the name it has now.
    pub fn metered_model(&self, inner: Arc<dyn Model>) -> MeteredModel {
        self.service.expect_retries_of(inner.name());
        MeteredModel::new(inner, &self.models)
    }

    /// Shows what is known of the providers from now on.
    pub fn show_providers(&self, providers: Vec<ProviderState>) -> prometheus::Result<()> {
        self.registry.register(Box::new(Providers::new(providers)?))
    }

    /// Where the core reports what it does around runs.
    pub fn service(&self) -> Arc<ServiceMetrics> {
        Arc::clone(&self.service)
    }

    /// Where requests and connections are counted.
    pub fn http(&self) -> Arc<HttpMetrics> {
        Arc::clone(&self.http)
    }

    /// Where sweeps are reported.
    pub fn retention(&self) -> Arc<RetentionMetrics> {
        Arc::clone(&self.retention)
    }

    /// Counts whom `inner` turns away.
    pub fn metered_windows(&self, inner: Arc<dyn RateWindows>) -> MeteredWindows {
        MeteredWindows::new(inner, &self.service)
    }

    /// Shows the circuit and the admission from now on.
    pub fn show_gates(&self, circuit: SharedCircuit, admission: Admission) -> prometheus::Result<()> {
        self.registry.register(Box::new(service::gates(circuit, admission)?))
    }

    /// Shows a queue from now on: the answer has to be fed by [`QueueDepth::watch`].
    pub fn show_queue(&self) -> prometheus::Result<QueueDepth> {
        let depth = QueueDepth::default();
        self.registry.register(Box::new(depth.collector()?))?;
        self.registry.register(Box::new(depth.collector_by_kind()?))?;
        Ok(depth)
    }

    /// Where tool calls and tool sets are reported.
    pub fn tools(&self) -> Arc<ToolMetrics> {
        Arc::clone(&self.tools)
    }
}
