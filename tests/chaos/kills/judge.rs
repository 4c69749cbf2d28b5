//! What came of a kill: what was asked again, what of that is promised never to be, and whether the answer is
//! right.

use std::collections::BTreeMap;

use agent_core::words::{Event, JobStatus};
use run_service::invariants::{self, Broken, may_be_done_again};
use serde_json::Value;

use super::decider::COUNT;
use super::place::{JobState, Recorded};
use super::plan::{CallAt, PlannedKill, StepKind};
use super::scene::{Seen, colour_of, returned_by};

/// Counts of one kill, or of many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Jobs that were accepted and never came to an end, or failed.
    pub(crate) lost: usize,
    /// Further ends of jobs that had ended: in the records, in the queue's events, or seen by whoever read
    /// the job twice.
    pub(crate) ended_twice: usize,
    /// Answers that were not what they should be.
    pub(crate) wrong: usize,
    /// Further ids of the runs of a job: whoever goes on with it makes the run that was begun, and no other
    /// one.
    pub(crate) other_runs: usize,
    /// Model calls made again that had no reply in the journal. One for each kill is allowed.
    pub(crate) asked_again: usize,
    /// Model calls made again although their reply was recorded, or more than once.
    pub(crate) paid_twice: usize,
    /// Calls made again of tools that may be called again, without an answer in the journal. One each for
    /// each kill is allowed.
    pub(crate) called_again: usize,
    /// Such calls made again although their answer was recorded, or more than once.
    pub(crate) repeated: usize,
    /// Calls made again of tools that must not be called twice.
    pub(crate) acted_twice: usize,
    /// Further decisions about waits that were decided, as those who decided were told.
    pub(crate) decided_twice: usize,
    /// Journals that broke a rule of [`invariants`], by what they held at the very end.
    pub(crate) unsound: usize,
    /// Such calls of which the model was told that nobody knows whether they had an effect. Allowed if they
    /// had been begun.
    pub(crate) unknown: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.ended_twice += other.ended_twice;
        self.wrong += other.wrong;
        self.other_runs += other.other_runs;
        self.asked_again += other.asked_again;
        self.paid_twice += other.paid_twice;
        self.called_again += other.called_again;
        self.repeated += other.repeated;
        self.acted_twice += other.acted_twice;
        self.decided_twice += other.decided_twice;
        self.unsound += other.unsound;
        self.unknown += other.unknown;
    }

    /// Counts a model call that was made so often, and of which the reply was recorded or not.
    fn replied(&mut self, times: usize, is_recorded: bool) {
        let again = times.saturating_sub(1);
        let allowed = usize::from(may_be_done_again(is_recorded, false));
        self.asked_again += again.min(allowed);
        self.paid_twice += again.saturating_sub(allowed);
    }

    /// How often a promise was broken.
    pub(crate) fn broken(&self) -> usize {
        let ends = self.lost + self.ended_twice + self.wrong + self.other_runs + self.unsound;
        ends + self.paid_twice + self.repeated + self.acted_twice + self.decided_twice
    }
}

/// Judges a job: what was recorded when its worker was dead, all that was asked on its behalf, and the job as
/// it ended, if it did.
pub(super) fn judge(kill: &PlannedKill, recorded: &Recorded, seen: &Seen, end: Option<&Value>) -> Tally {
    let mut tally = Tally::default();
    let Some(end) = end.filter(|job| job["status"] == "completed") else {
        return Tally { lost: 1, ..tally };
    };
    let had_ended = recorded.job == JobState::Ended;
    for (step, kind) in kill.steps.iter().enumerate() {
        let own = CallAt { step, index: 0, nested: None };
        tally.replied(seen.replies_asked(step, None), step < recorded.replies || had_ended);
        let of_child = recorded.children.get(&step).map_or(0, |child| child.replies);
        let is_over = had_ended || recorded.returned.contains(&own);
        for reply in (0..REPLIES_OF_CHILD).filter(|_| *kind == StepKind::Child) {
            tally.replied(seen.replies_asked(step, Some(reply)), reply < of_child || is_over);
        }
    }
    let output = end["result"]["output"].as_str().and_then(|output| serde_json::from_str(output).ok());
    let returned: Vec<String> = output.unwrap_or_default();
    let outer: Vec<_> = kill
        .steps
        .iter()
        .enumerate()
        .flat_map(|(step, kind)| (0..kind.tools().len()).map(move |index| (step, index)))
        .collect();
    tally.wrong += usize::from(returned.len() != outer.len());
    let returned: BTreeMap<_, _> = outer.into_iter().zip(&returned).collect();
    for call in kill.calls() {
        let told = returned.get(&(call.step, call.index)).map_or("", |told| told.as_str());
        let kind = kill.steps[call.step];
        let times = seen.calls_made(call);
        let was_recorded = recorded.has_answer(kind, call) || had_ended;
        let acts = kill.acts(call);
        let allowed = usize::from(may_be_done_again(was_recorded, acts));
        if acts {
            tally.acted_twice += times.saturating_sub(1 + allowed);
        } else {
            tally.called_again += times.saturating_sub(1).min(allowed);
            tally.repeated += times.saturating_sub(1 + allowed);
        }
        let says_so = told.contains(&returned_by(kill.number, call)) && times > 0;
        let may_be_unknown = acts && recorded.has_started(kind, call) && !was_recorded;
        let is_unknown = may_be_unknown && told.contains("it is not known whether it had an effect");
        tally.unknown += usize::from(is_unknown);
        tally.wrong += usize::from(!says_so && !is_unknown);
    }
    for (step, _) in kill.steps.iter().enumerate().filter(|(_, kind)| **kind == StepKind::Ask) {
        let told = returned.get(&(step, 0)).map_or("", |told| told.as_str());
        let told: Value = serde_json::from_str(told).unwrap_or_default();
        let is_right = told["colour"] == colour_of(kill.number, step) && told["count"] == COUNT;
        tally.wrong += usize::from(!is_right);
    }
    tally
}

/// Judges the journal of a job's run and those of the runs that it began, when all is over. An error says
/// what is wrong.
pub(super) fn judge_journals<'a>(
    journal: &[Value],
    children: impl IntoIterator<Item = &'a Vec<Value>>,
) -> Result<(), String> {
    let said = |broken: Broken| broken.to_string();
    let parent = events_of(journal)?;
    invariants::journal(&parent).map_err(said)?;
    for child in children {
        let child = events_of(child)?;
        invariants::journal(&child)
            .and_then(|()| invariants::child(&parent, &child, JobStatus::Completed))
            .map_err(said)?;
    }
    Ok(())
}

fn events_of(journal: &[Value]) -> Result<Vec<Event>, String> {
    let read = |event: &Value| {
        serde_json::from_value::<Event>(event.clone()).map_err(|error| format!("{error}: {event}"))
    };
    journal.iter().map(read).collect()
}

/// How often the model is asked for a child run: for its calls, and for its answer.
const REPLIES_OF_CHILD: usize = 2;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agent_core::testing::{says, task};
    use serde_json::json;
    use tokio::time::Instant;

    use super::super::plan::{Heir, Moment, StoreKind, Versions};
    use super::super::scene::Asked;
    use super::*;

    const UNKNOWN: &str = "Error: it is not known whether it had an effect.";

    fn kill() -> PlannedKill {
        PlannedKill {
            number: 7,
            store: StoreKind::Redis,
            heir: Heir::Other,
            versions: Versions::Same,
            steps: vec![StepKind::Look, StepKind::Act, StepKind::Answer],
            target: 0,
            moment: Moment::Asked,
            delay: Duration::ZERO,
            waits: false,
        }
    }

    fn seen(model: &[usize], tools: &[usize]) -> Seen {
        let asked = |step: &usize| Asked {
            step: *step,
            index: 0,
            nested: None,
            came: Instant::now(),
            answered: None,
        };
        Seen { model: model.iter().map(asked).collect(), tools: tools.iter().map(asked).collect() }
    }

    fn ended(returned: [&str; 2]) -> Value {
        json!({ "status": "completed", "result": { "output": json!(returned).to_string() } })
    }

    #[test]
    fn only_what_was_under_way_may_be_done_again() {
        let events = [
            json!({ "event": "started" }),
            json!({ "event": "model_replied" }),
            json!({ "event": "tool_returned", "index": 0 }),
            json!({ "event": "model_replied" }),
            json!({ "event": "tools_started", "indexes": [0] }),
        ];
        let right = ["done 7/0/0.", "done 7/1/0."];
        let good = Tally::default();
        for (recorded, model, tools, returned, expected) in [
            (0, &[0, 1, 2][..], &[0, 1][..], right, good),
            (2, &[0, 0, 1, 2], &[0, 1], right, Tally { paid_twice: 1, ..good }),
            (2, &[0, 1, 1, 2], &[0, 0, 1], right, Tally { asked_again: 1, called_again: 1, ..good }),
            (2, &[0, 1, 1, 1, 2], &[0, 1], right, Tally { asked_again: 1, paid_twice: 1, ..good }),
            (3, &[0, 1, 2], &[0, 0, 1], right, Tally { repeated: 1, ..good }),
            (5, &[0, 1, 2], &[0, 1], ["done 7/0/0.", UNKNOWN], Tally { unknown: 1, ..good }),
            (5, &[0, 1, 2], &[0, 1, 1], right, Tally { acted_twice: 1, ..good }),
            (4, &[0, 1, 2], &[0], ["done 7/0/0.", UNKNOWN], Tally { wrong: 1, ..good }),
            (4, &[0, 1, 2], &[0, 1], ["done 7/1/0.", "done 7/0/0."], Tally { wrong: 2, ..good }),
        ] {
            let recorded = Recorded::read(JobState::Active, &events[..recorded]);
            let tally = judge(&kill(), &recorded, &seen(model, tools), Some(&ended(returned)));
            assert_eq!(tally, expected, "{recorded:?} {model:?} {tools:?}");
        }
    }

    #[test]
    fn a_job_without_a_good_end_is_lost_and_one_that_had_ended_asks_nothing() {
        let recorded = Recorded::read(JobState::Ended, &[]);
        let failed = json!({ "status": "failed" });
        for end in [None, Some(&failed)] {
            assert_eq!(
                judge(&kill(), &recorded, &seen(&[], &[]), end),
                Tally { lost: 1, ..Tally::default() }
            );
        }
        let end = ended(["done 7/0/0.", "done 7/1/0."]);
        let tally = judge(&kill(), &recorded, &seen(&[0, 1, 2, 2], &[0, 1]), Some(&end));
        assert_eq!((tally.paid_twice, tally.broken()), (1, 1));
    }

    #[test]
    fn calls_of_scripts_and_children_are_counted_by_their_number() {
        for kind in [StepKind::Script, StepKind::Child] {
            let kill = PlannedKill { steps: vec![kind, StepKind::Answer], waits: true, ..kill() };
            let call = |number: usize| CallAt { step: 0, index: 0, nested: Some(number) };
            let asked = |number: usize| Asked {
                step: 0,
                index: 0,
                nested: Some(number),
                came: Instant::now(),
                answered: None,
            };
            let told = [call(0), call(1)].map(|call| returned_by(7, call)).join(" ");
            let end = json!({ "status": "completed", "result": { "output": json!([told]).to_string() } });
            let judged = |events: &[Value], called: &[usize]| {
                let (own, of_child) = match kind {
                    StepKind::Child => (&events[..0], BTreeMap::from([(0, events.to_vec())])),
                    _ => (events, BTreeMap::new()),
                };
                let recorded = Recorded::read(JobState::Active, own).with_children(&of_child);
                let seen =
                    Seen { model: vec![], tools: called.iter().map(|number| asked(*number)).collect() };
                judge(&kill, &recorded, &seen, Some(&end))
            };
            let replied = json!({ "event": "model_replied" });
            let returned = match kind {
                StepKind::Child => json!({ "event": "tool_returned", "index": 0 }),
                _ => json!({ "event": "nested_returned", "index": 0, "number": 0 }),
            };
            assert_eq!(judged(std::slice::from_ref(&replied), &[0, 1]), Tally::default(), "{kind:?}");
            assert_eq!(judged(std::slice::from_ref(&replied), &[0, 0, 1]).called_again, 1);
            assert_eq!(judged(&[replied.clone(), returned], &[0, 0, 1]).repeated, 1);
            assert_eq!(judged(&[replied], &[0, 1, 1]).acted_twice, 1);
        }
    }

    #[test]
    fn a_tool_that_asks_returns_what_its_own_job_was_answered() {
        let kill = PlannedKill { steps: vec![StepKind::Ask, StepKind::Answer], waits: true, ..kill() };
        let recorded = Recorded::read(JobState::Active, &[]);
        for (colour, count, wrong) in [("blue 7/0", 3, 0), ("blue 8/0", 3, 1), ("blue 7/0", 4, 1)] {
            let told = json!({ "colour": colour, "count": count }).to_string();
            let end = json!({ "status": "completed", "result": { "output": json!([told]).to_string() } });
            assert_eq!(judge(&kill, &recorded, &seen(&[0, 1], &[]), Some(&end)).wrong, wrong, "{colour}");
        }
    }

    #[test]
    fn a_journal_that_breaks_a_rule_is_named() {
        let json = |event: Event| serde_json::to_value(event).unwrap();
        let started = json(Event::Started { task: task("hi"), tools: String::new() });
        let replied = json(Event::from(says("done")));
        let once = [started.clone(), replied.clone()];
        let twice = [started, replied.clone(), replied];
        assert_eq!(judge_journals(&once, []), Ok(()));
        let broken = judge_journals(&twice, []).unwrap_err();
        assert!(broken.starts_with(invariants::ONE_END), "{broken}");
        let no_event = judge_journals(&[json!({ "event": "danced" })], []).unwrap_err();
        assert!(no_event.contains("danced"), "{no_event}");
    }
}
