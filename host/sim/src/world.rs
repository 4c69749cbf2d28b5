//! What everything in one simulation shares: the stores, the faults, the trace, the counts, and what was
//! promised to clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agent_core::agent_loop::recorded_end;
use agent_core::ports::queue::LEASE;
use agent_core::ports::{Epoch, KeyBounds};
use agent_core::testing::{TestConversations, TestOutbox, TestQueue, TestRuns};
use agent_core::words::{Event, Job, StopReason};
use backends::memory::MemoryIdempotency;
use parking_lot::Mutex;
use run_service::invariants::{self, Broken};
use tokio::time::Instant;

use crate::deployment::Deployment;
use crate::faults::mutation::Mutation;
use crate::faults::{CallKind, Fault, Faults, Kind, Schedule, Server, latency};
use crate::judge::promises::Promises;
use crate::replica::process::Process;
use crate::stores::{Redis, ReferenceKeys};

/// How long Redis answers nobody when it is restarted.
const RESTART: Duration = Duration::from_millis(20);

/// The shortest limit of the service that something slow comes up against: that of a heartbeat's record.
const SHORTEST_LIMIT: Duration = Duration::from_secs(2);

const LATER_IS_HIGHER: &str = "a later claim has a higher epoch";

pub struct World {
    pub seed: u64,
    pub mutation: Option<Mutation>,
    pub deployment: Deployment,
    pub queue: Arc<TestQueue>,
    pub runs: Arc<TestRuns>,
    pub conversations: Arc<TestConversations>,
    pub outbox: Arc<TestOutbox>,
    pub keys: Arc<ReferenceKeys>,
    /// Where queue and keys are, if it forgets.
    pub redis: Option<Arc<Redis>>,
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
    counts: Counts,
    is_quiet: bool,
    fired: Schedule,
    broken: Option<Broken>,
    trace_hash: u64,
    trace: Vec<Line>,
    /// Runs to which something is appended whose answer is not there yet: by whom, and how many events others
    /// can be sure to read meanwhile.
    appending: BTreeMap<String, (String, usize)>,
    dead: BTreeSet<String>,
    /// What calls were about that took longer than they should, and by how much.
    slowed: BTreeMap<String, Duration>,
    /// Servers whose disk is full or that answer nobody, and until when.
    troubled: Vec<(Server, Kind, Instant)>,
    /// Jobs of which a server forgot something.
    undone: BTreeSet<String>,
    forgot_at: Option<Instant>,
    /// By how much a replica's clock was wrong at most.
    most_skew: Duration,
    /// The epoch of the last claim of each job.
    claimed: BTreeMap<String, Epoch>,
    /// The epochs of what was appended.
    epochs: BTreeMap<String, Vec<Epoch>>,
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

/// What a simulation has come to.
#[derive(Debug)]
pub struct Outcome {
    pub broken: Option<Broken>,
    pub counts: Counts,
    /// Of everything that happened, in its order.
    pub trace_hash: u64,
    pub trace: Vec<Line>,
    pub fired: Schedule,
}

/// What is counted of a simulation.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    pub simulated: Duration,
    pub calls: u64,
    pub crashes: u64,
    /// Deaths of a replica that held a job or carried a request's run.
    pub crashes_with_work: u64,
    pub kinds: BTreeMap<Kind, u64>,
    pub reached: BTreeMap<&'static str, u64>,
    /// How many replicas died at which call.
    pub died_at: BTreeMap<&'static str, u64>,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { at, who, what, subject, outcome } = self;
        write!(f, "{:>10.3} s  {who:<14} {what:<26} {subject:<36} {outcome}", at.as_secs_f64())
    }
}

impl World {
    pub fn clock_is_wrong(&self, by: Duration) {
        let mut state = self.state.lock();
        state.most_skew = state.most_skew.max(by);
    }

    /// By how much a replica's clock was wrong at most.
    pub fn most_skew(&self) -> Duration {
        self.state.lock().most_skew
    }

    pub fn new(seed: u64, faults: Faults, mutation: Option<Mutation>, keeps_trace: bool) -> Arc<Self> {
        let deployment = Deployment::of(seed);
        let queue = TestQueue::able(LEASE);
        let is_by_time = deployment.is_on_redis && mutation != Some(Mutation::NumbersGivenTwice);
        let queue = Arc::new(if is_by_time { queue.numbered_by_time() } else { queue });
        let keys = Arc::new(ReferenceKeys::new(Arc::new(MemoryIdempotency::new(KeyBounds::default()))));
        Arc::new(Self {
            seed,
            mutation,
            deployment,
            redis: deployment.is_on_redis.then(|| Redis::of(&queue, &keys)),
            queue,
            keys,
            runs: Arc::default(),
            conversations: Arc::default(),
            outbox: Arc::default(),
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

    /// The next call, how long it takes and what hits it, if that may be.
    pub fn passage(&self, kind: CallKind, may_be: impl Fn(Kind) -> bool) -> Passage {
        let mut state = self.state.lock();
        state.counts.calls += 1;
        let call = state.counts.calls;
        let fault = if state.is_quiet { None } else { self.faults.fault(call, kind) };
        let fault = fault.filter(|fault| may_be(fault.kind));
        if let Some(fault) = fault {
            state.fired.insert(call, fault);
            *state.counts.kinds.entry(fault.kind).or_default() += 1;
        }
        Passage { call, takes: latency(self.seed, call), fault }
    }

    /// From now on nothing fails any more.
    pub fn become_quiet(&self) {
        let mut state = self.state.lock();
        state.is_quiet = true;
        state.troubled.clear();
    }

    /// The disk of that server is full for a while, or it answers nobody.
    pub fn trouble(&self, server: Server, kind: Kind, within: Duration) {
        self.state.lock().troubled.push((server, kind, Instant::now() + within));
    }

    /// Why that server does not do what it is asked, for every replica.
    pub fn refusal(&self, server: Server, only_reads: bool) -> Option<&'static str> {
        let (state, now) = (self.state.lock(), Instant::now());
        let has =
            |kind| state.troubled.iter().any(|(of, by, until)| (*of, *by) == (server, kind) && *until > now);
        if has(Kind::Outage) {
            return Some("connection refused");
        }
        (!only_reads && has(Kind::DiskFull)).then_some("the disk is full")
    }

    /// Redis is restarted, and forgets its last second.
    pub fn restart_redis(&self) {
        let undone = self.redis.as_ref().map(|redis| redis.restart()).unwrap_or_default();
        if !undone.is_empty() {
            self.reached("a server forgot what it had acknowledged");
        }
        // As long as it takes, so that no claim behind it is of the same millisecond as one before it.
        self.trouble(Server::Redis, Kind::Outage, RESTART);
        let mut state = self.state.lock();
        state.forgot_at = Some(Instant::now());
        state.undone.extend(undone);
    }

    /// Whether a server has forgotten something: keys that were claimed within that second are new again.
    pub fn has_forgotten(&self) -> bool {
        self.state.lock().forgot_at.is_some()
    }

    /// Whether a server has forgotten something of the job.
    pub fn is_undone(&self, job_id: &str) -> bool {
        self.state.lock().undone.contains(job_id)
    }

    /// Whether a job may have begun anew, and have come to another end: a server has forgotten something of
    /// it, or it was tried again.
    pub fn has_begun_anew(&self, id: &str) -> bool {
        self.is_undone(id) || self.promises.lock().retried.contains(id)
    }

    /// Whether a server has forgotten something just now, perhaps that somebody has claimed a job, or has
    /// renewed the claim: that worker goes on until it renews it the next time, or its lease ends.
    pub fn are_claims_undone(&self) -> bool {
        self.state.lock().forgot_at.is_some_and(|forgot| forgot.elapsed() < LEASE)
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
        *self.state.lock().counts.reached.entry(what).or_default() += 1;
    }

    /// A process is about to die, with what it has under way.
    pub fn dies(&self, process: &Process, call: &'static str) {
        let has_work = self.queue.held_by(&process.name) + process.work.under_way() > 0;
        let counts = &mut self.state.lock().counts;
        *counts.died_at.entry(call).or_default() += 1;
        counts.crashes += 1;
        counts.crashes_with_work += u64::from(has_work);
    }

    pub fn died(&self, process: &Process) {
        let mut state = self.state.lock();
        // What it had begun to write is there by now, or not at all.
        state.appending.retain(|_, (by, _)| *by != process.name);
        if !process.is_stopped.load(Ordering::Relaxed) {
            state.dead.insert(process.name.clone());
        }
    }

    /// A process has done what it does before it ends. One that has no answer to the end of an attempt counts
    /// as dead all the same.
    pub fn stopped(&self, process: &Process) {
        let mut claims = self.promises.lock().claims.clone();
        claims.retain(|_, claim| claim.by == process.name);
        let is_sure = claims.values().all(|claim| !claim.is_told);
        let is_its = |token: &String, id: &str| self.queue.token_of(id).as_ref() == Some(token);
        claims.retain(|token, claim| !claim.is_told && is_its(token, &claim.job_id));
        let left = claims.into_values().filter_map(|claim| self.queue.find(&claim.job_id));
        let left = left.filter(|job| !self.is_undone(&job.id) && !self.was_slow(job, None));
        // Whoever cancels a run in its journal has its worker leave the job to its lease.
        let has_last = |kept: &[(Epoch, Event)]| kept.last().is_some_and(|(epoch, _)| *epoch == Epoch::FINAL);
        let left = left.filter(|job| !self.runs.look(&job.run_id, has_last));
        self.check(invariants::stopped(&process.name, &left.map(|job| job.id).collect::<Vec<_>>()));
        if is_sure {
            self.note(&process.name, "stopped", "", "in order");
            self.reached("a process stopped in good order");
            process.is_stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the process of that name died.
    pub fn has_died(&self, process: &str) -> bool {
        self.state.lock().dead.contains(process)
    }

    /// A call about this took so much longer than it should, or did not get through for as long.
    pub fn slowed(&self, subject: &str, by: Duration) {
        if !subject.is_empty() {
            *self.state.lock().slowed.entry(subject.to_owned()).or_default() += by;
        }
    }

    /// Whether what is about a job took so much longer than it should that a limit may have come: calls of
    /// its run, which are named after it, of the job itself, or of its conversation.
    pub fn was_slow(&self, job: &Job, conversation: Option<&str>) -> bool {
        let by = |subject: &str| self.state.lock().slowed.get(subject).copied().unwrap_or_default();
        let by = by(&job.id) + conversation.map_or(Duration::ZERO, by);
        by + self.run_slowed_by(&job.run_id) >= SHORTEST_LIMIT
    }

    pub fn was_run_slow(&self, run_id: &str) -> bool {
        self.run_slowed_by(run_id) >= SHORTEST_LIMIT
    }

    fn run_slowed_by(&self, run_id: &str) -> Duration {
        let is_of_run = |subject: &str| {
            subject.strip_prefix(run_id).is_some_and(|call| call.is_empty() || call.starts_with('.'))
        };
        let state = self.state.lock();
        let of_run = state.slowed.range(run_id.to_owned()..).take_while(|(subject, _)| is_of_run(subject));
        of_run.map(|(_, by)| *by).sum()
    }

    /// A job was claimed under that epoch.
    pub fn claimed(&self, job_id: &str, epoch: Epoch) {
        let before = self.state.lock().claimed.insert(job_id.to_owned(), epoch);
        // A claim that the server forgot may be told behind the one that it gave since.
        let is_told_late = before.is_some_and(|before| before > epoch) && self.are_claims_undone();
        self.holds(is_told_late || before.is_none_or(|before| before < epoch), LATER_IS_HIGHER, || {
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

    /// What a simulation has come to that is over.
    pub fn outcome(&self) -> Outcome {
        let State { broken, counts, trace_hash, trace, fired, .. } = std::mem::take(&mut *self.state.lock());
        let counts = Counts { simulated: self.began.elapsed(), ..counts };
        Outcome { broken, counts, trace_hash, trace, fired }
    }

    /// An append begins; until [`Self::appended`] others may read it without all but its first event.
    pub fn appending(&self, run_id: &str, process: &Process) {
        if !self.deployment.is_on_mongo {
            return;
        }
        let length = self.runs.look(run_id, <[_]>::len);
        let mut state = self.state.lock();
        let visible = length + usize::from(state.counts.calls.is_multiple_of(2));
        // What somebody else has just written is read by whoever writes behind it.
        state.appending.insert(run_id.to_owned(), (process.name.clone(), visible));
    }

    /// An append of that process has ended.
    pub fn appended(&self, run_id: &str, process: &Process) {
        let mut state = self.state.lock();
        if state.appending.get(run_id).is_some_and(|(by, _)| *by == process.name) {
            state.appending.remove(run_id);
        }
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

    /// How many events of a run somebody reads who reads beside an append of several.
    pub fn visible(&self, run_id: &str) -> Option<usize> {
        self.state.lock().appending.get(run_id).map(|(_, visible)| *visible)
    }

    /// Whether the journal of a run says that it has come to its answer.
    pub fn has_answer(&self, run_id: &str) -> bool {
        let end = recorded_end(self.events(run_id), None);
        end.ok().flatten().is_some_and(|end| end.stop_reason == StopReason::Completed)
    }

    /// The job that has the run now.
    pub fn job_of(&self, run_id: &str) -> Option<Job> {
        self.queue.look(|job, _| (job.run_id == run_id).then(|| job.clone())).pop()
    }

    /// The events of a run, as the store has them.
    pub fn events(&self, run_id: &str) -> Vec<Event> {
        self.runs.events(run_id)
    }
}
