//! The stacks around an agent run, outside in, as a request or a job goes through them.

use std::sync::Arc;

use agent_core::circuit::SharedCircuit;
use agent_core::jobs::{CancelledRuns, WorkerContext};
use agent_core::journal::{NotifyingJournal, RetryingJournal, WriteBehind};
use agent_core::policy::{Admission, Admitted, Agent, Breaker, Cached, Deadline, Invoke, Recorded};
use agent_core::ports::{Journal, Model, Probe, ResultCache, RunStore, Spawn, Toolbox};
use agent_core::runs::Runs;
use agent_core::words::{Limits, MAX_ITERATIONS};

use crate::config;
use crate::metrics::Metrics;

/// What every stack is built from.
pub(crate) struct SharedDeps<'a> {
    pub(crate) config: &'a config::Agent,
    pub(crate) metrics: &'a Metrics,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) toolbox: Arc<dyn Toolbox>,
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
}

impl SharedDeps<'_> {
    /// What a request of Variant A is given to.
    pub(crate) fn for_variant_a(&self) -> Arc<dyn Invoke> {
        Arc::new(self.guarded())
    }

    /// What a request of Variant B is given to.
    pub(crate) fn for_variant_b(&self, cache: Option<Arc<dyn ResultCache>>) -> Arc<dyn Invoke> {
        let guarded = self.guarded();
        let Some(cache) = cache else { return Arc::new(guarded) };
        // Outermost: what is known costs neither a place nor a try.
        let (toolbox, model) = (self.toolbox.clone(), self.model.name().to_owned());
        Arc::new(Cached::new(guarded, cache, toolbox, model, self.metrics.service()))
    }

    /// What the queue's worker works with. Its jobs share the places and the circuit: the worker claims none while
    /// that is open, and what a job finds out about the provider is known to requests.
    pub(crate) fn for_jobs(&self, name: String, store: Arc<dyn RunStore>) -> WorkerContext {
        // In the store before the next step, so that another worker can go on.
        let journal: Arc<dyn Journal> = Arc::new(RetryingJournal::new(store));
        let agent = self.recorded(self.agent(journal.clone()));
        let (admission, circuit) = (self.admission.clone(), self.circuit.clone());
        let agent = Arc::new(self.metrics.judged(Breaker::new(agent, circuit.clone())));
        WorkerContext { name, admission, agent, circuit, journal, observer: self.metrics.service() }
    }

    /// What ends the runs of jobs that nobody works on any more. No call is made, so nothing stands around the agent but
    /// the record.
    pub(crate) fn for_cancelled_jobs(&self, journal: Arc<dyn Journal>) -> Option<CancelledRuns> {
        let behind = self.behind.clone()?;
        let agent = Arc::new(Recorded::new(self.bare_agent(journal.clone()), behind));
        Some(CancelledRuns { agent, journal })
    }

    /// The runs of requests. What every request passes on the way to one belongs to the run, which its owner task
    /// carries through; the request is a reader of it.
    fn guarded(&self) -> Runs {
        let journal: Arc<dyn Journal> = match &self.behind {
            Some(behind) => Arc::new(behind.clone()),
            None => self.unrecorded.clone(),
        };
        // Whoever reads the events of a run is woken by each of them.
        let journal: Arc<dyn Journal> = Arc::new(NotifyingJournal::new(journal));
        let run = self.recorded(self.agent(journal.clone()));
        // A permit for each run, shared with the queue's worker.
        let admitted = Admitted::new(run, self.admission.clone(), self.config.admission_wait);
        // Outside the admission: while the circuit is open nobody has to wait to hear so.
        let guarded = Breaker::new(admitted, self.circuit.clone());
        // Counts those that are turned away as well.
        let judged = Arc::new(self.metrics.judged(guarded));
        Runs::new(judged, journal, self.spawn.clone())
    }

    /// Inside the metrics, so that a run that took too long is counted with the time it took.
    fn agent(&self, journal: Arc<dyn Journal>) -> Deadline<Agent> {
        Deadline::new(self.bare_agent(journal), self.config.timeout)
    }

    fn bare_agent(&self, journal: Arc<dyn Journal>) -> Agent {
        let limits = Limits { iterations: MAX_ITERATIONS, tokens: self.config.token_budget };
        let (model, toolbox) = (self.model.clone(), self.toolbox.clone());
        Agent { model, toolbox, journal, limits }
    }

    fn recorded(&self, bounded: Deadline<Agent>) -> Arc<dyn Invoke> {
        let metered = self.metrics.metered(bounded);
        match &self.behind {
            Some(behind) => Arc::new(Recorded::new(metered, behind.clone())),
            None => Arc::new(metered),
        }
    }
}
