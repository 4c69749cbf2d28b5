//! The three series of the interface (host/docs/interface/errors-and-limits.md#metrics), and the `Invoke`
//! that feeds them.

use std::time::Instant;

use boxed_async::boxed_async;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Opts};
use run_service::layers::{Ask, Invoke, InvokeError, RunAnswer};

use super::buckets::LONG_SECONDS;
use super::described::Register;
use super::exemplars::Exemplars;
use crate::config::Environment;

/// The three series (host/docs/interface/errors-and-limits.md#metrics), each with the labels `environment`
/// and `version`.
#[derive(Debug, Clone)]
pub(super) struct Invocations {
    total: IntCounter,
    seconds: Histogram,
    pub(super) exemplars: Exemplars,
    active: IntGauge,
}

impl Invocations {
    pub(super) fn register(registry: &impl Register, environment: Environment) -> prometheus::Result<Self> {
        let labelled = |name, help| {
            Opts::new(name, help)
                .const_label("environment", environment.as_str())
                .const_label("version", env!("CARGO_PKG_VERSION"))
        };
        let seconds = HistogramOpts {
            common_opts: labelled("agent_duration_seconds", "Agent execution duration"),
            buckets: LONG_SECONDS.to_vec(),
        };
        let total = labelled("agent_invocations_total", "Total agent invocations");
        let active = labelled("agent_active_requests", "Requests in progress");
        Ok(Self {
            total: registry.keep(IntCounter::with_opts(total))?,
            seconds: registry.keep(Histogram::with_opts(seconds))?,
            exemplars: Exemplars::of("agent_duration_seconds", None, &LONG_SECONDS),
            active: registry.keep(IntGauge::with_opts(active))?,
        })
    }

    fn begin(&self) -> Active<'_> {
        self.total.inc();
        self.active.inc();
        Active { series: self, start: Instant::now() }
    }
}

/// An invocation is in progress as long as this is held: until its answer, its panic, or the end of its
/// caller's patience.
struct Active<'a> {
    series: &'a Invocations,
    start: Instant,
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.series.active.dec();
        let took = self.start.elapsed().as_secs_f64();
        self.series.seconds.observe(took);
        self.series.exemplars.note("", took);
    }
}

/// Counts invocations.
#[derive(Debug)]
pub struct Metered<I> {
    inner: I,
    series: Invocations,
}

impl<I> Metered<I> {
    pub(super) fn new(inner: I, series: Invocations) -> Self {
        Self { inner, series }
    }
}

#[boxed_async]
impl<I: Invoke> Invoke for Metered<I> {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        let _active = self.series.begin();
        self.inner.invoke(ask).await
    }
}
