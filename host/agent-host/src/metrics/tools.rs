//! Tool calls and tool sets.
//!
//! A tool call takes some 20 µs, so counting it must take next to nothing: what a call counts on is looked
//! up by name in an immutable map and then touched with atomic additions.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use agent_core::ports::ToolFault;
use agent_core::words::ToolOutcome;
use arc_swap::ArcSwap;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, exponential_buckets,
};
use tool_host::CallReport;

use super::described::Register;
use super::exemplars::Exemplars;
use super::family::{Family, Kind};

/// From what a call costs when nothing happens in it to the most it may take by default and beyond.
const SECONDS: [f64; 18] = [
    10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5,
    1.0, 10.0, 30.0,
];

/// In the order of their declaration: an outcome is its own index.
const OUTCOMES: [ToolOutcome; 13] = [
    ToolOutcome::Ok,
    ToolOutcome::Failed,
    ToolOutcome::InvalidArguments,
    ToolOutcome::UnknownTool,
    ToolOutcome::Interrupted,
    ToolOutcome::NotRun,
    ToolOutcome::TimedOut,
    ToolOutcome::Trapped,
    ToolOutcome::MemoryLimit,
    ToolOutcome::OutputLimit,
    ToolOutcome::InvalidOutput,
    ToolOutcome::HostError,
    ToolOutcome::Cancelled,
];

const DURATION: &str = "agent_tool_duration_seconds";

/// Stands for a tool that no set was announced with. Labels must not grow with what callers make up.
const UNKNOWN: &str = "unknown";

/// The series of all tools.
pub struct ToolMetrics {
    series: Series,
    pub(super) exemplars: Exemplars,
    known: ArcSwap<Known>,
    /// Made when it is needed, which should be never.
    unknown: OnceLock<Counters>,
    set: Arc<ArcSwap<ToolSet>>,
    swapped: IntCounter,
    failed: IntCounter,
    withdrawn: IntCounterVec,
    secrets_met: IntCounterVec,
    /// Held while a change is taken in, so that two changes cannot overwrite one another.
    changing: Mutex<()>,
}

struct Series {
    calls: IntCounterVec,
    seconds: HistogramVec,
    memory: HistogramVec,
}

/// What the calls of one tool count on.
#[derive(Clone)]
struct Counters {
    calls: [IntCounter; OUTCOMES.len()],
    seconds: Histogram,
    memory: Histogram,
}

/// Every tool that was ever loaded, and under it every component it came from: few, and mostly one. A tool
/// stays when its component goes, because calls under way end later.
type Known = HashMap<String, Vec<(String, Arc<Counters>)>>;

/// What is loaded now. One value, so that a scrape never sees half a change.
#[derive(Default, PartialEq, Eq)]
struct ToolSet {
    /// Tool, component, digest.
    loaded: BTreeSet<[String; 3]>,
    /// File, error.
    faults: BTreeSet<[String; 2]>,
}

impl ToolMetrics {
    /// All series at zero, to be gathered by `registry`.
    pub fn new(registry: &impl Register) -> prometheus::Result<Self> {
        let swaps = Opts::new("agent_tool_swaps_total", "Changes of the tool set, and components refused");
        let swaps = registry.keep(IntCounterVec::new(swaps, &["outcome"]))?;
        let withdrawn = Opts::new(
            "agent_tool_versions_withdrawn_total",
            "Versions that served and were withdrawn by the host because their calls trapped",
        );
        let withdrawn = registry.keep(IntCounterVec::new(withdrawn, &["component"]))?;
        let secrets_met = Opts::new(
            "agent_tool_secrets_met_total",
            "Values of secrets that calls wrote themselves, or were answered by hosts that did not get them",
        );
        let secrets_met = registry.keep(IntCounterVec::new(secrets_met, &["component"]))?;
        let set = Arc::default();
        registry.register(Box::new(ToolSetCollector::new(Arc::clone(&set))?))?;
        let series = Series::register(registry)?;
        Ok(Self {
            unknown: OnceLock::new(),
            series,
            exemplars: Exemplars::of(DURATION, Some("tool"), &SECONDS),
            known: ArcSwap::default(),
            set,
            swapped: swaps.with_label_values(&["swapped"]),
            failed: swaps.with_label_values(&["failed"]),
            withdrawn,
            secrets_met,
            changing: Mutex::new(()),
        })
    }

    /// Counts a call.
    pub fn call_ended(&self, call: &CallReport<'_>) {
        let known = self.known.load();
        let components = known.get(call.tool).map(Vec::as_slice).unwrap_or_default();
        let (tool, counters) = match components.iter().find(|(component, _)| component == call.component) {
            Some((_, counters)) => (call.tool, &**counters),
            None => (UNKNOWN, self.unknown.get_or_init(|| self.series.counters(UNKNOWN, UNKNOWN))),
        };
        if let Some(calls) = counters.calls.get(call.outcome as usize) {
            calls.inc();
        }
        let took = call.duration.as_secs_f64();
        counters.seconds.observe(took);
        self.exemplars.note(tool, took);
        if call.cost.peak_memory_bytes > 0 {
            counters.memory.observe(call.cost.peak_memory_bytes as f64);
        }
    }

    /// Takes in what serves and what does not, before the first call to it. A tool that serves is its name,
    /// the name of its component, and the component's digest.
    ///
    /// Every set of other tools counts as a swap, the first one included, and every fault that was not there
    /// before as a failure.
    pub fn set_changed(&self, loaded: &[(&str, &str, &str)], faults: &[ToolFault]) {
        let _changing = self.changing.lock();
        let strings =
            |&(tool, component, digest): &(&str, &str, &str)| [tool, component, digest].map(str::to_owned);
        let now = ToolSet {
            loaded: loaded.iter().map(strings).collect(),
            faults: faults.iter().map(|fault| [fault.file.clone(), fault.error.clone()]).collect(),
        };
        let before = self.set.load();
        if now.loaded != before.loaded {
            self.swapped.inc();
            self.known.store(Arc::new(self.learn(loaded)));
        }
        self.failed.inc_by(now.faults.difference(&before.faults).count() as u64);
        self.set.store(Arc::new(now));
    }

    /// Counts a version that was withdrawn.
    pub fn version_withdrawn(&self, component: &str) {
        self.withdrawn.with_label_values(&[component]).inc();
    }

    /// Counts values of secrets that a call met where they are not used.
    pub fn secrets_met(&self, component: &str, times: u64) {
        // A component that has gone has no series that anybody looks at, and no call makes one.
        if self.known.load().values().flatten().any(|(known, _)| known == component) {
            self.secrets_met.with_label_values(&[component]).inc_by(times);
        }
    }

    fn learn(&self, loaded: &[(&str, &str, &str)]) -> Known {
        let mut known = Known::clone(&self.known.load());
        for &(tool, component, _) in loaded {
            // At zero, so that the first one is an increase.
            self.withdrawn.with_label_values(&[component]);
            self.secrets_met.with_label_values(&[component]);
            let components = known.entry(tool.to_owned()).or_default();
            if components.iter().all(|(known, _)| known != component) {
                let counters = self.series.counters(tool, component);
                components.push((component.to_owned(), Arc::new(counters)));
            }
        }
        known
    }
}

impl Series {
    fn register(registry: &impl Register) -> prometheus::Result<Self> {
        let calls = Opts::new("agent_tool_calls_total", "Tool calls by how they ended");
        let seconds = HistogramOpts::new(DURATION, "Duration of tool calls").buckets(SECONDS.to_vec());
        let memory = HistogramOpts::new("agent_tool_peak_memory_bytes", "Most memory a tool call had")
            // From one page of WebAssembly to all that it can address.
            .buckets(exponential_buckets(65_536.0, 4.0, 9)?);
        Ok(Self {
            calls: registry.keep(IntCounterVec::new(calls, &["tool", "component", "outcome"]))?,
            seconds: registry.keep(HistogramVec::new(seconds, &["tool"]))?,
            memory: registry.keep(HistogramVec::new(memory, &["tool"]))?,
        })
    }

    /// All of them begin at zero, so that the first failure of a tool is an increase.
    fn counters(&self, tool: &str, component: &str) -> Counters {
        let calls = |outcome: ToolOutcome| self.calls.with_label_values(&[tool, component, outcome.as_str()]);
        Counters {
            calls: OUTCOMES.map(calls),
            seconds: self.seconds.with_label_values(&[tool]),
            memory: self.memory.with_label_values(&[tool]),
        }
    }
}

/// Says at every scrape what is loaded.
struct ToolSetCollector {
    set: Arc<ArcSwap<ToolSet>>,
    loaded: Family,
    faults: Family,
}

impl ToolSetCollector {
    fn new(set: Arc<ArcSwap<ToolSet>>) -> prometheus::Result<Self> {
        let loaded = ("agent_tool_loaded_info", "Tools that serve, and the component each is from");
        let faults = ("agent_tool_component_faults", "Components that could not be loaded");
        Ok(Self {
            set,
            loaded: Family::new(Kind::Gauge, loaded.0, loaded.1, &["tool", "component", "digest"])?,
            faults: Family::new(Kind::Gauge, faults.0, faults.1, &["file"])?,
        })
    }
}

impl Collector for ToolSetCollector {
    fn desc(&self) -> Vec<&Desc> {
        vec![self.loaded.desc(), self.faults.desc()]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let set = self.set.load();
        let loaded = set.loaded.iter().map(|tool| (tool.iter().map(String::as_str).collect(), 1.0));
        // A file may have several faults; it is one sample all the same.
        let files: BTreeSet<_> = set.faults.iter().map(|[file, _]| file.as_str()).collect();
        let faults = files.into_iter().map(|file| (vec![file], 1.0));
        vec![self.loaded.with(loaded), self.faults.with(faults)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_its_own_index() {
        for outcome in OUTCOMES {
            assert_eq!(OUTCOMES.get(outcome as usize), Some(&outcome));
        }
    }
}
