//! The queue of jobs. Asking it takes a round trip, which a scrape must not wait for, so it is asked beside
//! the scrapes and they show the last answer.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::JobQueue;
use agent_core::words::{Depth, WaitKind};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use super::family::{Family, Kind, Readings, Series};

/// How often the queue is asked: as often as Prometheus scrapes by default.
const INTERVAL: Duration = Duration::from_secs(15);

const SERIES: [Series<Depth>; 6] = [
    Series::gauge("agent_queue_waiting_jobs", "Jobs that wait for a worker.", |depth| {
        Some(depth.waiting as f64)
    }),
    Series::gauge("agent_queue_active_jobs", "Jobs that are being worked on, in all processes.", |depth| {
        Some(depth.active as f64)
    }),
    Series::gauge("agent_queue_delayed_jobs", "Jobs that wait until their next attempt is due.", |depth| {
        Some(depth.delayed as f64)
    }),
    Series::gauge(
        "agent_queue_parked_jobs",
        "Jobs whose runs wait for somebody, counted to 10,000; on Redis they are among the delayed ones.",
        |depth| Some(depth.parked as f64),
    ),
    Series::gauge(
        "agent_queue_oldest_parked_seconds",
        "How old the oldest job is whose run waits for somebody; 0 when none does, and on Redis.",
        |depth| Some(depth.oldest_parked.unwrap_or_default().as_secs_f64()),
    ),
    Series::gauge(
        "agent_queue_oldest_waiting_seconds",
        "For how long the job that has waited longest has waited; 0 when none does.",
        |depth| Some(depth.oldest_waiting.unwrap_or_default().as_secs_f64()),
    ),
];

/// Two gauges for each kind of waits.
struct ByKind {
    last: QueueDepth,
    runs: Family,
    oldest: Family,
}

impl ByKind {
    fn new(last: QueueDepth) -> prometheus::Result<Self> {
        let runs = "Runs that wait for an approval, an answer, a time, an event or a child run, by that kind: in a \
                    database counted to 10,000. One that waits for several kinds counts in each";
        let oldest = "For how long the run has waited that has waited longest for something of this kind, or beside that \
                      for something else; 0 when none does";
        Ok(Self {
            last,
            runs: Family::new(Kind::Gauge, "agent_queue_waits", runs, &["kind"])?,
            oldest: Family::new(Kind::Gauge, "agent_queue_oldest_wait_seconds", oldest, &["kind"])?,
        })
    }
}

impl Collector for ByKind {
    fn desc(&self) -> Vec<&Desc> {
        vec![self.runs.desc(), self.oldest.desc()]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(depth) = self.last.get() else { return Vec::new() };
        let of_each = WaitKind::ALL.map(|kind| (kind.as_str(), depth.waits_for(kind)));
        let runs = of_each.map(|(kind, depth)| (vec![kind], depth.runs as f64));
        let oldest =
            of_each.map(|(kind, depth)| (vec![kind], depth.oldest.unwrap_or_default().as_secs_f64()));
        vec![self.runs.with(runs), self.oldest.with(oldest)]
    }
}

/// The queue as it was when it was last asked; nothing while it does not answer.
#[derive(Debug, Clone, Default)]
pub struct QueueDepth(Arc<Mutex<Option<Depth>>>);

impl QueueDepth {
    pub(super) fn collector(&self) -> prometheus::Result<impl Collector + use<>> {
        let last = self.clone();
        Readings::new("", SERIES, move || last.get())
    }

    pub(super) fn collector_by_kind(&self) -> prometheus::Result<impl Collector + use<>> {
        ByKind::new(self.clone())
    }

    /// Asks the queue again and again. Never ends by itself.
    pub async fn watch(self, queue: Arc<dyn JobQueue>) {
        loop {
            let depth = queue.depth().await;
            if let Err(error) = &depth {
                // Whoever works with the queue says so louder.
                tracing::debug!(%error, "the queue does not say how many jobs it has");
            }
            self.set(depth.ok());
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn get(&self) -> Option<Depth> {
        *self.0.lock()
    }

    fn set(&self, depth: Option<Depth>) {
        *self.0.lock() = depth;
    }
}

#[cfg(test)]
mod tests {
    use agent_core::words::{OpenKinds, WaitDepth};
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn what_waits_is_shown_by_kind_with_the_age_of_the_oldest() {
        let depth = QueueDepth::default();
        let collector = depth.collector_by_kind().unwrap();
        assert!(collector.collect().is_empty(), "nothing is known");
        let mut known = Depth::default();
        let oldest = Some(Duration::from_secs(60));
        known.add_waits(OpenKinds { bits: 0b1001, since: 0 }, WaitDepth { runs: 3, oldest });
        known.add_waits(OpenKinds { bits: 0b0001, since: 0 }, WaitDepth { runs: 2, oldest: None });
        depth.set(Some(known));
        let mut text = String::new();
        TextEncoder::new().encode_utf8(&collector.collect(), &mut text).unwrap();
        for line in [
            "agent_queue_waits{kind=\"approval\"} 5",
            "agent_queue_waits{kind=\"event\"} 3",
            "agent_queue_waits{kind=\"question\"} 0",
            "agent_queue_oldest_wait_seconds{kind=\"approval\"} 60",
            "agent_queue_oldest_wait_seconds{kind=\"child\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
