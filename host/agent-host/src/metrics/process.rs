//! What the process uses up, read from `/proc` at every scrape.
//!
//! Names, units and texts are those of the Node stack's default metrics
//! (host/docs/interface/node-clients.md#metrics), so that dashboards made for it go on working.

use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo as _};
use prometheus::core::Collector;

use super::family::{Readings, Series};

const SERIES: [Series<Usage>; 9] = [
    Series::counter("process_cpu_user_seconds_total", "Total user CPU time spent in seconds.", |usage| {
        Some(usage.user_seconds)
    }),
    Series::counter("process_cpu_system_seconds_total", "Total system CPU time spent in seconds.", |usage| {
        Some(usage.system_seconds)
    }),
    Series::counter(
        "process_cpu_seconds_total",
        "Total user and system CPU time spent in seconds.",
        |usage| Some(usage.user_seconds + usage.system_seconds),
    ),
    Series::gauge(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        |usage| usage.start_time,
    ),
    Series::gauge("process_resident_memory_bytes", "Resident memory size in bytes.", |usage| {
        Some(usage.resident_bytes)
    }),
    Series::gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", |usage| {
        Some(usage.virtual_bytes)
    }),
    Series::gauge(
        "process_heap_bytes",
        "Resident anonymous memory in bytes: heap, stacks and the memory of tools, without mapped files.",
        |usage| usage.heap_bytes,
    ),
    Series::gauge("process_open_fds", "Number of open file descriptors.", |usage| usage.open_fds),
    Series::gauge("process_max_fds", "Maximum number of open file descriptors.", |usage| usage.max_fds),
];

/// Reads `/proc`. A sandbox may hide it; then the other metrics are there all the same.
pub(super) fn collector(prefix: &str) -> prometheus::Result<impl Collector + use<>> {
    let start_time = start_time();
    Readings::new(prefix, SERIES, move || Usage::read(start_time).ok())
}

/// To be asked once. It is counted from the time of the boot, which is another one after each step of the
/// clock, and which `procfs` keeps for each thread as that first saw it: a later answer, or one of another
/// thread, would look like another start.
fn start_time() -> Option<f64> {
    let stat = Process::myself().and_then(|process| process.stat()).ok()?;
    let boot = procfs::boot_time_secs().ok()?;
    Some(boot as f64 + seconds(stat.starttime))
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / procfs::ticks_per_second() as f64
}

/// What the process has used up and has in use.
struct Usage {
    user_seconds: f64,
    system_seconds: f64,
    start_time: Option<f64>,
    resident_bytes: f64,
    virtual_bytes: f64,
    heap_bytes: Option<f64>,
    open_fds: Option<f64>,
    max_fds: Option<f64>,
}

impl Usage {
    fn read(start_time: Option<f64>) -> ProcResult<Self> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let anonymous_kib = process.status().ok().and_then(|status| status.rssanon);
        let max_fds = process.limits().ok().map(|limits| limits.max_open_files.soft_limit);
        Ok(Self {
            user_seconds: seconds(stat.utime),
            system_seconds: seconds(stat.stime),
            start_time,
            resident_bytes: stat.rss_bytes().get() as f64,
            virtual_bytes: stat.vsize as f64,
            // prom-client shows VmData, which counts address space: tools reserve hundreds of megabytes of
            // it.
            heap_bytes: anonymous_kib.map(|kib| kib as f64 * 1024.0),
            open_fds: process.fd_count().ok().map(|count| count as f64),
            max_fds: max_fds.and_then(|limit| match limit {
                LimitValue::Value(count) => Some(count as f64),
                LimitValue::Unlimited => None,
            }),
        })
    }
}
