//! What stands around a run: the result cache, rate windows, the circuit, admission, records, attempts at
//! jobs.

use std::sync::Arc;
use std::time::Duration;

use agent_core::circuit_breaker::{CircuitState, SharedCircuit};
use agent_core::ports::{
    AttemptOutcome, CacheUse, Hits, Observer, RateError, RateWindows, WaitDecided, Window, WindowKind,
};
use agent_core::words::WaitKind;
use boxed_async::boxed_async;
use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts};
use run_service::layers::Admission;

use super::buckets::LONG_SECONDS;
use super::described::Register;
use super::exemplars::Exemplars;
use super::family::{Readings, Series};

/// From ten seconds to a week: people decide.
const DECISION_SECONDS: [f64; 8] = [10.0, 60.0, 300.0, 1_800.0, 7_200.0, 28_800.0, 86_400.0, 604_800.0];

const ATTEMPT_SECONDS: &str = "agent_job_attempt_duration_seconds";

/// Counts what the core reports.
#[derive(Debug)]
pub struct ServiceMetrics {
    cache: IntCounterVec,
    limited: IntCounterVec,
    rate_fallbacks: IntCounter,
    records_lost: IntCounter,
    model_retries: IntCounterVec,
    attempts: IntCounterVec,
    attempt_seconds: HistogramVec,
    pub(super) exemplars: Exemplars,
    task_restarts: IntCounterVec,
    waits_begun: IntCounterVec,
    decision_seconds: HistogramVec,
}

impl ServiceMetrics {
    pub(super) fn register(registry: &impl Register) -> prometheus::Result<Self> {
        let counters = |name, help, label| registry.keep(IntCounterVec::new(Opts::new(name, help), &[label]));
        let seconds = HistogramOpts::new(ATTEMPT_SECONDS, "Duration of attempts at jobs")
            .buckets(LONG_SECONDS.to_vec());
        let this = Self {
            cache: counters(
                "agent_cache_requests_total",
                "Uses of the result cache by what it did",
                "outcome",
            )?,
            limited: counters(
                "agent_rate_limited_total",
                "Requests that a rate window turned away",
                "window",
            )?,
            rate_fallbacks: registry.keep(IntCounter::new(
                "agent_rate_fallbacks_total",
                "Requests counted in this process only, because the shared windows failed",
            ))?,
            records_lost: registry.keep(IntCounter::new(
                "agent_records_lost_total",
                "Runs whose journal or record was given up before it was stored",
            ))?,
            model_retries: counters(
                "agent_model_retries_total",
                "Model calls that failed and were made again",
                "model",
            )?,
            attempts: counters("agent_job_attempts_total", "Attempts at jobs by how they ended", "outcome")?,
            attempt_seconds: registry.keep(HistogramVec::new(seconds, &["outcome"]))?,
            exemplars: Exemplars::of(ATTEMPT_SECONDS, Some("outcome"), &LONG_SECONDS),
            task_restarts: counters(
                "agent_task_restarts_total",
                "Background tasks that panicked and were begun anew",
                "task",
            )?,
            waits_begun: counters(
                "agent_waits_begun_total",
                "Waits that runs began, by what is waited for",
                "kind",
            )?,
            decision_seconds: registry.keep(decision_seconds())?,
        };
        this.begin_at_zero();
        Ok(this)
    }

    /// A series that begins at zero shows its first increase; one that begins at one hides it.
    fn begin_at_zero(&self) {
        for outcome in [CacheUse::Hit, CacheUse::Miss, CacheUse::Shared, CacheUse::Failed] {
            self.cache.with_label_values(&[outcome.as_str()]);
        }
        for kind in WaitKind::ALL {
            self.waits_begun.with_label_values(&[kind.as_str()]);
        }
        for kind in WindowKind::ALL {
            self.limited.with_label_values(&[kind.as_str()]);
        }
        for outcome in ATTEMPT_OUTCOMES {
            self.attempts.with_label_values(&[outcome.as_str()]);
        }
    }
}

fn decision_seconds() -> prometheus::Result<HistogramVec> {
    let help = "How long runs waited until it was decided, by what was waited for and what was decided: approve, reject, \
                edit, answer, ended of a child run, or expired";
    let opts = HistogramOpts::new("agent_wait_decision_seconds", help).buckets(DECISION_SECONDS.to_vec());
    HistogramVec::new(opts, &["kind", "decision"])
}

impl ServiceMetrics {
    /// A background task panicked and was begun anew so often: 0 when it is first begun.
    pub(crate) fn task_restarted(&self, task: &'static str, count: u64) {
        self.task_restarts.with_label_values(&[task]).inc_by(count);
    }
}

const ATTEMPT_OUTCOMES: [AttemptOutcome; 6] = [
    AttemptOutcome::Completed,
    AttemptOutcome::Failed,
    AttemptOutcome::Cancelled,
    AttemptOutcome::HandedBack,
    AttemptOutcome::Parked,
    AttemptOutcome::Lost,
];

impl ServiceMetrics {
    /// A series that begins at zero for the retries of this model.
    pub(super) fn expect_retries_of(&self, model: &str) {
        self.model_retries.with_label_values(&[model]);
    }
}

impl Observer for ServiceMetrics {
    fn wait_began(&self, kind: WaitKind) {
        self.waits_begun.with_label_values(&[kind.as_str()]).inc();
    }

    fn wait_decided(&self, decided: WaitDecided<'_>) {
        let labels = [decided.wait.kind.as_str(), decided.outcome()];
        self.decision_seconds.with_label_values(&labels).observe(decided.after().as_secs_f64());
    }

    fn cache_used(&self, used: CacheUse) {
        self.cache.with_label_values(&[used.as_str()]).inc();
    }

    fn rates_fell_back(&self) {
        self.rate_fallbacks.inc();
    }

    fn records_lost(&self, count: u64) {
        self.records_lost.inc_by(count);
    }

    fn model_asked_again(&self, model: &str) {
        self.model_retries.with_label_values(&[model]).inc();
    }

    fn attempt_ended(&self, end: AttemptOutcome, took: Duration) {
        self.attempts.with_label_values(&[end.as_str()]).inc();
        self.attempt_seconds.with_label_values(&[end.as_str()]).observe(took.as_secs_f64());
        self.exemplars.note(end.as_str(), took.as_secs_f64());
    }
}

/// Counts whom the windows turn away.
pub struct MeteredWindows {
    inner: Arc<dyn RateWindows>,
    limited: IntCounterVec,
}

impl MeteredWindows {
    pub(super) fn new(inner: Arc<dyn RateWindows>, series: &ServiceMetrics) -> Self {
        Self { inner, limited: series.limited.clone() }
    }
}

#[boxed_async]
impl RateWindows for MeteredWindows {
    async fn hit(&self, windows: &[Window<'_>]) -> Result<Vec<Hits>, RateError> {
        let hits = self.inner.hit(windows).await?;
        for (window, hits) in windows.iter().zip(&hits) {
            // Nobody is turned away whose window is only read.
            if window.cost > 0 && hits.exceed(window.limit) {
                self.limited.with_label_values(&[window.kind.as_str()]).inc();
            }
        }
        Ok(hits)
    }
}

/// The circuit and the admission as they are now.
type Gates = (SharedCircuit, Admission);

const GATES: [Series<Gates>; 5] = [
    Series::gauge(
        "agent_circuit_state",
        "Where the agent's circuit breaker stands: 0 closed, 1 half open, 2 open.",
        |(circuit, _)| Some(as_number(circuit.state())),
    ),
    Series::counter(
        "agent_circuit_opened_total",
        "How often the agent's circuit breaker opened, after trials that failed as well.",
        |(circuit, _)| Some(circuit.transitions().opened as f64),
    ),
    Series::counter(
        "agent_circuit_closed_total",
        "How often the agent's circuit breaker closed again.",
        |(circuit, _)| Some(circuit.transitions().closed as f64),
    ),
    Series::gauge(
        "agent_admission_in_use",
        "Agents that run, of MAX_CONCURRENT_AGENTS where that applies.",
        |(_, admission)| Some(admission.in_use() as f64),
    ),
    Series::gauge(
        "agent_admission_waiting",
        "Requests and jobs that wait for a free agent.",
        |(_, admission)| Some(admission.waiting() as f64),
    ),
];

/// Where a circuit stands, as it stands in metrics.
pub(super) fn as_number(state: CircuitState) -> f64 {
    match state {
        CircuitState::Closed => 0.0,
        CircuitState::HalfOpen => 1.0,
        CircuitState::Open => 2.0,
    }
}

/// Reads the circuit and the admission at every scrape.
pub(super) fn gates(circuit: SharedCircuit, admission: Admission) -> prometheus::Result<impl Collector> {
    Readings::new("", GATES, move || Some((circuit.clone(), admission.clone())))
}
