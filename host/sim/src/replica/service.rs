//! The real service over the ports of one process: the layers of `agent-host/src/composition/invoke.rs` in
//! their order, without what only counts.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent_core::circuit_breaker::{DEFAULT_MIN_VOLUME, SharedCircuit};
use agent_core::ports::{JobQueue, Journal, Model, Probe, RunStore, Spawn, Toolbox, Unobserved};
use agent_core::words::RunLimits;
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
use tokio::time::Instant;

use crate::faults::gate::Gate;
use crate::judge::promises::told;
use crate::peers::{Provider, Tools};
use crate::ports::{Ported, Receiver};
use crate::replica::edge::{Edge, tokens};

/// `AGENT_TIMEOUT_MS` of the simulated deployment.
const TIMEOUT: Duration = Duration::from_secs(30);

/// `ADMISSION_WAIT_MS`, and how many runs a replica carries out at once.
const ADMISSION_WAIT: Duration = Duration::from_secs(5);
const PERMITS: usize = 4;

const WORKERS: usize = 2;

/// How often a restarted process looks for what its predecessor held: less often than in life, as most lives
/// end before it finds anything.
const RECOVERY_PAUSE: Duration = Duration::from_millis(400);

pub struct Service {
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
    shutdown: Shutdown,
}

impl Service {
    /// The service of a process, and the tasks that go on beside its requests.
    pub fn begin(gate: &Gate) -> (Arc<Self>, Vec<BoxFuture<'static, ()>>) {
        let world = &gate.world;
        let store: Arc<dyn RunStore> = Ported::new(gate, &world.runs);
        let queue: Arc<dyn JobQueue> = Ported::new(gate, &world.queue);
        let (behind, flusher) = WriteBehind::new(store.clone(), Backlog::default(), Arc::new(Unobserved));
        let parts = Parts::new(gate, store.clone(), queue.clone(), behind);
        let stopping = parts.shutdown.stopping().clone();
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
        let mut tasks = workers(Worker::new(&jobs, context), &parts.shutdown);
        let (followed, name) = (jobs.clone(), gate.process.name.clone());
        tasks.push(async move { followed.follow_changes().await }.boxed());
        tasks.push(recover(queue, name, RECOVERY_PAUSE).boxed());
        let parked = waits.clone();
        tasks.push(async move { parked.recover_decided().await }.boxed());
        let until = stopping.clone();
        tasks.push(async move { dispatcher.run(until).await }.boxed());
        tasks.push(async move { flusher.run(stopping).await }.boxed());
        let runs = parts.requests();
        let service = Self {
            streams: parts.streams().with_jobs(jobs.clone()),
            invoke: parts.with_conversation_turns(Arc::new(RateChecked::new(runs.clone()))),
            calls: parts.calls(&jobs, &waits),
            webhooks: Webhooks::new(outbox, sender),
            edge: OnceLock::new(),
            jobs,
            waits,
            runs,
            parts,
        };
        (Arc::new(service), tasks)
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
        let spawn: Arc<dyn Spawn> = Arc::new(gate.process.clone());
        Self {
            gate: gate.clone(),
            model: Arc::new(Provider(gate.clone())),
            toolbox: Arc::new(Tools(gate.clone())),
            conversations: Conversations::new(Ported::new(gate, &gate.world.conversations), spawn.clone()),
            circuit: SharedCircuit::new(DEFAULT_MIN_VOLUME, || Instant::now().into_std()),
            admission: Admission::new(PERMITS),
            live: LiveRuns::default(),
            shutdown: Shutdown::default(),
            behind,
            store,
            queue,
            spawn,
        }
    }

    /// Direct calls, which wait where the release of the process knows how.
    fn calls(&self, jobs: &Jobs, waits: &Waits) -> DirectCalls {
        let calls = DirectCalls::new(self.toolbox.clone(), TIMEOUT).until(self.shutdown.stopping().clone());
        if !self.gate.process.release.knows_calls_and_children {
            return calls;
        }
        let (jobs, waits, store) = (jobs.clone(), waits.clone(), self.store.clone());
        calls.kept_in(WaitingCalls { runs: self.direct_calls(), jobs, waits, store })
    }

    fn agent(&self, journal: Arc<dyn Journal>) -> Deadline<Agent> {
        let (model, toolbox, limits) = (self.model.clone(), self.toolbox.clone(), RunLimits::default());
        let wait_tools = self.gate.world.deployment.has_families;
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
        RunStreams::new(stack, kept, self.spawn.clone()).until(self.shutdown.clone())
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
        Arc::new(ShutdownChecked::new(guarded, self.shutdown.clone(), TIMEOUT))
    }

    fn with_conversation_turns(&self, run: Arc<dyn Invoke>) -> Arc<dyn Invoke> {
        Arc::new(ConversationTurns::new(run, self.conversations.clone(), TIMEOUT))
    }
}

/// The tasks that work off jobs.
fn workers(worker: Worker, shutdown: &Shutdown) -> Vec<BoxFuture<'static, ()>> {
    let worker = Arc::new(worker);
    let work = |_| {
        let (worker, stopping) = (worker.clone(), shutdown.stopping().clone());
        async move { worker.work(stopping).await }.boxed()
    };
    (0..WORKERS).map(work).collect()
}
