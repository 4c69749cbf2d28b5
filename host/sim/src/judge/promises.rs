//! What clients were promised, and what was seen from outside: what the judge compares in the end.

use std::collections::{BTreeMap, BTreeSet};

use agent_core::ports::webhooks::WebhookMessage;
use agent_core::words::{Event, Job, StopReason, Verdict};
use run_service::streams::RunEnd;
use serde_json::Value;

use crate::plan::Plan;

/// Everything that was promised or seen.
#[derive(Debug, Default)]
pub struct Promises {
    plans: u64,
    /// Jobs whose submission was acknowledged, by their ids.
    pub jobs: BTreeMap<String, PromisedJob>,
    /// How jobs ended, as the first who saw it read.
    pub ends: BTreeMap<String, String>,
    /// Calls of tools that were made, by their names: how often.
    pub acts: BTreeMap<String, u32>,
    /// The component that the tools of a run were of.
    pub components: BTreeMap<String, u64>,
    /// Decisions that were acknowledged, by their waits.
    pub decisions: BTreeMap<String, Verdict>,
    pub turns: Vec<PromisedTurn>,
    /// Owners of conversations who have tried to write them.
    pub writers: BTreeSet<String>,
    /// Runs whose provider or tools gave them trouble: they may fail.
    pub troubled: BTreeSet<String>,
    /// Runs that the provider refused: they fail at once.
    pub refused: BTreeSet<String>,
    /// Webhooks that were received, by their jobs.
    pub delivered: BTreeMap<String, Vec<WebhookMessage>>,
    /// What webhooks may tell of: ends that the queue had, and message ids of waits that a journal had.
    pub happened: BTreeSet<String>,
    /// Jobs whose webhook was armed when they were there: for a retry, or as it was put in once more.
    pub armed: BTreeSet<String>,
    /// The process that ended a job, if it was told that it did.
    pub ended_by: BTreeMap<String, String>,
    /// Claims that a process was told of and whose end the queue has not confirmed, by their tokens.
    pub claims: BTreeMap<String, GivenClaim>,
    /// Failed jobs that an administrator had tried again, perhaps without being told, and their runs of then.
    pub retried: BTreeSet<String>,
    /// The runs that were begun by that.
    pub retries: BTreeSet<String>,
    /// Runs of which a record was stored that says how they ended: whether one said with a result.
    pub recorded: BTreeMap<String, bool>,
    /// The processes in which calls of a run are under way, each as often as it has such calls.
    pub under_way: BTreeMap<String, Vec<String>>,
    /// What readers of streams were shown, by the service and over HTTP.
    pub streams: Vec<SeenStream>,
    pub shown: Vec<ShownStream>,
}

#[derive(Debug, Clone)]
pub struct GivenClaim {
    pub job_id: String,
    pub by: String,
    /// Whether its process has tried to tell the queue how the attempt ended.
    pub is_told: bool,
}

#[derive(Debug, Clone, Default)]
pub struct PromisedJob {
    pub user: String,
    /// What its run does; absent when it is a direct call.
    pub plan: Option<Plan>,
    pub has_webhook: bool,
    pub conversation: Option<String>,
    /// Whether its owner wanted it to be cancelled.
    pub is_unwanted: bool,
    /// Whether the queue said that it is cancelled.
    pub is_cancelled: bool,
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
    /// Whether it came to its end with the run's answer.
    pub is_answered: bool,
    pub told: Option<ToldEnd>,
}

/// What a reader was told at the end of a stream.
#[derive(Debug, Clone)]
pub enum ToldEnd {
    Answer {
        output: String,
        is_completed: bool,
    },
    /// There is no answer, and none can follow.
    Failed,
    /// The process that carried the run out is dead, or the run has no journal. Whether the journal had an
    /// answer when the reader came.
    Dead(bool),
}

/// What a reader was shown over HTTP.
#[derive(Debug)]
pub struct ShownStream {
    pub run_id: String,
    pub events: Vec<ShownEvent>,
    /// How many events the run has, if the reader came to its end.
    pub end: Option<usize>,
    pub told: Option<ToldEnd>,
}

/// An event as the edge writes it.
#[derive(Debug)]
pub struct ShownEvent {
    /// The number of what it stands for in the journal, and which of the events that this stands for.
    pub number: usize,
    pub part: usize,
    pub name: String,
    pub data: Value,
}

/// The end of a job: where it stands, and its run.
pub fn end_of(job: &Job) -> String {
    format!("{} {}", job.status.as_str(), job.run_id)
}

/// What a webhook says of a job that has ended, and clients compare: its end, and the result.
pub fn told(job: &Job) -> String {
    format!("{} {}", end_of(job), job.result.as_ref().map_or("", |result| result.get()))
}

impl ShownEvent {
    /// The event of that id, as it is written.
    pub fn read(id: &str, name: &str, data: &str) -> Option<Self> {
        let (number, part) = id.split_once('.').unwrap_or((id, "0"));
        let (number, part) = (number.parse().ok()?, part.parse().ok()?);
        Some(Self { number, part, name: name.to_owned(), data: serde_json::from_str(data).ok()? })
    }

    /// The name of the first event that one of the journal stands for.
    pub fn name_of(event: &Event) -> Option<&'static str> {
        Some(match event {
            Event::Started { .. } => "run.started",
            Event::ModelReplied { .. } => "model.replied",
            Event::ToolReturned { .. } => "tool.returned",
            Event::Waiting { waits, .. } if !waits.is_empty() => "run.waiting",
            Event::Decided { .. } => "run.decided",
            _ => return None,
        })
    }

    /// Whether it shows that event of the journal.
    pub fn is_of(&self, event: &Event) -> bool {
        let name = if self.part == 0 { Self::name_of(event) } else { Some("tool.started") };
        let says = match event {
            Event::ModelReplied { reply, .. } if self.part == 0 => self.data["content"] == reply.content,
            Event::ToolReturned { answer, .. } => self.data["content"] == answer.content,
            _ => true,
        };
        name == Some(&*self.name) && says
    }
}

impl ToldEnd {
    /// What the end of a run says. An owner's failure that is not final says nothing: somebody may go on.
    pub fn of(end: &RunEnd, had_answer: bool) -> Option<Self> {
        Some(match end {
            RunEnd::Answer(answer) => Self::Answer {
                output: answer.result.output.clone(),
                is_completed: answer.result.stop_reason == StopReason::Completed,
            },
            end if end.is_final() => Self::Failed,
            RunEnd::Recorded(_) => Self::Dead(had_answer),
            RunEnd::Failed(_) | RunEnd::NeverBegan => return None,
        })
    }
}

impl PromisedJob {
    /// A job of that user, of which nothing else was asked.
    pub fn of(user: String, plan: Option<Plan>) -> Self {
        Self { user, plan, ..Self::default() }
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
        if let Some(of) = message.id.strip_prefix("msg_") {
            // Behind the job of an end stands its run.
            let job_id = of.rsplit_once('_').map_or(of, |(job_id, _run)| job_id);
            self.delivered.entry(job_id.to_owned()).or_default().push(message.clone());
        }
    }
}
