//! The stacks around an agent run, outside in, as a request or a job goes through them.

use std::sync::Arc;

use agent_core::circuit_breaker::SharedCircuit;
use agent_core::ports::{JobQueue, Journal, Model, Probe, ResultCache, RunStore, Spawn, Toolbox};
use agent_core::words::{MAX_ITERATIONS, RunLimits};
use backends::sql::{SqlConversations, SqlPool};
use run_service::conversations::Conversations;
use run_service::jobs::{CancelledRuns, WorkerContext};
use run_service::journal::{LastEventsBehind, RetryingJournal, WriteBehind};
use run_service::layers::{
    Admission, Admitted, Agent, Answerer, Breaker, Cached, ConversationTurns, Deadline, Heartbeat, Invoke,
    Parkable, PreparedTools, RateChecked, Recorded, RecordedStart, ShutdownChecked, WithPreparedTools,
    WriteBehindCache,
};
use run_service::live::{LiveJournal, LiveRuns};
use run_service::runs::Runs;
use run_service::shutdown::Shutdown;
use run_service::streams::{RunStores, RunStreams};

use crate::config;
use crate::metrics::Metrics;

/// What every stack is built from.
pub(crate) struct SharedDeps<'a> {
    pub(crate) config: &'a config::Agent,
    pub(crate) metrics: &'a Metrics,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) toolbox: Arc<dyn Toolbox>,
    /// What a request waits for that comes before the tools are prepared.
    pub(crate) tools: PreparedTools,
    /// What the model is told before every conversation.
    pub(crate) instructions: Option<Arc<str>>,
    /// Records runs behind their answers; absent when there is no store.
    pub(crate) behind: Option<WriteBehind>,
    /// The journal of runs that are not recorded.
    pub(crate) unrecorded: Arc<dyn Journal>,
    /// Checks the model.
    pub(crate) llm: Arc<dyn Probe>,
    /// One for the agent, whoever asks it.
    pub(crate) circuit: SharedCircuit,
    /// The permits of requests and jobs.
    pub(crate) admission: Admission,
    /// Begins the owner tasks of runs.
    pub(crate) spawn: Arc<dyn Spawn>,
    /// Where runs can be watched.
    pub(crate) live: LiveRuns,
    /// Where runs are kept; absent when there is no store.
    pub(crate) store: Option<Arc<dyn RunStore>>,
    /// Where conversations are kept; absent when there is no store.
    pub(crate) conversations: Option<Conversations>,
    /// Says how far the service has stopped.
    pub(crate) shutdown: Shutdown,
}

impl SharedDeps<'_> {
    /// What a request of Variant A is given to.
    pub(crate) fn for_variant_a(&self) -> Arc<dyn Invoke> {
        Arc::new(WithPreparedTools::new(self.guarded(None), self.tools.clone()))
    }

    /// The cache as every stack has it: nobody waits until a result is written.
    pub(crate) fn written_behind(&self, cache: Arc<dyn ResultCache>) -> WriteBehindCache {
        WriteBehindCache::new(cache, self.spawn.clone())
    }

    /// What a request of Variant B is given to.
    pub(crate) fn for_variant_b(
        &self,
        cache: Option<WriteBehindCache>,
        queue: Arc<dyn JobQueue>,
    ) -> Arc<dyn Invoke> {
        // Inside the cache, which is looked at while requests are counted.
        let checked = RateChecked::new(self.guarded(Some(queue)));
        let run: Arc<dyn Invoke> = match cache {
            None => Arc::new(checked),
            // Outside of the rest: what is known costs neither a place nor a try.
            Some(cache) => Arc::new(self.cached(checked, cache)),
        };
        self.with_prepared_tools(self.with_conversation_turns(run))
    }

    /// Conversations that runs are part of: in this database, unless runs are kept elsewhere.
    pub(crate) fn conversations(&self, database: &SqlPool) -> Conversations {
        let in_database = || {
            let store = Arc::new(SqlConversations::new(database.clone()));
            Conversations::new(store, self.spawn.clone())
        };
        self.conversations.clone().unwrap_or_else(in_database)
    }

    /// What was said before decides which questions are equal, so this is outside of the cache.
    fn with_conversation_turns(&self, run: Arc<dyn Invoke>) -> Arc<dyn Invoke> {
        match &self.conversations {
            Some(conversations) => {
                Arc::new(ConversationTurns::new(run, conversations.clone(), self.config.timeout))
            }
            None => run,
        }
    }

    /// Outermost: no conversation is claimed and no cache key made before the tools are known.
    fn with_prepared_tools(&self, run: Arc<dyn Invoke>) -> Arc<dyn Invoke> {
        Arc::new(WithPreparedTools::new(run, self.tools.clone()))
    }

    /// The runs that are streamed. Each is the reader's own, so none is shared with others, and goes on
    /// without the reader. Its events are stored before they are shown, and its record says that it is under
    /// way, so that any replica can show it.
    pub(crate) fn streams(
        &self,
        cache: Option<WriteBehindCache>,
        queue: Option<Arc<dyn JobQueue>>,
    ) -> RunStreams {
        let kept = self.kept();
        let run: Arc<dyn Invoke> = match (&kept.records, &self.behind) {
            (Some(records), Some(behind)) => {
                let journal = RecordedStart::new(kept.journal.clone(), records.clone());
                let agent = self.agent(Arc::new(journal));
                let run = Heartbeat::new(self.metrics.metered(agent), records.clone());
                let run = self.parkable(Arc::new(run), kept.journal.clone(), queue);
                Arc::new(Recorded::new(run, behind.clone()))
            }
            _ => Arc::new(self.metrics.metered(self.agent(kept.journal.clone()))),
        };
        let checked = RateChecked::new(self.guard(run));
        let keeps_results = cache.is_some();
        let stack: Arc<dyn Invoke> = match cache {
            None => Arc::new(checked),
            Some(cache) => Arc::new(self.cached(checked, cache).unshared()),
        };
        let stack = self.with_prepared_tools(self.with_conversation_turns(stack));
        RunStreams::new(stack, kept, self.spawn.clone())
            .keeping_results(keeps_results)
            .until(self.shutdown.clone())
    }

    /// What begins the runs of direct calls that wait: they are journaled and handed over, and ask no model.
    pub(crate) fn for_direct_calls(&self, queue: Arc<dyn JobQueue>) -> Option<Arc<dyn Invoke>> {
        let behind = self.behind.clone().filter(|_| self.store.is_some())?;
        let journal: Arc<dyn Journal> = Arc::new(behind);
        let run = Arc::new(self.agent(journal.clone()));
        Some(self.recorded(self.parkable(run, journal, Some(queue))))
    }

    fn kept(&self) -> RunStores {
        let (appended_to, read_from): (Arc<dyn Journal>, Arc<dyn Journal>) = match (&self.store, &self.behind)
        {
            // Runs that are not streamed are on their way there.
            (Some(store), Some(behind)) => {
                (Arc::new(RetryingJournal::new(store.clone())), Arc::new(behind.clone()))
            }
            _ => (self.unrecorded.clone(), self.unrecorded.clone()),
        };
        let live = self.live.clone();
        let journal = Arc::new(LiveJournal::new(appended_to, read_from, live.clone()));
        RunStores { journal, records: self.store.clone(), live }
    }

    /// What the queue's worker works with. Its jobs share the places and the circuit: the worker claims none
    /// while that is open, and what a job finds out about the provider is known to requests.
    pub(crate) fn for_jobs(&self, name: String, store: Arc<dyn RunStore>) -> WorkerContext {
        // In the store before the next step, so that another worker can go on.
        let journal: Arc<dyn Journal> = Arc::new(RetryingJournal::new(store));
        // Apart from the last events, which go with the record while the queue is told.
        let journal: Arc<dyn Journal> = match &self.behind {
            Some(behind) => Arc::new(LastEventsBehind::new(journal, behind.clone())),
            None => journal,
        };
        // Whoever watches the run is told of each event.
        let journal: Arc<dyn Journal> =
            Arc::new(LiveJournal::new(journal.clone(), journal, self.live.clone()));
        let agent = self.recorded(Arc::new(self.metrics.metered(self.agent(journal.clone()))));
        let (admission, circuit) = (self.admission.clone(), self.circuit.clone());
        let agent = self.metrics.judged(Breaker::new(agent, circuit.clone()));
        let agent = self.with_conversation_turns(Arc::new(agent));
        WorkerContext { name, admission, agent, circuit, journal, observer: self.metrics.service() }
    }

    /// What ends the runs of jobs that nobody works on any more.
    pub(crate) fn for_cancelled_jobs(&self, journal: Arc<dyn Journal>) -> Option<CancelledRuns> {
        Some(CancelledRuns::new(journal, self.behind.clone()?))
    }

    /// The runs of requests. What every request passes on the way to one belongs to the run, which its owner
    /// task carries through; the request is a reader of it.
    fn guarded(&self, queue: Option<Arc<dyn JobQueue>>) -> Runs {
        let journal: Arc<dyn Journal> = match &self.behind {
            Some(behind) => Arc::new(behind.clone()),
            None => self.unrecorded.clone(),
        };
        let run = self.metrics.metered(self.agent(journal.clone()));
        let run = self.recorded(self.parkable(Arc::new(run), journal, queue));
        Runs::new(self.guard(run), self.spawn.clone())
    }

    /// What stands before every run of a request.
    fn guard(&self, run: Arc<dyn Invoke>) -> Arc<dyn Invoke> {
        // A permit for each run, shared with the queue's worker.
        let admitted = Admitted::new(run, self.admission.clone(), self.config.admission_wait);
        // Outside the admission: while the circuit is open nobody has to wait to hear so.
        let guarded = Breaker::new(admitted, self.circuit.clone());
        // A run that the shutdown would cut off is refused before it waits or is tried.
        let guarded = ShutdownChecked::new(guarded, self.shutdown.clone(), self.config.timeout);
        // Counts those that are turned away as well.
        Arc::new(self.metrics.judged(guarded))
    }

    /// Inside the metrics, so that a run that took too long is counted with the time it took.
    fn agent(&self, journal: Arc<dyn Journal>) -> Deadline<Agent> {
        let limits = RunLimits { iterations: MAX_ITERATIONS, tokens: self.config.token_budget };
        let (model, toolbox) = (self.model.clone(), self.toolbox.clone());
        let instructions = self.instructions.clone();
        let wait_tools = self.config.wait_tools;
        let agent = Agent { model, toolbox, journal, limits, instructions, wait_tools };
        Deadline::new(agent, self.config.timeout)
    }

    fn cached<I: Invoke + 'static>(&self, run: I, cache: WriteBehindCache) -> Cached<I> {
        Cached::new(run, cache, self.toolbox.clone(), self.answerer(), self.metrics.service())
    }

    /// What results that are kept depend on, beside the question and the tools.
    fn answerer(&self) -> Answerer {
        let answerer = Answerer::new(self.model.name().to_owned(), self.instructions.as_deref());
        answerer.with_wait_tools(self.config.wait_tools)
    }

    /// A run that has to wait for somebody is handed over to the queue, where there is one and a store.
    /// Inside the record, which is not written then.
    fn parkable(
        &self,
        run: Arc<dyn Invoke>,
        journal: Arc<dyn Journal>,
        queue: Option<Arc<dyn JobQueue>>,
    ) -> Arc<dyn Invoke> {
        match (queue, &self.store) {
            (Some(queue), Some(store)) => {
                let parkable = Parkable::new(run, queue, journal, store.clone(), self.spawn.clone());
                Arc::new(parkable.observed_by(self.metrics.service()))
            }
            _ => run,
        }
    }

    fn recorded(&self, run: Arc<dyn Invoke>) -> Arc<dyn Invoke> {
        match &self.behind {
            Some(behind) => Arc::new(Recorded::new(run, behind.clone())),
            None => run,
        }
    }
}
