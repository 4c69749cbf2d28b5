//! The service over stores in memory, as tests of this crate and of the edge wire it.

use std::sync::Arc;
use std::time::Duration;

use agent_core::circuit_breaker::DEFAULT_MIN_VOLUME;
use agent_core::ports::{Journal, ModelError, Unobserved};
use agent_core::testing::{EchoTools, ScriptedModel, TestQueue, TestRuns, TokioSpawn, circuit};
use agent_core::words::ModelReply;
use tokio_util::sync::CancellationToken;

use crate::direct_calls::{DirectCalls, WaitingCalls};
use crate::jobs::{Jobs, Worker, WorkerContext};
use crate::journal::Flusher;
use crate::layers::{Admission, Agent, Invoke, Parkable};
use crate::live::{LiveJournal, LiveRuns};
use crate::streams::{RunStores, RunStreams};
use crate::waits::Waits;

/// An agent whose model gives these replies, over these tools.
pub fn scripted_agent(
    script: impl IntoIterator<Item = Result<ModelReply, ModelError>>,
    tools: EchoTools,
    journal: Arc<dyn Journal>,
) -> Agent {
    Agent::new(Arc::new(ScriptedModel::new(script)), Arc::new(tools), journal)
}

/// Runs in memory with a journal that tells this process of each append.
pub fn run_stores(runs: &Arc<TestRuns>) -> RunStores {
    let live = LiveRuns::default();
    let journal = Arc::new(LiveJournal::new(runs.clone(), runs.clone(), live.clone()));
    RunStores { journal, records: Some(runs.clone()), live }
}

/// Streams of the runs that this stack carries out.
pub fn streams_of(stack: impl Invoke + 'static, kept: RunStores) -> RunStreams {
    RunStreams::new(Arc::new(stack), kept, Arc::new(TokioSpawn))
}

/// What a worker needs, with ten permits and a circuit that stays closed.
pub fn worker_context(agent: Arc<dyn Invoke>, journal: Arc<dyn Journal>) -> WorkerContext {
    WorkerContext {
        name: "host-1".into(),
        admission: Admission::new(10),
        agent,
        circuit: circuit(DEFAULT_MIN_VOLUME),
        journal,
        observer: Arc::new(Unobserved),
    }
}

/// Works off jobs for so long, and waits until the worker has stopped.
pub async fn work_for(worker: &Worker, time: Duration) {
    let stopping = CancellationToken::new();
    let stop = async {
        tokio::time::sleep(time).await;
        stopping.cancel();
    };
    tokio::join!(worker.work(stopping.clone()), stop);
}

/// Has all written that waits to be, as a process does that ends.
pub async fn flush(flusher: &Flusher) {
    let stopping = CancellationToken::new();
    stopping.cancel();
    flusher.run(stopping).await;
}

/// Direct calls of an agent's tools, which wait as jobs of that queue.
pub fn waiting_calls(
    agent: Agent,
    queue: &Arc<TestQueue>,
    runs: &Arc<TestRuns>,
    jobs: &Jobs,
    waits: &Waits,
) -> DirectCalls {
    let calls = DirectCalls::new(agent.toolbox.clone(), Duration::from_secs(30));
    let spawn = Arc::new(TokioSpawn);
    let parkable = Parkable::new(agent, queue.clone(), runs.clone(), runs.clone(), spawn);
    calls.kept_in(WaitingCalls {
        runs: Arc::new(parkable),
        jobs: jobs.clone(),
        waits: waits.clone(),
        store: runs.clone(),
    })
}
