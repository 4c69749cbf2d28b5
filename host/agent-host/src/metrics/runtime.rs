//! What the async runtime is doing, asked at every scrape.

use prometheus::core::Collector;
use tokio::runtime::{Handle, RuntimeMetrics};

use super::family::{Kind, Readings, Series};

/// A queue that stays long, or tasks that only grow in number, are what a lag of the event loop is in Node.
const SERIES: [Series<RuntimeMetrics>; 3] = [
    Series {
        name: "tokio_workers",
        kind: Kind::Gauge,
        help: "Threads of the async runtime.",
        value: |runtime| Some(runtime.num_workers() as f64),
    },
    Series {
        name: "tokio_alive_tasks",
        kind: Kind::Gauge,
        help: "Tasks that have not ended.",
        value: |runtime| Some(runtime.num_alive_tasks() as f64),
    },
    Series {
        name: "tokio_global_queue_depth",
        kind: Kind::Gauge,
        help: "Tasks that wait for any thread.",
        value: |runtime| Some(runtime.global_queue_depth() as f64),
    },
];

/// Asks `runtime`.
pub(super) fn collector(prefix: &str, runtime: Handle) -> Result<impl Collector + use<>, prometheus::Error> {
    Readings::new(prefix, SERIES, move || Some(runtime.metrics()))
}
