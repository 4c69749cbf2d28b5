//! Callers that call a tool again and again, each on a task of its own, and what they noticed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use agent_core::ports::{ToolRequest, Toolbox};
use agent_core::words::{ToolCall, ToolReturn};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tool_host::ToolHost;

/// What is called, and with which arguments the next time.
#[derive(Clone, Copy)]
pub(crate) struct Called {
    pub(crate) tool: &'static str,
    pub(crate) arguments: fn(u32) -> Value,
}

/// Callers under way.
pub(crate) struct Callers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<CallerStats>>,
    began: Instant,
    versions: UnboundedReceiver<(String, Instant)>,
}

#[derive(Default)]
pub(crate) struct CallerStats {
    pub(crate) times: Vec<Duration>,
    pub(crate) failed: u32,
    /// What the first one was told that failed.
    pub(crate) failure: Option<String>,
    pub(crate) took: Duration,
    /// Most bytes of linear memory that a call had.
    pub(crate) peak_memory_bytes: u64,
}

impl Callers {
    pub(crate) fn start(host: &Arc<ToolHost>, count: usize, called: Called) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let (seen, versions) = unbounded_channel();
        let numbers = Arc::<AtomicU32>::default();
        let tasks = (0..count).map(|_| {
            let (host, stop, seen, numbers) = (host.clone(), stop.clone(), seen.clone(), numbers.clone());
            let mut caller =
                Caller { host, called, seen, numbers, version: None, stats: CallerStats::default() };
            #[expect(clippy::disallowed_methods, reason = "it ends when the callers are stopped")]
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    caller.call().await;
                }
                caller.stats
            })
        });
        Self { tasks: tasks.collect(), stop, versions, began: Instant::now() }
    }

    /// When the first of them had an answer of that version, by its digest. Versions before it are passed
    /// over.
    pub(crate) async fn first_answer(&mut self, digest: &str) -> Instant {
        let answered = async {
            loop {
                let (component, at) = self.versions.recv().await.expect("the callers are there");
                if component.ends_with(digest) {
                    return at;
                }
            }
        };
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, answered)
            .await
            .unwrap_or_else(|_| panic!("{digest} did not answer in time"))
    }

    pub(crate) async fn stop(self) -> CallerStats {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = CallerStats::default();
        for task in self.tasks {
            all.add(task.await.unwrap());
        }
        all.took = self.began.elapsed();
        all
    }

    /// Lets that many call for a while.
    pub(crate) async fn run(
        host: &Arc<ToolHost>,
        count: usize,
        called: Called,
        time: Duration,
    ) -> CallerStats {
        let callers = Self::start(host, count, called);
        tokio::time::sleep(time).await;
        callers.stop().await
    }
}

struct Caller {
    host: Arc<ToolHost>,
    called: Called,
    seen: UnboundedSender<(String, Instant)>,
    numbers: Arc<AtomicU32>,
    version: Option<String>,
    stats: CallerStats,
}

impl Caller {
    async fn call(&mut self) {
        let arguments = (self.called.arguments)(self.numbers.fetch_add(1, Ordering::Relaxed));
        let call = ToolCall { id: "call_1".into(), name: self.called.tool.into(), arguments };
        let begun = Instant::now();
        let deadline = begun + Duration::from_secs(30);
        let request = ToolRequest::outside_of_runs("0196f0f0-0000-7000-8000-000000000000", &call, deadline);
        // As a run does: the set is taken once, whatever is swapped meanwhile.
        let returned = self.host.everything().call(request).await;
        self.stats.times.push(begun.elapsed());
        self.note(returned);
        // A call that waits for nothing would otherwise keep its thread from the others until a budget of
        // tokio's ends.
        tokio::task::yield_now().await;
    }

    fn note(&mut self, returned: ToolReturn) {
        if returned.receipt.outcome.as_str() != "ok" {
            self.stats.failed += 1;
            self.stats.failure.get_or_insert(returned.content);
        }
        let peak = returned.receipt.detail.and_then(|detail| detail.peak_memory_bytes);
        self.stats.peak_memory_bytes = self.stats.peak_memory_bytes.max(peak.unwrap_or_default());
        if returned.receipt.component != self.version {
            self.version = returned.receipt.component;
            let version = self.version.clone().unwrap_or_default();
            // Nobody listens any more when the last answer comes.
            let _ = self.seen.send((version, Instant::now()));
        }
    }
}

impl CallerStats {
    pub(crate) fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
        self.took += other.took;
        self.peak_memory_bytes = self.peak_memory_bytes.max(other.peak_memory_bytes);
    }

    pub(crate) fn calls_per_second(&self) -> f64 {
        self.times.len() as f64 / self.took.as_secs_f64()
    }
}

/// The time that this share of the calls took at most.
pub(crate) fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    let index = (times.len() as f64 * share) as usize;
    times[index.min(times.len() - 1)]
}
