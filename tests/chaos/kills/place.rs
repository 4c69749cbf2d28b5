//! Where a kill has hit: what the queue and the journal held when the worker was dead, and what the outside
//! had seen by then.

use std::collections::BTreeSet;

use serde_json::Value;

use super::decider::step_and_index;
use super::plan::{PlannedKill, StepKind};
use super::scene::{Asked, Seen};

/// What the queue says of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobState {
    /// The queue knows no such job.
    Missing,
    Waiting,
    Active,
    Ended,
}

/// What was recorded of a job when its worker was dead.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    pub(super) job: JobState,
    /// How many replies of the model the journal had.
    pub(super) replies: usize,
    /// Calls of which the journal had that they were about to be made: step and index.
    pub(super) started: BTreeSet<(usize, usize)>,
    /// Calls whose answers the journal had.
    pub(super) returned: BTreeSet<(usize, usize)>,
    /// Calls that wait, and those of them that were approved.
    pub(super) waiting: BTreeSet<(usize, usize)>,
    pub(super) approved: BTreeSet<(usize, usize)>,
    /// Whether the journal had anything.
    pub(super) begun: bool,
}

/// Between which two things that are recorded or seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Boundary {
    NotClaimed,
    Claimed,
    Begun,
    ModelAsked,
    ReplyNotRecorded,
    ReplyRecorded,
    Waits,
    Approved,
    CallRecorded,
    ToolCalled,
    AnswerNotRecorded,
    AnswerRecorded,
    EndRecorded,
    Missed,
}

/// What the worker was busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// The job, before its run has begun.
    Job,
    /// A model call.
    Model,
    /// The calls of a reply.
    Tools(StepKind),
    /// The end of a run that has answered.
    End,
    /// Nothing any more: the job had ended.
    Nothing,
}

/// Where a kill has hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) work: Work,
    pub(crate) boundary: Boundary,
}

impl Recorded {
    /// As the journal's events say, in their order.
    pub(super) fn read(job: JobState, events: &[Value]) -> Self {
        let none = BTreeSet::new();
        let begun = !events.is_empty();
        let [started, returned, waiting, approved] = [none.clone(), none.clone(), none.clone(), none];
        let mut this = Self { job, replies: 0, started, returned, waiting, approved, begun };
        for event in events {
            let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
            // The calls of a reply come behind it.
            let step = this.replies.wrapping_sub(1);
            match event["event"].as_str() {
                Some("model_replied") => this.replies += 1,
                Some("tools_started") => {
                    let indexes = event["indexes"].as_array().into_iter().flatten().filter_map(number);
                    this.started.extend(indexes.map(|index| (step, index)));
                }
                Some("waiting") => {
                    let waits = event["waits"].as_array().into_iter().flatten();
                    this.waiting
                        .extend(waits.filter_map(|wait| number(&wait["index"])).map(|index| (step, index)));
                }
                Some("decided") => {
                    this.approved.extend(event["wait"].as_str().and_then(step_and_index));
                }
                Some("tool_returned") => {
                    this.returned.extend(number(&event["index"]).map(|index| (step, index)))
                }
                _ => {}
            }
        }
        this
    }
}

impl Place {
    /// Where the worker of that job was killed.
    pub(super) fn find(kill: &PlannedKill, recorded: &Recorded, seen: &Seen) -> Self {
        let Recorded { job, replies, .. } = *recorded;
        let (work, boundary) = match job {
            JobState::Ended => (Work::Nothing, Boundary::Missed),
            _ if replies == kill.steps.len() => (Work::End, Boundary::EndRecorded),
            JobState::Waiting | JobState::Missing if !recorded.begun => (Work::Job, Boundary::NotClaimed),
            _ => match open_calls(kill, recorded) {
                Some((step, open)) => (Work::Tools(kill.steps[step]), of_tools(&open, step, recorded, seen)),
                None => of_model(recorded, seen),
            },
        };
        Self { work, boundary }
    }
}

/// The calls of the last reply that have no answer in the journal; none when it is the model's turn.
fn open_calls(kill: &PlannedKill, recorded: &Recorded) -> Option<(usize, Vec<usize>)> {
    let step = recorded.replies.checked_sub(1)?;
    let calls = 0..kill.steps[step].tools().len();
    let open: Vec<_> = calls.filter(|index| !recorded.returned.contains(&(step, *index))).collect();
    (!open.is_empty()).then_some((step, open))
}

fn of_model(recorded: &Recorded, seen: &Seen) -> (Work, Boundary) {
    let asked: Vec<&Asked> = seen.model.iter().filter(|asked| asked.step == recorded.replies).collect();
    let boundary = match recorded.replies {
        _ if asked.iter().any(|asked| asked.answered.is_some()) => Boundary::ReplyNotRecorded,
        _ if !asked.is_empty() => Boundary::ModelAsked,
        0 if recorded.begun => Boundary::Begun,
        0 => return (Work::Job, Boundary::Claimed),
        _ => Boundary::AnswerRecorded,
    };
    (Work::Model, boundary)
}

fn of_tools(open: &[usize], step: usize, recorded: &Recorded, seen: &Seen) -> Boundary {
    let is_open = |asked: &&Asked| asked.step == step && open.contains(&asked.index);
    let called: Vec<&Asked> = seen.tools.iter().filter(is_open).collect();
    if called.iter().any(|asked| asked.answered.is_none()) {
        Boundary::ToolCalled
    } else if !called.is_empty() {
        Boundary::AnswerNotRecorded
    } else if open.iter().any(|index| recorded.started.contains(&(step, *index))) {
        Boundary::CallRecorded
    } else if open.iter().any(|index| recorded.approved.contains(&(step, *index))) {
        Boundary::Approved
    } else if open.iter().any(|index| recorded.waiting.contains(&(step, *index))) {
        Boundary::Waits
    } else {
        Boundary::ReplyRecorded
    }
}

impl Work {
    /// As the table says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Job => "job, before its run",
            Self::Model => "model call",
            Self::Tools(StepKind::Look) => "call that may be repeated",
            Self::Tools(StepKind::Act) => "call that must not be",
            Self::Tools(StepKind::Several | StepKind::Answer) => {
                "three calls at once, one of them must not be repeated"
            }
            Self::End => "end of the run",
            Self::Nothing => "nothing was hit",
        }
    }
}

impl Boundary {
    /// As the table says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotClaimed => "not claimed",
            Self::Claimed => "claimed",
            Self::Begun => "begun, model not asked",
            Self::ModelAsked => "model asked",
            Self::ReplyNotRecorded => "replied, not recorded",
            Self::ReplyRecorded => "reply recorded, tool not called",
            Self::Waits => "waits, not decided",
            Self::Approved => "approved, tool not called",
            Self::CallRecorded => "start recorded, tool not called",
            Self::ToolCalled => "tool called",
            Self::AnswerNotRecorded => "answered, not recorded",
            Self::AnswerRecorded => "answer recorded, model not asked",
            Self::EndRecorded => "last reply recorded",
            Self::Missed => "job had ended",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::Instant;

    use super::super::plan::{Heir, Moment, StoreKind, Versions};
    use super::*;

    fn kill(steps: &[StepKind]) -> PlannedKill {
        PlannedKill {
            number: 1,
            store: StoreKind::Sqlite,
            heir: Heir::Other,
            versions: Versions::Same,
            steps: steps.to_vec(),
            target: 0,
            moment: Moment::Asked,
            delay: std::time::Duration::ZERO,
            waits: false,
        }
    }

    fn asked(step: usize, index: usize, answered: bool) -> Asked {
        let came = Instant::now();
        Asked { step, index, came, answered: answered.then_some(came) }
    }

    #[test]
    fn a_kill_is_placed_by_what_the_journal_held_and_by_what_was_seen() {
        let job = kill(&[StepKind::Several, StepKind::Answer]);
        let (started, replied) = (json!({ "event": "started" }), json!({ "event": "model_replied" }));
        let act = json!({ "event": "tools_started", "indexes": [1] });
        let returned = |index: u64| json!({ "event": "tool_returned", "index": index });
        let taken = [started.clone(), replied.clone(), act.clone()];
        let all = [&taken[..], &[returned(2), returned(0), returned(1)]].concat();
        let ended = [&all[..], std::slice::from_ref(&replied)].concat();
        let tools = Work::Tools(StepKind::Several);
        for (state, events, model, called, work, boundary) in [
            (JobState::Waiting, &taken[..0], vec![], vec![], Work::Job, Boundary::NotClaimed),
            (JobState::Active, &taken[..0], vec![], vec![], Work::Job, Boundary::Claimed),
            (
                JobState::Active,
                &taken[..0],
                vec![asked(0, 0, false)],
                vec![],
                Work::Model,
                Boundary::ModelAsked,
            ),
            (JobState::Active, &taken[..1], vec![], vec![], Work::Model, Boundary::Begun),
            (
                JobState::Active,
                &taken[..1],
                vec![asked(0, 0, true)],
                vec![],
                Work::Model,
                Boundary::ReplyNotRecorded,
            ),
            (JobState::Active, &taken[..2], vec![], vec![], tools, Boundary::ReplyRecorded),
            (JobState::Active, &taken, vec![], vec![], tools, Boundary::CallRecorded),
            (JobState::Active, &taken, vec![], vec![asked(0, 1, false)], tools, Boundary::ToolCalled),
            (JobState::Active, &taken, vec![], vec![asked(0, 1, true)], tools, Boundary::AnswerNotRecorded),
            (JobState::Active, &all, vec![asked(0, 0, true)], vec![], Work::Model, Boundary::AnswerRecorded),
            (JobState::Active, &all, vec![asked(1, 0, false)], vec![], Work::Model, Boundary::ModelAsked),
            (JobState::Active, &ended, vec![], vec![], Work::End, Boundary::EndRecorded),
            (JobState::Ended, &ended, vec![], vec![], Work::Nothing, Boundary::Missed),
        ] {
            let recorded = Recorded::read(state, events);
            let seen = Seen { model, tools: called };
            assert_eq!(Place::find(&job, &recorded, &seen), Place { work, boundary }, "{events:?}");
        }
    }

    #[test]
    fn calls_belong_to_the_reply_before_them() {
        let events = [
            json!({ "event": "started" }),
            json!({ "event": "model_replied" }),
            json!({ "event": "tool_returned", "index": 0 }),
            json!({ "event": "model_replied" }),
            json!({ "event": "tools_started", "indexes": [0] }),
            json!({ "event": "taken_up" }),
        ];
        let recorded = Recorded::read(JobState::Active, &events);
        assert_eq!(recorded.replies, 2);
        assert_eq!(recorded.returned, BTreeSet::from([(0, 0)]));
        assert_eq!(recorded.started, BTreeSet::from([(1, 0)]));
    }
}
