//! Where a kill has hit: what the queue and the journal held when the worker was dead, and what the outside
//! had seen by then.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::decider::call_of;
use super::plan::{CallAt, PlannedKill, StepKind};
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
    /// Calls of which the journal had that they were about to be made.
    pub(super) started: BTreeSet<CallAt>,
    /// Calls whose answers the journal had.
    pub(super) returned: BTreeSet<CallAt>,
    /// Calls that wait, and those of them that were decided.
    pub(super) waiting: BTreeSet<CallAt>,
    pub(super) approved: BTreeSet<CallAt>,
    /// What was recorded of child runs, by the step that began each.
    pub(super) children: BTreeMap<usize, Self>,
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
        let begun = !events.is_empty();
        let [started, returned, waiting, approved] = [const { BTreeSet::new() }; 4];
        let children = BTreeMap::new();
        let mut this = Self { job, replies: 0, started, returned, waiting, approved, children, begun };
        for event in events {
            let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
            // The calls of a reply come behind it.
            let step = this.replies.wrapping_sub(1);
            let call = |index: &Value| Some(CallAt { step, index: number(index)?, nested: None });
            let nested = || Some(CallAt { nested: number(&event["number"]), ..call(&event["index"])? });
            match event["event"].as_str() {
                Some("model_replied") => this.replies += 1,
                Some("tools_started") => {
                    let indexes = event["indexes"].as_array().into_iter().flatten();
                    this.started.extend(indexes.filter_map(call));
                }
                Some("waiting") => {
                    let waits = event["waits"].as_array().into_iter().flatten();
                    this.waiting.extend(waits.filter_map(|wait| {
                        Some(CallAt { nested: number(&wait["within"]["number"]), ..call(&wait["index"])? })
                    }));
                }
                Some("decided") => this.approved.extend(event["wait"].as_str().and_then(call_of)),
                Some("tool_returned") => this.returned.extend(call(&event["index"])),
                Some("nested_started") => this.started.extend(nested()),
                Some("nested_returned") => this.returned.extend(nested()),
                _ => {}
            }
        }
        this
    }

    /// Adds the journals of its child runs, by the step that began each.
    pub(super) fn with_children(self, journals: &BTreeMap<usize, Vec<Value>>) -> Self {
        let read = |(step, events): (&usize, &Vec<Value>)| (*step, Self::read(self.job, events));
        Self { children: journals.iter().map(read).collect(), ..self }
    }

    /// Whether the answer of a call was recorded: its own, or that of the call that has come to it.
    pub(super) fn has_answer(&self, kind: StepKind, call: CallAt) -> bool {
        self.returned.contains(&CallAt { nested: None, ..call })
            || Self::has(self.of(kind, call), |of| &of.returned)
    }

    /// Whether it was recorded that a call was about to be made.
    pub(super) fn has_started(&self, kind: StepKind, call: CallAt) -> bool {
        Self::has(self.of(kind, call), |of| &of.started)
    }

    /// Where a call stands: in the journal of the job's run, or of the child run that makes it.
    fn of(&self, kind: StepKind, call: CallAt) -> Option<(&Self, CallAt)> {
        match call.nested.filter(|_| kind == StepKind::Child) {
            None => Some((self, call)),
            Some(index) => Some((self.children.get(&call.step)?, CallAt { step: 0, index, nested: None })),
        }
    }

    fn has(found: Option<(&Self, CallAt)>, set: impl FnOnce(&Self) -> &BTreeSet<CallAt>) -> bool {
        found.is_some_and(|(of, call)| set(of).contains(&call))
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
                Some((step, open)) => {
                    (Work::Tools(kill.steps[step]), of_tools(kill.steps[step], &open, recorded, seen))
                }
                None => of_model(recorded, seen),
            },
        };
        Self { work, boundary }
    }
}

/// The calls of the last reply that have no answer in the journal; none when it is the model's turn.
fn open_calls(kill: &PlannedKill, recorded: &Recorded) -> Option<(usize, Vec<CallAt>)> {
    let step = recorded.replies.checked_sub(1)?;
    let calls = (0..kill.steps[step].tools().len()).map(|index| CallAt { step, index, nested: None });
    let open: Vec<_> = calls.filter(|call| !recorded.returned.contains(call)).collect();
    (!open.is_empty()).then_some((step, open))
}

fn of_model(recorded: &Recorded, seen: &Seen) -> (Work, Boundary) {
    let is_next = |asked: &&Asked| (asked.step, asked.nested) == (recorded.replies, None);
    let asked: Vec<&Asked> = seen.model.iter().filter(is_next).collect();
    let boundary = match recorded.replies {
        _ if asked.iter().any(|asked| asked.answered.is_some()) => Boundary::ReplyNotRecorded,
        _ if !asked.is_empty() => Boundary::ModelAsked,
        0 if recorded.begun => Boundary::Begun,
        0 => return (Work::Job, Boundary::Claimed),
        _ => Boundary::AnswerRecorded,
    };
    (Work::Model, boundary)
}

/// Of a call that comes to others, what of these is open.
fn of_tools(kind: StepKind, open: &[CallAt], recorded: &Recorded, seen: &Seen) -> Boundary {
    let is_open = |call: CallAt| {
        open.contains(&CallAt { nested: None, ..call })
            && (call.nested.is_none() || !recorded.has_answer(kind, call))
    };
    let called: Vec<&Asked> = seen.tools.iter().filter(|asked| is_open(asked.call())).collect();
    let child = open.first().and_then(|call| recorded.children.get(&call.step));
    let has = |set: fn(&Recorded) -> &BTreeSet<CallAt>| {
        let of_child =
            child.is_some_and(|child| set(child).iter().any(|call| !child.returned.contains(call)));
        of_child || set(recorded).iter().any(|call| is_open(*call))
    };
    if called.iter().any(|asked| asked.answered.is_none()) {
        Boundary::ToolCalled
    } else if !called.is_empty() {
        Boundary::AnswerNotRecorded
    } else if has(|of| &of.started) {
        Boundary::CallRecorded
    } else if has(|of| &of.approved) {
        Boundary::Approved
    } else if has(|of| &of.waiting) {
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
            Self::Tools(StepKind::Script) => "script with two calls",
            Self::Tools(StepKind::Ask) => "call that asks twice",
            Self::Tools(StepKind::Child) => "child run with two calls",
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

    use super::*;

    fn asked(step: usize, index: usize, answered: bool) -> Asked {
        let came = Instant::now();
        Asked { step, index, nested: None, came, answered: answered.then_some(came) }
    }

    #[test]
    fn a_kill_is_placed_by_what_the_journal_held_and_by_what_was_seen() {
        let job = PlannedKill::of(&[StepKind::Several, StepKind::Answer]);
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
        let call = |step: usize| CallAt { step, index: 0, nested: None };
        assert_eq!(recorded.returned, BTreeSet::from([call(0)]));
        assert_eq!(recorded.started, BTreeSet::from([call(1)]));
    }

    #[test]
    fn what_a_script_or_a_child_has_come_to_is_known_by_its_number() {
        let events = [
            json!({ "event": "started" }),
            json!({ "event": "model_replied" }),
            json!({ "event": "waiting", "waits": [{ "index": 0, "within": { "number": 0 } }] }),
            json!({ "event": "decided", "wait": "7:37ddff8e-1.0.0" }),
            json!({ "event": "nested_returned", "index": 0, "number": 0 }),
            json!({ "event": "waiting", "waits": [{ "index": 0, "within": { "number": 1 } }] }),
            json!({ "event": "decided", "wait": "7:37ddff8e-1.0.1~1" }),
            json!({ "event": "nested_started", "index": 0, "number": 1 }),
        ];
        let job = PlannedKill::of(&[StepKind::Script, StepKind::Answer]);
        let nested = |number: usize| CallAt { step: 0, index: 0, nested: Some(number) };
        let place = |count: usize, called: Vec<Asked>| {
            let recorded = Recorded::read(JobState::Waiting, &events[..count]);
            Place::find(&job, &recorded, &Seen { model: vec![], tools: called }).boundary
        };
        let looked = Asked { nested: Some(0), ..asked(0, 0, true) };
        assert_eq!(place(3, vec![]), Boundary::Waits);
        assert_eq!(place(4, vec![]), Boundary::Approved);
        assert_eq!(place(4, vec![looked]), Boundary::AnswerNotRecorded);
        assert_eq!(place(6, vec![looked]), Boundary::Waits, "the first is answered");
        assert_eq!(place(7, vec![looked]), Boundary::Approved);
        assert_eq!(place(8, vec![looked]), Boundary::CallRecorded);
        let recorded = Recorded::read(JobState::Waiting, &events);
        assert!(
            recorded.has_answer(StepKind::Script, nested(0))
                && !recorded.has_answer(StepKind::Script, nested(1))
        );
        assert!(recorded.has_started(StepKind::Script, nested(1)));
        // The calls of a child stand in its own journal.
        let of_child =
            BTreeMap::from([(0, vec![events[1].clone(), json!({ "event": "tool_returned", "index": 1 })])]);
        let recorded = Recorded::read(JobState::Waiting, &events[..2]).with_children(&of_child);
        assert!(
            recorded.has_answer(StepKind::Child, nested(1))
                && !recorded.has_answer(StepKind::Child, nested(0))
        );
    }
}
