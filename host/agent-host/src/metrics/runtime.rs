//! What the async runtime is doing, asked at every scrape.

use prometheus::core::Collector;
use tokio::runtime::Handle;

use super::family::{Readings, Series};

/// A queue that stays long, or tasks that only grow in number, are what a lag of the event loop is in Node.
const SERIES: [Series<Totals>; 3] = [
    Series::gauge("tokio_workers", "Threads of the async runtimes.", |runtime| Some(runtime.workers as f64)),
    Series::gauge("tokio_alive_tasks", "Tasks that have not ended.", |runtime| Some(runtime.tasks as f64)),
    Series::gauge("tokio_global_queue_depth", "Tasks that wait for any thread.", |runtime| {
        Some(runtime.queued as f64)
    }),
];

/// What all runtimes have together.
#[derive(Default)]
struct Totals {
    workers: usize,
    tasks: usize,
    queued: usize,
}

pub(super) fn collector(prefix: &str, runtimes: Vec<Handle>) -> prometheus::Result<impl Collector + use<>> {
    let add = |sum: Totals, runtime: &Handle| {
        let runtime = runtime.metrics();
        Totals {
            workers: sum.workers + runtime.num_workers(),
            tasks: sum.tasks + runtime.num_alive_tasks(),
            queued: sum.queued + runtime.global_queue_depth(),
        }
    };
    Readings::new(prefix, SERIES, move || Some(runtimes.iter().fold(Totals::default(), add)))
}
