//! Requests by route, method and status, and the connections that they come on.

use http_edge::AnsweredRequest;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts};

use super::buckets::LONG_SECONDS;
use super::described::Register;
use super::exemplars::Exemplars;

const SECONDS: &str = "agent_http_request_duration_seconds";

/// The route of a request that none was found for: what callers make up is no label.
const UNMATCHED: &str = "unmatched";

/// Counts what happens at the edge.
#[derive(Debug)]
pub struct HttpMetrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
    pub(super) exemplars: Exemplars,
    open: IntGauge,
    displaced: IntCounter,
    waits: IntCounter,
}

impl HttpMetrics {
    /// All series at zero.
    pub fn register(registry: &impl Register) -> prometheus::Result<Self> {
        let requests = Opts::new(
            "agent_http_requests_total",
            "Requests by route, method and status; 499: the client went away before its answer was ready",
        );
        let seconds =
            HistogramOpts::new(SECONDS, "Duration of requests by route").buckets(LONG_SECONDS.to_vec());
        Ok(Self {
            requests: registry.keep(IntCounterVec::new(requests, &["route", "method", "status"]))?,
            seconds: registry.keep(HistogramVec::new(seconds, &["route"]))?,
            exemplars: Exemplars::of(SECONDS, Some("route"), &LONG_SECONDS),
            open: registry.keep(IntGauge::new(
                "agent_http_connections",
                "Connections that are open, of MAX_CONNECTIONS",
            ))?,
            displaced: registry.keep(IntCounter::new(
                "agent_http_connections_displaced_total",
                "Idle connections that were closed because all of MAX_CONNECTIONS were taken",
            ))?,
            waits: registry.keep(IntCounter::new(
                "agent_http_connection_waits_total",
                "Times a new connection had to wait, because all of MAX_CONNECTIONS were busy",
            ))?,
        })
    }

    /// A request was answered, or nobody waits for its answer any more.
    pub fn answered(&self, request: &AnsweredRequest<'_>) {
        let route = request.route.unwrap_or(UNMATCHED);
        self.count(route, request.method, request.status);
        let took = request.took.as_secs_f64();
        self.seconds.with_label_values(&[route]).observe(took);
        self.exemplars.note_of(request.trace, route, took);
    }

    /// A request was refused before it was known what it asks for.
    pub(crate) fn refused(&self, status: u16) {
        self.count(UNMATCHED, "unknown", status);
    }

    pub(crate) fn connections_open(&self, count: usize) {
        self.open.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn connection_displaced(&self) {
        self.displaced.inc();
    }

    pub(crate) fn connection_waits(&self) {
        self.waits.inc();
    }

    fn count(&self, route: &str, method: &str, status: u16) {
        self.requests.with_label_values(&[route, method, &status.to_string()]).inc();
    }
}
