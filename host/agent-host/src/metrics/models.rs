//! Model calls, and the `Model` that counts them.

use std::sync::Arc;
use std::time::Instant;

use agent_core::circuit_breaker::SharedCircuit;
use agent_core::ports::{Model, ModelError, ModelRequest};
use agent_core::words::ModelReply;
use boxed_async::boxed_async;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts};

use super::buckets::LONG_SECONDS;
use super::described::Register;
use super::exemplars::Exemplars;
use super::family::{Family, Kind};
use super::service::as_number;

const SECONDS: &str = "agent_model_duration_seconds";

/// The series of all models.
pub(super) struct ModelMetrics {
    calls: IntCounterVec,
    tokens: IntCounterVec,
    cached_tokens: IntCounterVec,
    seconds: HistogramVec,
    pub(super) exemplars: Exemplars,
}

impl ModelMetrics {
    pub(super) fn register(registry: &impl Register) -> prometheus::Result<Self> {
        let calls = Opts::new("agent_model_calls_total", "Model calls by how they ended");
        let tokens = Opts::new("agent_model_tokens_total", "Tokens that providers say they billed");
        let cached = Opts::new(
            "agent_model_cached_tokens_total",
            "Input tokens that providers had kept from earlier calls",
        );
        let seconds = HistogramOpts::new(SECONDS, "Duration of model calls").buckets(LONG_SECONDS.to_vec());
        Ok(Self {
            calls: registry.keep(IntCounterVec::new(calls, &["model", "outcome"]))?,
            tokens: registry.keep(IntCounterVec::new(tokens, &["model", "kind"]))?,
            cached_tokens: registry.keep(IntCounterVec::new(cached, &["model"]))?,
            seconds: registry.keep(HistogramVec::new(seconds, &["model"]))?,
            exemplars: Exemplars::of(SECONDS, Some("model"), &LONG_SECONDS),
        })
    }
}

/// Counts what one model is asked.
///
/// The label `model` is the name the model has here, never the one in a reply: that one is the provider's to
/// choose. Placed around the retries it counts questions, placed inside them it counts attempts.
pub struct MeteredModel {
    inner: Arc<dyn Model>,
    calls: IntCounterVec,
    input_tokens: IntCounter,
    output_tokens: IntCounter,
    cached_tokens: IntCounter,
    seconds: Histogram,
    exemplars: Exemplars,
}

impl MeteredModel {
    pub(super) fn new(inner: Arc<dyn Model>, series: &ModelMetrics) -> Self {
        let name = inner.name();
        for outcome in OUTCOMES {
            // A series that begins at zero shows its first increase; one that begins at one hides it.
            series.calls.with_label_values(&[name, outcome]);
        }
        Self {
            calls: series.calls.clone(),
            input_tokens: series.tokens.with_label_values(&[name, "input"]),
            output_tokens: series.tokens.with_label_values(&[name, "output"]),
            cached_tokens: series.cached_tokens.with_label_values(&[name]),
            seconds: series.seconds.with_label_values(&[name]),
            exemplars: series.exemplars.clone(),
            inner,
        }
    }
}

const OUTCOMES: [&str; 8] =
    ["ok", "timeout", "unreachable", "unavailable", "rate_limited", "refused", "malformed", DROPPED];

/// The caller stopped waiting.
const DROPPED: &str = "dropped";

fn outcome(result: &Result<ModelReply, ModelError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(error) => error.kind(),
    }
}

#[boxed_async]
impl Model for MeteredModel {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let mut call = Call { model: self, start: Instant::now(), outcome: DROPPED };
        let result = self.inner.complete(request).await;
        call.outcome = outcome(&result);
        if let Ok(ModelReply { usage: Some(usage), .. }) = &result {
            self.input_tokens.inc_by(usage.input_tokens);
            self.output_tokens.inc_by(usage.output_tokens);
            self.cached_tokens.inc_by(usage.cached_tokens);
        }
        result
    }
}

/// A call under way. It is counted when it is dropped, so that none is forgotten.
struct Call<'a> {
    model: &'a MeteredModel,
    start: Instant,
    outcome: &'static str,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        // One look-up per model call is nothing beside the call.
        self.model.calls.with_label_values(&[self.model.name(), self.outcome]).inc();
        let took = self.start.elapsed().as_secs_f64();
        self.model.seconds.observe(took);
        self.model.exemplars.note(self.model.name(), took);
    }
}

/// What is known of one provider, read at every scrape.
pub struct ProviderState {
    /// The model's name, as in `LLM_MODEL`.
    pub model: String,
    /// How many tools it refuses to be shown.
    pub refused_tools: Box<dyn Fn() -> usize + Send + Sync>,
    /// The circuit before it, when there is a second one to ask instead.
    pub circuit: Option<SharedCircuit>,
}

/// The state of every provider.
pub(super) struct Providers {
    states: Vec<ProviderState>,
    refused_tools: Family,
    circuit: Family,
}

impl Providers {
    pub(super) fn new(states: Vec<ProviderState>) -> prometheus::Result<Self> {
        let gauge = |name, help| Family::new(Kind::Gauge, name, help, &["model"]);
        Ok(Self {
            states,
            refused_tools: gauge(
                "agent_model_refused_tools",
                "Tools that requests go without, because the provider refuses them",
            )?,
            circuit: gauge(
                "agent_model_circuit_state",
                "Where the circuit breaker before the first provider stands: 0 closed, 1 half open, 2 open",
            )?,
        })
    }
}

impl Collector for Providers {
    fn desc(&self) -> Vec<&Desc> {
        vec![self.refused_tools.desc(), self.circuit.desc()]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let refused =
            self.states.iter().map(|state| (vec![state.model.as_str()], (state.refused_tools)() as f64));
        let circuits = self.states.iter().filter_map(|state| {
            let circuit = state.circuit.as_ref()?;
            Some((vec![state.model.as_str()], as_number(circuit.state())))
        });
        let families = [self.refused_tools.with(refused), self.circuit.with(circuits)];
        families.into_iter().filter(|family| !family.get_metric().is_empty()).collect()
    }
}
