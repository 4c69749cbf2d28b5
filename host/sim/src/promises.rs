//! What clients were promised, and what was seen from outside: what the judge compares in the end.

use std::collections::{BTreeMap, BTreeSet};

use agent_core::ports::webhooks::WebhookMessage;
use agent_core::words::{Event, Job, JobStatus, Verdict};

/// Everything that was promised or seen.
#[derive(Debug, Default)]
pub struct Promises {
    plans: u64,
    /// Jobs whose submission was acknowledged, by their ids.
    pub jobs: BTreeMap<String, PromisedJob>,
    /// How jobs ended, as the first who saw it read.
    pub ends: BTreeMap<String, SeenEnd>,
    /// Calls of tools that were made, by their names: how often.
    pub acts: BTreeMap<String, u32>,
    /// The component that the tools of a run were of.
    pub components: BTreeMap<String, u64>,
    /// Decisions that were acknowledged, by their waits.
    pub decisions: BTreeMap<String, Verdict>,
    pub turns: Vec<PromisedTurn>,
    /// Runs whose provider or tools gave them trouble: they may fail.
    pub troubled: BTreeSet<String>,
    /// Runs that the provider refused: they fail at once.
    pub refused: BTreeSet<String>,
    /// Bodies of the webhooks that were received, by their jobs.
    pub delivered: BTreeMap<String, Vec<String>>,
    /// The process that told the queue of a job's result.
    pub completed_by: BTreeMap<String, String>,
    /// The process in which a call of a run is under way.
    pub under_way: BTreeMap<String, String>,
    /// What readers of streams were shown.
    pub streams: Vec<SeenStream>,
}

#[derive(Debug, Clone)]
pub struct PromisedJob {
    pub user: String,
    pub plan: u64,
    pub has_webhook: bool,
    pub conversation: Option<String>,
    /// Whether its owner wanted it to be cancelled.
    pub is_unwanted: bool,
    /// Whether the queue said that it is cancelled.
    pub is_cancelled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenEnd {
    pub status: JobStatus,
    pub result: Option<String>,
}

#[derive(Debug, Clone)]
pub struct PromisedTurn {
    pub user: String,
    pub conversation: String,
    pub id: String,
}

#[derive(Debug)]
pub struct SeenStream {
    pub run_id: String,
    pub events: Vec<(u64, Event)>,
    /// Whether it came to its end.
    pub has_ended: bool,
}

impl SeenEnd {
    /// The end of a job, if it has ended.
    pub fn of(job: &Job) -> Option<Self> {
        let result = job.result.as_ref().map(|result| result.get().to_owned());
        job.status.has_ended().then_some(Self { status: job.status, result })
    }
}

impl Promises {
    /// The number of a plan that nobody had.
    pub fn next_plan(&mut self) -> u64 {
        self.plans += 1;
        self.plans
    }

    /// A webhook reached its receiver.
    pub fn delivered(&mut self, message: &WebhookMessage) {
        if let Some(job_id) = message.id.strip_prefix("msg_") {
            self.delivered.entry(job_id.to_owned()).or_default().push(message.body.clone());
        }
    }
}
