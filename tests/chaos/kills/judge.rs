//! What came of a kill: what was asked again, what of that is promised never to be, and whether the answer is
//! right.
//!
//! An attempt that is cut short leaves one model call and some tool calls under way, whose answers nobody has
//! recorded. Only these may be made once more. The kill cuts one attempt short. A heir that loses its lease,
//! or hands the job back, cuts another one: the journal has that ([`later_losses`]).

use std::collections::BTreeMap;

use agent_core::words::{Event, JobStatus};
use run_service::invariants::{self, Broken, may_be_done_again};
use serde_json::Value;

use super::decider::COUNT;
use super::place::{JobState, Recorded};
use super::plan::{CallAt, PlannedKill, StepKind};
use super::scene::{Seen, colour_of, returned_by};
use super::swaps::of_one_version;

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
    /// Model calls made again that had no reply in the journal. Of one job one is allowed for the kill, if it
    /// was under way then, and one for each attempt that was cut short later.
    pub(crate) asked_again: usize,
    /// Model calls made again beyond that.
    pub(crate) paid_twice: usize,
    /// Calls made again of tools that may be called again, without an answer in the journal. Of each call one
    /// is allowed for the kill, if the call was under way then, and one for each attempt that was cut short
    /// later.
    pub(crate) called_again: usize,
    /// Such calls made again beyond that, or although their answer was recorded.
    pub(crate) repeated: usize,
    /// Calls made again of tools that must not be called twice.
    pub(crate) acted_twice: usize,
    /// Further decisions about waits that were decided, as those who decided were told.
    pub(crate) decided_twice: usize,
    /// Journals that broke a rule of [`invariants`], by what they held at the very end.
    pub(crate) unsound: usize,
    /// Streams that were read on behind the death of the process that they had come from.
    pub(crate) resumed: usize,
    /// Streams that were not the journal of their run, each event once, with its end.
    pub(crate) broken_streams: usize,
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
        self.resumed += other.resumed;
        self.broken_streams += other.broken_streams;
        self.unknown += other.unknown;
    }

    /// Counts the model calls that were made again. The calls of a job and of its child runs come one after
    /// the other, so an attempt that is cut short leaves one of them without its reply.
    fn count_replies(&mut self, evidence: &Evidence<'_>) {
        let Evidence { kill, recorded, seen, seen_at_death, later_losses, .. } = *evidence;
        let had_ended = recorded.job == JobState::Ended;
        let mut allowance = Allowance { for_the_kill: 1, later: later_losses };
        let mut count = |step: usize, of_child: Option<usize>, is_recorded: bool| {
            let again = seen.replies_asked(step, of_child).saturating_sub(1);
            let was_begun = seen_at_death.replies_asked(step, of_child) > 0;
            let allowed =
                if may_be_done_again(is_recorded, false) { allowance.take(again, was_begun) } else { 0 };
            self.asked_again += allowed;
            self.paid_twice += again - allowed;
        };
        for (step, kind) in kill.steps.iter().enumerate() {
            let own = CallAt { step, index: 0, nested: None };
            count(step, None, step < recorded.replies || had_ended);
            let of_child = recorded.children.get(&step).map_or(0, |child| child.replies);
            let is_over = had_ended || recorded.returned.contains(&own);
            for reply in (0..REPLIES_OF_CHILD).filter(|_| *kind == StepKind::Child) {
                count(step, Some(reply), reply < of_child || is_over);
            }
        }
    }

    /// Counts the calls of tools that were made again, and those of which the model was told something else
    /// than they came to.
    fn count_calls(&mut self, evidence: &Evidence<'_>, returned: &BTreeMap<(usize, usize), &String>) {
        let Evidence { kill, recorded, seen, seen_at_death, later_losses, .. } = *evidence;
        for call in kill.calls() {
            let told = returned.get(&(call.step, call.index)).map_or("", |told| told.as_str());
            let kind = kill.steps[call.step];
            let times = seen.calls_made(call);
            let was_begun = seen_at_death.calls_made(call) > 0;
            let was_recorded = recorded.has_answer(kind, call) || recorded.job == JobState::Ended;
            let acts = kill.acts(call);
            let again = times.saturating_sub(1);
            if acts {
                self.acted_twice += again;
            } else {
                let may_be = may_be_done_again(was_recorded, acts);
                let allowed = if may_be { again.min(usize::from(was_begun) + later_losses) } else { 0 };
                self.called_again += allowed;
                self.repeated += again - allowed;
            }
            let says_so = told.contains(&returned_by(kill.number, call)) && times > 0;
            let may_be_unknown = acts && recorded.has_started(kind, call) && !was_recorded;
            let is_unknown = may_be_unknown && told.contains("it is not known whether it had an effect");
            self.unknown += usize::from(is_unknown);
            self.wrong += usize::from(!says_so && !is_unknown);
        }
    }

    /// How often a promise was broken.
    pub(crate) fn broken(&self) -> usize {
        let ends = self.lost + self.ended_twice + self.wrong + self.other_runs + self.unsound;
        ends + self.broken_streams + self.paid_twice + self.repeated + self.acted_twice + self.decided_twice
    }
}

/// What a job is judged by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence<'a> {
    pub(super) kill: &'a PlannedKill,
    /// What was recorded when its worker was dead.
    pub(super) recorded: &'a Recorded,
    /// All that was asked on its behalf.
    pub(super) seen: &'a Seen,
    /// What of that the dead worker had asked. Its last requests may have arrived when it was dead.
    pub(super) seen_at_death: &'a Seen,
    /// How many attempts were cut short behind the kill.
    pub(super) later_losses: usize,
    /// The job as it ended, if it did.
    pub(super) end: Option<&'a Value>,
}

/// How many model calls of a job may still be made again.
struct Allowance {
    for_the_kill: usize,
    later: usize,
}

impl Allowance {
    /// How many of these calls are allowed, which are no longer there for others then.
    fn take(&mut self, again: usize, was_begun: bool) -> usize {
        let for_the_kill = if was_begun { again.min(self.for_the_kill) } else { 0 };
        let later = (again - for_the_kill).min(self.later);
        self.for_the_kill -= for_the_kill;
        self.later -= later;
        for_the_kill + later
    }
}

/// Judges a job by all that is known of it.
pub(super) fn judge(evidence: &Evidence<'_>) -> Tally {
    let kill = evidence.kill;
    let mut tally = Tally::default();
    let Some(end) = evidence.end.filter(|job| has_completed(job)) else {
        return Tally { lost: 1, ..tally };
    };
    tally.count_replies(evidence);
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
    tally.count_calls(evidence, &returned);
    for (step, _) in kill.steps.iter().enumerate().filter(|(_, kind)| **kind == StepKind::Ask) {
        let told = returned.get(&(step, 0)).map_or("", |told| told.as_str());
        let told: Value = serde_json::from_str(told).unwrap_or_default();
        let is_right = told["colour"] == colour_of(kill.number, step) && told["count"] == COUNT;
        tally.wrong += usize::from(!is_right);
    }
    tally
}

/// Whether the job came to the end that every job of the plan is to have.
pub(super) fn has_completed(job: &Value) -> bool {
    job["status"] == "completed"
}

/// How many attempts were cut short behind the kill, by the journals at the very end: of the job's run and of
/// those that it began. A machine that is slow makes a heir lose its lease, and the next claim asks for what
/// was under way once more. An attempt that the kill cut short is not counted: that of a job that was claimed
/// at the death, and that of a child run that had begun.
pub(super) fn later_losses(
    recorded: &Recorded,
    own: &[Value],
    children: &BTreeMap<usize, Vec<Value>>,
) -> usize {
    let was_claimed = recorded.job == JobState::Active;
    let of_own = cut_short(own).saturating_sub(usize::from(was_claimed));
    let of_children = children.iter().map(|(step, journal)| {
        let had_begun = recorded.children.contains_key(step);
        cut_short(journal).saturating_sub(usize::from(had_begun))
    });
    of_own + of_children.sum::<usize>()
}

/// How many attempts at a run were cut short, by its journal. A run that is taken up behind a wait, or behind
/// the decision about it, was parked before in good order.
fn cut_short(journal: &[Value]) -> usize {
    let was_parked = |event: &Value| event["event"] == "waiting" || event["event"] == "decided";
    let pairs = journal.iter().zip(journal.iter().skip(1));
    pairs.filter(|(before, event)| event["event"] == "taken_up" && !was_parked(before)).count()
}

/// Judges the journal of a job's run and those of the runs that it began, when all is over. An error says
/// what is wrong.
pub(super) fn judge_journals<'a>(
    journal: &[Value],
    children: impl IntoIterator<Item = &'a Vec<Value>>,
) -> Result<(), String> {
    let said = |broken: Broken| broken.to_string();
    let parent = events_of(journal)?;
    invariants::journal(&parent).and_then(|()| of_one_version(&parent)).map_err(said)?;
    for child in children {
        let child = events_of(child)?;
        invariants::journal(&child)
            .and_then(|()| of_one_version(&child))
            .and_then(|()| invariants::child(&parent, &child, JobStatus::Completed))
            .map_err(said)?;
    }
    Ok(())
}

pub(super) fn events_of(journal: &[Value]) -> Result<Vec<Event>, String> {
    let read = |event: &Value| {
        serde_json::from_value::<Event>(event.clone()).map_err(|error| format!("{error}: {event}"))
    };
    journal.iter().map(read).collect()
}

/// How often the model is asked for a child run: for its calls, and for its answer.
const REPLIES_OF_CHILD: usize = 2;

#[cfg(test)]
mod tests {
    use agent_core::testing::{says, task};
    use serde_json::json;
    use tokio::time::Instant;

    use super::super::scene::Asked;
    use super::*;

    const UNKNOWN: &str = "Error: it is not known whether it had an effect.";

    fn kill() -> PlannedKill {
        PlannedKill::of(&[StepKind::Look, StepKind::Act, StepKind::Answer])
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

    /// The judge's word on a job on which no attempt was cut short behind the kill.
    fn judged(
        kill: &PlannedKill,
        recorded: &Recorded,
        seen_at_death: &Seen,
        seen: &Seen,
        end: Option<&Value>,
    ) -> Tally {
        judge(&Evidence { kill, recorded, seen, seen_at_death, later_losses: 0, end })
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
        let one_too_many = Tally { asked_again: 1, paid_twice: 1, ..good };
        // What the dead worker had asked of the model and of the tools, and what was asked at all.
        for (recorded, dead, model, tools, returned, expected) in [
            (0, [&[0][..], &[]], &[0, 0, 1, 2][..], &[0, 1][..], right, Tally { asked_again: 1, ..good }),
            (0, [&[], &[]], &[0, 1, 2], &[0, 1], right, good),
            (2, [&[0], &[]], &[0, 0, 1, 2], &[0, 1], right, Tally { paid_twice: 1, ..good }),
            (2, [&[0], &[0]], &[0, 1, 2], &[0, 0, 1], right, Tally { called_again: 1, ..good }),
            (
                2,
                [&[0], &[0]],
                &[0, 1, 2],
                &[0, 0, 0, 1],
                right,
                Tally { called_again: 1, repeated: 1, ..good },
            ),
            (2, [&[0], &[]], &[0, 1, 2], &[0, 0, 1], right, Tally { repeated: 1, ..good }),
            (3, [&[0, 1], &[0]], &[0, 1, 1, 2], &[0, 1], right, Tally { asked_again: 1, ..good }),
            (3, [&[0], &[0]], &[0, 1, 1, 2], &[0, 1], right, Tally { paid_twice: 1, ..good }),
            (3, [&[0, 1], &[0]], &[0, 1, 1, 1, 2], &[0, 1], right, one_too_many),
            (3, [&[0, 1], &[0]], &[0, 1, 1, 2, 2], &[0, 1], right, one_too_many),
            (3, [&[0], &[0]], &[0, 1, 2], &[0, 0, 1], right, Tally { repeated: 1, ..good }),
            (5, [&[0, 1], &[0]], &[0, 1, 2], &[0, 1], ["done 7/0/0.", UNKNOWN], Tally { unknown: 1, ..good }),
            (5, [&[0, 1], &[0, 1]], &[0, 1, 2], &[0, 1, 1], right, Tally { acted_twice: 1, ..good }),
            (4, [&[0, 1], &[0]], &[0, 1, 2], &[0], ["done 7/0/0.", UNKNOWN], Tally { wrong: 1, ..good }),
            (
                4,
                [&[0, 1], &[0]],
                &[0, 1, 2],
                &[0, 1],
                ["done 7/1/0.", "done 7/0/0."],
                Tally { wrong: 2, ..good },
            ),
        ] {
            let recorded = Recorded::read(JobState::Active, &events[..recorded]);
            let [dead_model, dead_tools] = dead;
            let (dead, all) = (seen(dead_model, dead_tools), seen(model, tools));
            let tally = judged(&kill(), &recorded, &dead, &all, Some(&ended(returned)));
            assert_eq!(tally, expected, "{recorded:?} {dead:?} {model:?} {tools:?}");
        }
    }

    #[test]
    fn each_attempt_that_is_cut_short_allows_one_model_call_more_and_each_call_under_way() {
        let recorded = Recorded::read(JobState::Active, &[json!({ "event": "started" })]);
        let (dead, all) = (seen(&[0], &[]), seen(&[0, 0, 1, 2, 2], &[0, 0, 1]));
        let end = ended(["done 7/0/0.", "done 7/1/0."]);
        let after = |later_losses: usize| {
            let (kill, end) = (&kill(), Some(&end));
            judge(&Evidence {
                kill,
                recorded: &recorded,
                seen: &all,
                seen_at_death: &dead,
                later_losses,
                end,
            })
        };
        let good = Tally::default();
        assert_eq!(after(0), Tally { asked_again: 1, paid_twice: 1, repeated: 1, ..good });
        assert_eq!(after(1), Tally { asked_again: 2, called_again: 1, ..good });
    }

    #[test]
    fn attempts_that_are_cut_short_are_told_from_runs_that_were_parked() {
        let journal = |kinds: &[&str]| kinds.iter().map(|kind| json!({ "event": kind })).collect::<Vec<_>>();
        let lost =
            |job, own: &[&str]| later_losses(&Recorded::read(job, &[]), &journal(own), &BTreeMap::new());
        for (own, active, waiting) in [
            (&["started", "model_replied"][..], 0, 0),
            (&["started", "taken_up", "model_replied"], 0, 1),
            (&["started", "model_replied", "taken_up", "taken_up"], 1, 2),
            (&["started", "model_replied", "taken_up", "handed_back", "taken_up"], 1, 2),
            (&["started", "model_replied", "waiting", "decided", "taken_up", "tool_returned"], 0, 0),
            (&["started", "model_replied", "waiting", "taken_up", "tool_returned"], 0, 0),
        ] {
            assert_eq!(
                (lost(JobState::Active, own), lost(JobState::Waiting, own)),
                (active, waiting),
                "{own:?}"
            );
        }
        let children = BTreeMap::from([(0, journal(&["started", "taken_up", "model_replied", "taken_up"]))]);
        let recorded = Recorded::read(JobState::Waiting, &[]);
        assert_eq!(later_losses(&recorded, &[], &children), 2, "the kill came before the child run");
        let recorded = recorded.with_children(&BTreeMap::from([(0, journal(&["started"]))]));
        assert_eq!(later_losses(&recorded, &[], &children), 1);
    }

    #[test]
    fn a_job_without_a_good_end_is_lost_and_one_that_had_ended_asks_nothing() {
        let recorded = Recorded::read(JobState::Ended, &[]);
        let failed = json!({ "status": "failed" });
        for end in [None, Some(&failed)] {
            let nothing = seen(&[], &[]);
            assert_eq!(
                judged(&kill(), &recorded, &nothing, &nothing, end),
                Tally { lost: 1, ..Tally::default() }
            );
        }
        let end = ended(["done 7/0/0.", "done 7/1/0."]);
        let (dead, all) = (seen(&[0, 1, 2], &[0, 1]), seen(&[0, 1, 2, 2], &[0, 1]));
        let tally = judged(&kill(), &recorded, &dead, &all, Some(&end));
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
            let tally_of = |events: &[Value], called: &[usize]| {
                let (own, of_child) = match kind {
                    StepKind::Child => (&events[..0], BTreeMap::from([(0, events.to_vec())])),
                    _ => (events, BTreeMap::new()),
                };
                let recorded = Recorded::read(JobState::Active, own).with_children(&of_child);
                let seen =
                    Seen { model: vec![], tools: called.iter().map(|number| asked(*number)).collect() };
                judged(&kill, &recorded, &seen, &seen, Some(&end))
            };
            let replied = json!({ "event": "model_replied" });
            let returned = match kind {
                StepKind::Child => json!({ "event": "tool_returned", "index": 0 }),
                _ => json!({ "event": "nested_returned", "index": 0, "number": 0 }),
            };
            assert_eq!(tally_of(std::slice::from_ref(&replied), &[0, 1]), Tally::default(), "{kind:?}");
            assert_eq!(tally_of(std::slice::from_ref(&replied), &[0, 0, 1]).called_again, 1);
            assert_eq!(tally_of(&[replied.clone(), returned], &[0, 0, 1]).repeated, 1);
            assert_eq!(tally_of(&[replied], &[0, 1, 1]).acted_twice, 1);
        }
    }

    #[test]
    fn a_tool_that_asks_returns_what_its_own_job_was_answered() {
        let kill = PlannedKill { steps: vec![StepKind::Ask, StepKind::Answer], waits: true, ..kill() };
        let recorded = Recorded::read(JobState::Active, &[]);
        let all = seen(&[0, 1], &[]);
        for (colour, count, wrong) in [("blue 7/0", 3, 0), ("blue 8/0", 3, 1), ("blue 7/0", 4, 1)] {
            let told = json!({ "colour": colour, "count": count }).to_string();
            let end = json!({ "status": "completed", "result": { "output": json!([told]).to_string() } });
            assert_eq!(judged(&kill, &recorded, &all, &all, Some(&end)).wrong, wrong, "{colour}");
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
