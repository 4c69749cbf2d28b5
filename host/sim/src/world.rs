//! What everything in one simulation shares: the stores, the faults, the trace, the counts, and what was
//! promised to clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Epoch, KeyBounds};
use agent_core::testing::{TestConversations, TestRuns};
use agent_core::words::Event;
use backends::memory::MemoryIdempotency;
use parking_lot::Mutex;
use run_service::invariants::{self, Broken};
use tokio::time::Instant;

use crate::faults::{CallKind, Fault, Faults, Schedule, latency};
use crate::mutation::Mutation;
use crate::process::Process;
use crate::promises::Promises;
use crate::stores::{ReferenceOutbox, ReferenceQueue};

const LATER_IS_HIGHER: &str = "a later claim has a higher epoch";

pub struct World {
    pub seed: u64,
    pub mutation: Option<Mutation>,
    pub queue: Arc<ReferenceQueue>,
    pub runs: Arc<TestRuns>,
    pub conversations: Arc<TestConversations>,
    pub outbox: Arc<ReferenceOutbox>,
    pub keys: Arc<MemoryIdempotency>,
    /// What clients were promised and what they have seen.
    pub promises: Mutex<Promises>,
    /// Versions of the tools' component and of the policy.
    pub tools: Mutex<ToolVersion>,
    faults: Faults,
    keeps_trace: bool,
    began: Instant,
    state: Mutex<State>,
}

/// Which tools serve at this moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolVersion {
    pub component: u64,
    pub policy: u64,
}

#[derive(Default)]
struct State {
    calls: u64,
    is_quiet: bool,
    fired: Schedule,
    kinds: [u64; 8],
    crashes: Crashes,
    reached: BTreeMap<&'static str, u64>,
    /// Where replicas died: the call, and whether it was carried out.
    died_at: BTreeMap<&'static str, u64>,
    broken: Option<Broken>,
    trace_hash: u64,
    trace: Vec<Line>,
    /// Appends whose answer is not there yet: how many events the journal had before.
    appending: BTreeMap<String, usize>,
    dead: BTreeSet<String>,
    /// The epoch of the last claim of each job.
    claimed: BTreeMap<String, Epoch>,
    /// The epochs of what was appended.
    epochs: BTreeMap<String, Vec<Epoch>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crashes {
    pub all: u64,
    /// Deaths of a replica that held a job or carried a request's run.
    pub with_work: u64,
}

/// One line of the time line.
#[derive(Debug, Clone)]
pub struct Line {
    pub at: Duration,
    pub who: String,
    pub what: &'static str,
    pub subject: String,
    pub outcome: String,
}

/// A call on its way.
#[derive(Debug, Clone, Copy)]
pub struct Passage {
    pub call: u64,
    pub takes: Duration,
    pub fault: Option<Fault>,
}

/// What is counted of a simulation.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    pub simulated: Duration,
    pub calls: u64,
    pub crashes: Crashes,
    pub kinds: [u64; 8],
    pub reached: BTreeMap<&'static str, u64>,
    pub died_at: BTreeMap<&'static str, u64>,
}

impl World {
    pub fn new(seed: u64, faults: Faults, mutation: Option<Mutation>, keeps_trace: bool) -> Arc<Self> {
        Arc::new(Self {
            seed,
            mutation,
            queue: Arc::default(),
            runs: Arc::default(),
            conversations: Arc::default(),
            outbox: Arc::default(),
            keys: Arc::new(MemoryIdempotency::new(KeyBounds::default())),
            promises: Mutex::default(),
            tools: Mutex::default(),
            faults,
            keeps_trace,
            began: Instant::now(),
            state: Mutex::default(),
        })
    }

    /// Whether this bug is put in.
    pub fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// The next call, how long it takes and what hits it.
    pub fn passage(&self, name: &'static str, kind: CallKind) -> Passage {
        let mut state = self.state.lock();
        state.calls += 1;
        let call = state.calls;
        let fault = if state.is_quiet { None } else { self.faults.fault(call, kind) };
        if let Some(fault) = fault {
            state.fired.insert(call, fault);
            state.kinds[fault.kind()] += 1;
            if matches!(fault, Fault::CrashBefore | Fault::CrashBehind) {
                *state.died_at.entry(name).or_default() += 1;
            }
        }
        Passage { call, takes: latency(self.seed, call), fault }
    }

    /// From now on nothing fails any more.
    pub fn become_quiet(&self) {
        self.state.lock().is_quiet = true;
    }

    pub fn is_quiet(&self) -> bool {
        self.state.lock().is_quiet
    }

    /// A line of the trace. What is not kept counts in its hash all the same.
    pub fn note(&self, who: &str, what: &'static str, subject: &str, outcome: &str) {
        let at = self.began.elapsed();
        let mut state = self.state.lock();
        let millis = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        let mut hash = state.trace_hash ^ millis;
        for part in [who, what, subject, outcome] {
            for byte in part.bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            hash = hash.rotate_left(5);
        }
        state.trace_hash = hash;
        if self.keeps_trace {
            let (who, subject, outcome) = (who.to_owned(), subject.to_owned(), outcome.to_owned());
            state.trace.push(Line { at, who, what, subject, outcome });
        }
    }

    /// A recovery path or a race that was really taken.
    pub fn reached(&self, what: &'static str) {
        *self.state.lock().reached.entry(what).or_default() += 1;
    }

    pub fn died(&self, process: &Process) {
        let has_work = self.queue.held_by(&process.name) + process.requests_under_way() > 0;
        let mut state = self.state.lock();
        state.dead.insert(process.name.clone());
        state.crashes.all += 1;
        state.crashes.with_work += u64::from(has_work);
    }

    /// Whether the process of that name died.
    pub fn has_died(&self, process: &str) -> bool {
        self.state.lock().dead.contains(process)
    }

    /// Whether anything took longer than it should.
    pub fn was_slow(&self) -> bool {
        let is_slow =
            |fault: &Fault| matches!(fault, Fault::Late(_) | Fault::SlowAnswer(_) | Fault::Partition(_));
        self.state.lock().fired.values().any(is_slow)
    }

    /// A job was claimed under that epoch.
    pub fn claimed(&self, job_id: &str, epoch: Epoch) {
        let before = self.state.lock().claimed.insert(job_id.to_owned(), epoch);
        self.holds(before.is_none_or(|before| before < epoch), LATER_IS_HIGHER, || {
            format!("job {job_id}: {before:?}, then {epoch:?}")
        });
    }

    /// Takes note of a promise that was broken, the first one only.
    pub fn check(&self, checked: Result<(), Broken>) {
        if let Err(broken) = checked {
            self.note("judge", broken.rule, "", &broken.what);
            self.state.lock().broken.get_or_insert(broken);
        }
    }

    pub fn holds(&self, is_kept: bool, rule: &'static str, what: impl FnOnce() -> String) {
        if !is_kept {
            self.check(Err(Broken { rule, what: what() }));
        }
    }

    pub fn broken(&self) -> Option<Broken> {
        self.state.lock().broken.clone()
    }

    pub fn trace_hash(&self) -> u64 {
        self.state.lock().trace_hash
    }

    pub fn take_trace(&self) -> Vec<Line> {
        std::mem::take(&mut self.state.lock().trace)
    }

    pub fn fired(&self) -> Schedule {
        self.state.lock().fired.clone()
    }

    pub fn counts(&self) -> Counts {
        let state = self.state.lock();
        Counts {
            simulated: self.began.elapsed(),
            calls: state.calls,
            crashes: state.crashes,
            kinds: state.kinds,
            reached: state.reached.clone(),
            died_at: state.died_at.clone(),
        }
    }

    /// An append begins; until [`Self::appended`] others may read a part of it.
    pub fn appending(&self, run_id: &str) {
        let length = self.runs.look(run_id, <[_]>::len);
        self.state.lock().appending.entry(run_id.to_owned()).or_insert(length);
    }

    /// An append has ended; its events are in the journal if `is_stored`. Judges the journal.
    pub fn appended(&self, run_id: &str) {
        self.state.lock().appending.remove(run_id);
    }

    /// Judges a journal that has grown under that epoch.
    pub fn judge_journal(&self, run_id: &str, epoch: Epoch) {
        let checked = self.runs.look(run_id, |events| {
            let mut state = self.state.lock();
            let epochs = state.epochs.entry(run_id.to_owned()).or_default();
            epochs.resize(events.len().max(epochs.len()), epoch);
            invariants::fencing(epochs.iter().copied())?;
            invariants::journal(events.iter().map(|(_, event)| event))
        });
        let run = |broken: Broken| Broken { what: format!("{run_id}: {}", broken.what), ..broken };
        self.check(checked.map_err(run));
    }

    /// How many events of a run a reader may miss who reads beside an append of several.
    pub fn known_before_append(&self, run_id: &str) -> Option<usize> {
        self.state.lock().appending.get(run_id).copied()
    }

    /// The events of a run, as the store has them.
    pub fn events(&self, run_id: &str) -> Vec<Event> {
        self.runs.events(run_id)
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).finish_non_exhaustive()
    }
}
