//! What came of a kill: what was asked again, what of that is promised never to be, and whether the answer is
//! right.

use run_service::invariants::may_be_done_again;
use serde_json::Value;

use super::place::{JobState, Recorded};
use super::plan::PlannedKill;
use super::scene::{Seen, returned_by};

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
        self.unknown += other.unknown;
    }

    /// How often a promise was broken.
    pub(crate) fn broken(&self) -> usize {
        let ends = self.lost + self.ended_twice + self.wrong + self.other_runs;
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
    for step in 0..kill.steps.len() {
        let again = seen.replies_asked(step).saturating_sub(1);
        let allowed = usize::from(may_be_done_again(step < recorded.replies || had_ended, false));
        tally.asked_again += again.min(allowed);
        tally.paid_twice += again.saturating_sub(allowed);
    }
    let output = end["result"]["output"].as_str().and_then(|output| serde_json::from_str(output).ok());
    let returned: Vec<String> = output.unwrap_or_default();
    let calls: Vec<_> = calls_of(kill).collect();
    tally.wrong += usize::from(returned.len() != calls.len());
    for ((step, index), returned) in calls.into_iter().zip(&returned) {
        let call = (step, index);
        let times = seen.calls_made(step, index);
        let was_recorded = recorded.returned.contains(&call) || had_ended;
        let acts = kill.acts(step, index);
        let allowed = usize::from(may_be_done_again(was_recorded, acts));
        if acts {
            tally.acted_twice += times.saturating_sub(1 + allowed);
        } else {
            tally.called_again += times.saturating_sub(1).min(allowed);
            tally.repeated += times.saturating_sub(1 + allowed);
        }
        let says_so = returned.contains(&returned_by(kill.number, step, index)) && times > 0;
        let may_be_unknown = acts && recorded.started.contains(&call) && !was_recorded;
        let is_unknown = may_be_unknown && returned.contains("it is not known whether it had an effect");
        tally.unknown += usize::from(is_unknown);
        tally.wrong += usize::from(!says_so && !is_unknown);
    }
    tally
}

/// Every call of a job: step and index, in the order of the conversation.
fn calls_of(kill: &PlannedKill) -> impl Iterator<Item = (usize, usize)> {
    let steps = kill.steps.iter().enumerate();
    steps.flat_map(|(step, kind)| (0..kind.tools().len()).map(move |index| (step, index)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::Instant;

    use super::super::plan::{Heir, Moment, StepKind, StoreKind, Versions};
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
        let asked = |step: &usize| Asked { step: *step, index: 0, came: Instant::now(), answered: None };
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
}
