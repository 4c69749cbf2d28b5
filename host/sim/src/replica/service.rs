//! The real service over the ports of one process: the layers of `agent-host/src/composition/invoke.rs` in
//! their order, without what only counts.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent_core::circuit_breaker::{DEFAULT_MIN_VOLUME, SharedCircuit};
use agent_core::ports::{JobQueue, Journal, Model, Probe, RunStore, Spawn, Toolbox, Unobserved};
use backends::memory::MemoryWindows;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_edge::VariantB;
use http_edge::testing::Well;
use run_service::conversations::Conversations;
use run_service::direct_calls::{DirectCalls, WaitingCalls};
use run_service::jobs::{CancelledRuns, Jobs, Worker, WorkerContext, recover};
use run_service::journal::{Backlog, LastEventsBehind, RetryingJournal, WriteBehind};
use run_service::layers::{
    Admission, Admitted, Agent, Breaker, ConversationTurns, Deadline, Heartbeat, Invoke, Parkable,
    RateChecked, Recorded, RecordedStart, ShutdownChecked,
};
use run_service::live::{LiveJournal, LiveRuns};
use run_service::runs::Runs;
use run_service::shutdown::Shutdown;
use run_service::streams::{RunStores, RunStreams};
use run_service::waits::Waits;
use run_service::webhooks::{Dispatcher, DispatcherContext, Webhooks};
use tokio::time::{Instant, sleep};

use crate::faults::gate::Gate;
use crate::faults::mutation::Mutation;
use crate::judge::promises::told;
use crate::peers::{Provider, Tools};
use crate::ports::{Ported, Receiver};
use crate::replica::edge::{Edge, tokens};
use crate::replica::process::{Counted, Process};

/// `AGENT_TIMEOUT_MS` of the simulated deployment.
const TIMEOUT: Duration = Duration::from_secs(30);

/// `ADMISSION_WAIT_MS`, and how many runs a replica carries out at once.
const ADMISSION_WAIT: Duration = Duration::from_secs(5);
const PERMITS: usize = 4;

const WORKERS: usize = 2;

/// After how many of these a process is told to stop, and for how many of those it drains, by chance.
const STOPPED_AFTER: Duration = Duration::from_millis(150);
const DRAIN: Duration = Duration::from_secs(7);

/// What `SHUTDOWN_TIMEOUT_MS` leaves for requests and workers, and how long tasks of their own may take.
const REQUESTS_END: Duration = Duration::from_secs(26);
const CUT_OFF: Duration = Duration::from_secs(28);
const CANCELLED_RUNS: Duration = Duration::from_secs(1);

/// Within which runs that have ended are written where nothing is lost: the flusher itself gives up later.
const FLUSHED_WITHIN: Duration = Duration::from_secs(4);

/// How often a restarted process looks for what its predecessor held: less often than in life, as most lives
/// end before it finds anything.
const RECOVERY_PAUSE: Duration = Duration::from_millis(400);

pub struct Service {
    pub process: Arc<Process>,
    pub jobs: Jobs,
    pub waits: Waits,
    pub streams: RunStreams,
    /// Requests that are answered when their run has ended.
    pub invoke: Arc<dyn Invoke>,
    pub calls: DirectCalls,
    pub webhooks: Webhooks,
    runs: Runs,
    parts: Parts,
    edge: OnceLock<Edge>,
    /// What works off jobs and webhooks, and what writes runs that have ended, until it is told to stop.
    workers: Counted,
    flushes: Counted,
    flushing: Shutdown,
}

/// What every stack is built from.
struct Parts {
    gate: Gate,
    model: Arc<dyn Model>,
    toolbox: Arc<dyn Toolbox>,
    store: Arc<dyn RunStore>,
    queue: Arc<dyn JobQueue>,
    conversations: Conversations,
    behind: WriteBehind,
    spawn: Arc<dyn Spawn>,
    live: LiveRuns,
    circuit: SharedCircuit,
    admission: Admission,
}

impl Service {
    /// The service of a process, and the tasks that go on beside its requests.
    pub fn begin(gate: &Gate) -> (Arc<Self>, Vec<BoxFuture<'static, ()>>) {
        let world = &gate.world;
        let store: Arc<dyn RunStore> = Ported::new(gate, &world.runs);
        let queue: Arc<dyn JobQueue> = Ported::new(gate, &world.queue);
        let (behind, flusher) = WriteBehind::new(store.clone(), Backlog::default(), Arc::new(Unobserved));
        let parts = Parts::new(gate, store.clone(), queue.clone(), behind);
        let stopping = gate.process.shutdown.stopping().clone();
        let context = parts.for_jobs();
        let ended = CancelledRuns::new(context.journal.clone(), parts.behind.clone());
        let jobs = Jobs::new(queue.clone()).until(stopping.clone()).recorded_in(store.clone());
        let jobs = jobs.watched_in(parts.live.clone()).ending(ended);
        let waits = Waits::new(queue.clone(), store, parts.toolbox.clone());
        let (outbox, sender) = (Ported::new(gate, &world.outbox), Arc::new(Receiver(gate.clone())));
        let dispatcher = Dispatcher::new(DispatcherContext {
            outbox: outbox.clone(),
            jobs: jobs.clone(),
            waits: waits.clone(),
            sender: sender.clone(),
            render: |job, _waits| told(job),
        });
        let (workers, flushes, flushing) = (Counted::default(), Counted::default(), Shutdown::default());
        let mut tasks = work_off(Worker::new(&jobs, context), &gate.process.shutdown, &workers);
        let (followed, name) = (jobs.clone(), gate.process.name.clone());
        tasks.push(async move { followed.follow_changes().await }.boxed());
        tasks.push(recover(queue, name, RECOVERY_PAUSE).boxed());
        let parked = waits.clone();
        tasks.push(async move { parked.recover_decided().await }.boxed());
        let is_bug = world.has(Mutation::FlushedTooSoon);
        let until = if is_bug { stopping.clone() } else { flushing.drained().clone() };
        tasks.push(flushes.task(async move { flusher.run(until).await }));
        tasks.push(workers.task(async move { dispatcher.run(stopping).await }));
        let runs = parts.requests();
        let service = Self {
            process: gate.process.clone(),
            streams: parts.streams().with_jobs(jobs.clone()),
            invoke: parts.with_conversation_turns(Arc::new(RateChecked::new(runs.clone()))),
            calls: parts.calls(&jobs, &waits),
            webhooks: Webhooks::new(outbox, sender),
            edge: OnceLock::new(),
            jobs,
            waits,
            runs,
            parts,
            workers,
            flushes,
            flushing,
        };
        (Arc::new(service), tasks)
    }

    /// Stops the process in a third of all lives, unless all is quiet by then, in the order of
    /// `agent-host/src/composition/graceful_shutdown.rs`: nobody is let in any more, what is under way ends,
    /// jobs are handed back, and what has ended is written.
    pub async fn stop_some_time(self: Arc<Self>, roll: u64) {
        let Gate { world, process } = &self.parts.gate;
        sleep(STOPPED_AFTER * u32::try_from(roll % 64).unwrap_or(0)).await;
        if !(roll >> 8).is_multiple_of(3) || world.is_quiet() {
            return;
        }
        world.note(&process.name, "stops", "", "");
        let (signal, shutdown) = (Instant::now(), &process.shutdown);
        let runs_end = signal + REQUESTS_END + CANCELLED_RUNS;
        shutdown.begin(signal + REQUESTS_END);
        sleep(DRAIN * u32::try_from((roll >> 16) % 3).unwrap_or(0)).await;
        shutdown.end_drain();
        let mut is_in_order = process.work.have_ended(runs_end).await;
        is_in_order &= process.looks.have_ended(runs_end).await;
        is_in_order &= process.runs.have_ended(runs_end).await;
        is_in_order &= self.workers.have_ended(signal + CUT_OFF).await;
        process.runs.have_ended(Instant::now() + CANCELLED_RUNS).await;
        self.flushing.end_drain();
        is_in_order &= self.flushes.have_ended(Instant::now() + FLUSHED_WITHIN).await;
        if is_in_order {
            world.stopped(process);
        }
        process.crash();
    }

    /// What it still holds of runs and callers, for a service that nobody asks anything.
    pub fn held(&self) -> Vec<(&'static str, usize)> {
        let Parts { admission, live, behind, .. } = &self.parts;
        vec![
            ("permits", admission.in_use()),
            ("callers that wait for a permit", admission.waiting()),
            ("runs of requests", self.runs.under_way()),
            ("streamed runs", self.streams.under_way()),
            ("watched runs", live.watched()),
            ("jobs that are worked on or waited for", self.jobs.signals()),
            ("unwritten runs", behind.queued()),
        ]
    }

    /// The HTTP edge, made for the first request: that takes longer than most lives of a process.
    pub fn edge(&self) -> &Edge {
        self.edge.get_or_init(|| Edge::new(&self.parts.gate, self.variant_b()))
    }

    fn variant_b(&self) -> VariantB {
        let (parts, probe) = (&self.parts, || Arc::new(Well) as Arc<dyn Probe>);
        VariantB {
            invoke: self.invoke.clone(),
            streams: Some(self.streams.clone()),
            jobs: self.jobs.clone(),
            waits: self.waits.clone(),
            conversations: parts.conversations.clone(),
            webhooks: Some(self.webhooks.clone()),
            cache: None,
            windows: Arc::new(MemoryWindows::new()),
            cluster: None,
            tokens: tokens(),
            database: probe(),
            key_value: probe(),
            llm: probe(),
            toolbox: parts.toolbox.clone(),
            tool_calls: self.calls.clone(),
            runs: parts.store.clone(),
            queue: parts.queue.clone(),
            tool_admin: None,
            run_timeout: TIMEOUT,
            openai: None,
            prepared: Arc::new(AtomicBool::new(true)),
            production: false,
        }
    }
}

impl Parts {
    fn new(gate: &Gate, store: Arc<dyn RunStore>, queue: Arc<dyn JobQueue>, behind: WriteBehind) -> Self {
        let spawn: Arc<dyn Spawn> = gate.process.clone();
        Self {
            gate: gate.clone(),
            model: Arc::new(Provider(gate.clone())),
            toolbox: Arc::new(Tools(gate.clone())),
            conversations: Conversations::new(Ported::new(gate, &gate.world.conversations), spawn.clone()),
            circuit: SharedCircuit::new(DEFAULT_MIN_VOLUME, || Instant::now().into_std()),
            admission: Admission::new(PERMITS),
            live: LiveRuns::default(),
            behind,
            store,
            queue,
            spawn,
        }
    }

    /// Direct calls, which wait where the release of the process knows how.
    fn calls(&self, jobs: &Jobs, waits: &Waits) -> DirectCalls {
        let stopping = self.gate.process.shutdown.stopping().clone();
        let calls = DirectCalls::new(self.toolbox.clone(), TIMEOUT).until(stopping);
        if !self.gate.process.release.knows_calls_and_children {
            return calls;
        }
        let (jobs, waits, store) = (jobs.clone(), waits.clone(), self.store.clone());
        calls.kept_in(WaitingCalls { runs: self.direct_calls(), jobs, waits, store })
    }

    fn agent(&self, journal: Arc<dyn Journal>) -> Deadline<Agent> {
        let (model, toolbox, world) = (self.model.clone(), self.toolbox.clone(), &self.gate.world);
        let (limits, wait_tools) = (world.deployment.limits(), world.deployment.has_families);
        Deadline::new(Agent { model, toolbox, journal, limits, instructions: None, wait_tools }, TIMEOUT)
    }

    fn for_jobs(&self) -> WorkerContext {
        let journal: Arc<dyn Journal> = Arc::new(RetryingJournal::new(self.store.clone()));
        let journal: Arc<dyn Journal> = Arc::new(LastEventsBehind::new(journal, self.behind.clone()));
        let journal: Arc<dyn Journal> =
            Arc::new(LiveJournal::new(journal.clone(), journal, self.live.clone()));
        let agent = Recorded::new(self.agent(journal.clone()), self.behind.clone());
        let agent = self.with_conversation_turns(Arc::new(Breaker::new(agent, self.circuit.clone())));
        let (admission, circuit) = (self.admission.clone(), self.circuit.clone());
        let name = self.gate.process.name.clone();
        WorkerContext { name, admission, agent, circuit, journal, observer: Arc::new(Unobserved) }
    }

    fn requests(&self) -> Runs {
        Runs::new(self.guard(self.direct_calls()), self.spawn.clone())
    }

    fn streams(&self) -> RunStreams {
        let appended_to = Arc::new(RetryingJournal::new(self.store.clone()));
        let read_from = Arc::new(self.behind.clone());
        let journal = Arc::new(LiveJournal::new(appended_to, read_from, self.live.clone()));
        let kept = RunStores { journal, records: Some(self.store.clone()), live: self.live.clone() };
        let journal = RecordedStart::new(kept.journal.clone(), self.store.clone());
        let run = Heartbeat::new(self.agent(Arc::new(journal)), self.store.clone());
        let run = self.parkable(Arc::new(run), kept.journal.clone());
        let run = RateChecked::new(self.guard(Arc::new(Recorded::new(run, self.behind.clone()))));
        let stack = self.with_conversation_turns(Arc::new(run));
        RunStreams::new(stack, kept, self.spawn.clone()).until(self.gate.process.shutdown.clone())
    }

    fn direct_calls(&self) -> Arc<dyn Invoke> {
        let journal: Arc<dyn Journal> = Arc::new(self.behind.clone());
        let run = self.parkable(Arc::new(self.agent(journal.clone())), journal);
        Arc::new(Recorded::new(run, self.behind.clone()))
    }

    fn parkable(&self, run: Arc<dyn Invoke>, journal: Arc<dyn Journal>) -> Arc<dyn Invoke> {
        let (queue, store, spawn) = (self.queue.clone(), self.store.clone(), self.spawn.clone());
        Arc::new(Parkable::new(run, queue, journal, store, spawn))
    }

    fn guard(&self, run: Arc<dyn Invoke>) -> Arc<dyn Invoke> {
        let admitted = Admitted::new(run, self.admission.clone(), ADMISSION_WAIT);
        let guarded = Breaker::new(admitted, self.circuit.clone());
        Arc::new(ShutdownChecked::new(guarded, self.gate.process.shutdown.clone(), TIMEOUT))
    }

    fn with_conversation_turns(&self, run: Arc<dyn Invoke>) -> Arc<dyn Invoke> {
        Arc::new(ConversationTurns::new(run, self.conversations.clone(), TIMEOUT))
    }
}

/// The tasks that work off jobs.
fn work_off(worker: Worker, shutdown: &Shutdown, workers: &Counted) -> Vec<BoxFuture<'static, ()>> {
    let worker = Arc::new(worker);
    let work = |_| {
        let (worker, stopping) = (worker.clone(), shutdown.stopping().clone());
        workers.task(async move { worker.work(stopping).await })
    };
    (0..WORKERS).map(work).collect()
}
