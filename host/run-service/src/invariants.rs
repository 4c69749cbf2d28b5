//! What always holds, as pure functions: the simulator (`host/sim`) asks them after every step, the judge of
//! `cargo xtask chaos` after every kill, and the service itself where debug assertions are on.

mod open_reply;
mod spending;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use agent_core::agent_loop::{OpenWait, recorded_end};
use agent_core::ports::Epoch;
use agent_core::words::{
    CallPlace, Decision, Event, Finish, JobStatus, ModelReply, RunOutcome, RunRecord, StopReason,
    ToolOutcome, Turn, Verdict, Wait,
};
use open_reply::OpenReply;
use serde_json::Value;
use spending::{Spending, tokens_of};

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {what}")]
pub struct Broken {
    /// The promise, as one sentence.
    pub rule: &'static str,
    pub what: String,
}

pub const ONE_BEGINNING: &str = "a run begins once";
pub const ONE_END: &str = "a run has one end";
pub const ONE_ANSWER: &str = "a call has one answer, of the reply that asked for it";
pub const ONE_DECISION: &str = "a wait is decided once, by somebody who was shown it";
pub const DECIDED_FIRST: &str = "a call that waits is not made before it is decided";
pub const FENCED: &str = "nothing is written under an earlier claim behind a later one";
pub const PREFIX: &str = "a reader is shown the journal, in its order and nothing else";
pub const ANSWERED_ONCE: &str = "a call whose answer is recorded is not made again";
pub const ACTS_ONCE: &str = "a call that must not be repeated acts at most once";
pub const ANNOUNCED: &str = "a call that must not be repeated is in the journal before it is made";
pub const ASKED_FIRST: &str = "a call of a job is in its journal before it is made";
pub const AS_SHOWN: &str = "a decision is carried out with what was shown";
pub const ONE_CHILD: &str = "a child run is begun once, by the call that waits for it";
pub const CHILD_TOLD: &str = "a run is told what the one that it began has come to";
pub const BILL: &str = "the tokens of a run are on its bill, with those of the runs that it began";
pub const WITHIN_LIMITS: &str = "a run uses no more than its limits allow when it asks or begins runs";
pub const WHOLE: &str = "a call is made with arguments that came whole";
pub const ONE_TURN: &str = "a conversation has each turn once";
pub const ENDS_WITH_ITS_JOB: &str = "a run that began ends with its job, by its journal and its record";
pub const ONE_OWNER: &str = "one process at a time carries a run out";
pub const LET_GO: &str = "a process that stops in good order lets go of every job that it was given";
pub const PINNED: &str = "a swapped tool never changes a run under way";

/// A journal, as far as it goes.
pub fn journal<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<(), Broken> {
    let mut fold = Fold::default();
    events.into_iter().enumerate().try_for_each(|(number, event)| {
        fold.on(event).map_err(|rule| Broken { rule, what: format!("event {number}: {event:?}") })
    })
}

/// Follows one journal where debug assertions are on, and panics when its writer breaks a rule. A journal
/// that was broken when it was read is not followed: that is not its writer's fault.
pub(crate) struct Followed(Option<Fold>);

impl Followed {
    /// Begins with what the journal has.
    pub(crate) fn from<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        if !cfg!(debug_assertions) {
            return Self(None);
        }
        let mut fold = Fold::default();
        let is_sound = events.into_iter().try_for_each(|event| fold.on(event)).is_ok();
        Self(is_sound.then_some(fold))
    }

    pub(crate) fn on(&mut self, event: &Event) {
        if let Some(fold) = &mut self.0 {
            debug_assert_eq!(fold.on(event), Ok(()), "{event:?}");
        }
    }
}

/// The epochs under which the events of a journal were written, in their order.
pub fn fencing(epochs: impl IntoIterator<Item = Epoch>) -> Result<(), Broken> {
    let mut last = Epoch::UNCLAIMED;
    for (number, epoch) in epochs.into_iter().enumerate() {
        if epoch < last {
            return Err(Broken {
                rule: FENCED,
                what: format!("event {number}: {} behind {}", epoch.0, last.0),
            });
        }
        last = epoch;
    }
    Ok(())
}

/// Whether something may be done again after whoever did it died: a model call, or a call of a tool that may
/// be repeated or not. What is recorded never is.
pub fn may_be_done_again(is_recorded: bool, must_not_be_repeated: bool) -> bool {
    !is_recorded && !must_not_be_repeated
}

/// A call of a tool, when it is made.
#[derive(Debug)]
pub struct MadeCall<'a> {
    /// Names the run, the reply that asked for it and its index.
    pub id: &'a str,
    pub run_id: &'a str,
    pub must_not_repeat: bool,
    /// The digest of what whoever approved it was shown.
    pub approved: Option<&'a str>,
    /// What it is made with.
    pub arguments: &'a Value,
    /// Whether the reply that asked for it was cut off.
    pub is_cut: bool,
    /// Whether it may come behind its answer: its claim was forgotten.
    pub may_be_late: bool,
    /// Whether a job has the run, whose journal is written before each step.
    pub has_job: bool,
}

/// Whether a call may be made by the journal of its run, as far as that goes. A run whose journal is written
/// behind its answer has none yet.
pub fn made<'a>(journal: impl IntoIterator<Item = &'a Event>, call: &MadeCall<'_>) -> Result<(), Broken> {
    let MadeCall { id, run_id, must_not_repeat, approved, arguments, is_cut, may_be_late, has_job } = call;
    if *is_cut || !arguments.is_object() {
        return Err(Broken { rule: WHOLE, what: format!("{id}: {arguments}") });
    }
    let Some(open) = OpenReply::read(journal) else {
        let what = format!("{id} of no reply");
        return if *has_job { Err(Broken { rule: ASKED_FIRST, what }) } else { Ok(()) };
    };
    let broken = |rule| Err(Broken { rule, what: format!("{id} of {} replies", open.replies) });
    let index = id.rsplit('.').next().and_then(|index| index.parse().ok()).unwrap_or(usize::MAX);
    let is_of_last_reply = *id == format!("{run_id}.{}.{index}", open.replies);
    if !may_be_late && (!is_of_last_reply || open.returned.contains(&index)) {
        return broken(ANSWERED_ONCE);
    }
    if !is_of_last_reply {
        return Ok(());
    }
    if *must_not_repeat && !open.started.contains(&index) {
        return broken(ANNOUNCED);
    }
    let is_other = open.arguments.get(index).is_some_and(|wanted| wanted != arguments);
    if is_other || approved.is_some_and(|digest| !open.approved.contains(&digest)) {
        return broken(AS_SHOWN);
    }
    Ok(())
}

/// Who begins a call of a run, and who has one under way.
pub fn owned(run_id: &str, by: &str, other: Option<&str>) -> Result<(), Broken> {
    match other.filter(|other| *other != by) {
        Some(other) => Err(Broken { rule: ONE_OWNER, what: format!("{run_id}: {by} and {other}") }),
        None => Ok(()),
    }
}

/// The component that a call of a run is made of, and that of its call before.
pub fn pinned<T: PartialEq + Debug + Copy>(call_id: &str, before: Option<T>, now: T) -> Result<(), Broken> {
    match before.filter(|before| *before != now) {
        Some(before) => Err(Broken { rule: PINNED, what: format!("{call_id}: {before:?} and {now:?}") }),
        None => Ok(()),
    }
}

/// How often a call has acted, of one that may be repeated or not.
pub fn acted(call_id: &str, times: u32, must_not_repeat: bool) -> Result<(), Broken> {
    match times > 1 && must_not_repeat {
        true => Err(Broken { rule: ACTS_ONCE, what: format!("{call_id} acted {times} times") }),
        false => Ok(()),
    }
}

/// What a reader was shown, by the numbers of the events, of a journal that has these.
pub fn shown<'a>(seen: impl IntoIterator<Item = (u64, &'a Event)>, journal: &[Event]) -> Result<(), Broken> {
    let broken = |what: String| Err(Broken { rule: PREFIX, what });
    let mut next = None;
    for (number, event) in seen {
        if next.is_some_and(|next| next != number) {
            return broken(format!("event {number} came after event {}", next.unwrap_or_default() - 1));
        }
        let kept = usize::try_from(number).ok().and_then(|number| journal.get(number));
        if kept != Some(event) {
            return broken(format!("event {number} was {event:?} and is {kept:?}"));
        }
        next = Some(number + 1);
    }
    Ok(())
}

/// The tokens that a run has used by its journal, with those of the runs that it was told of.
pub fn bill<'a>(events: impl IntoIterator<Item = &'a Event>) -> u64 {
    events.into_iter().map(tokens_of).sum()
}

/// The journal of a child run that nobody goes on with and its job's status, beside its parent's journal.
pub fn child(parent: &[Event], child: &[Event], status: JobStatus) -> Result<(), Broken> {
    let Some(Event::Started { task, .. }) = child.first() else { return Ok(()) };
    let broken = |rule, what: &str| Err(Broken { rule, what: format!("{}: {what}", task.id) });
    let waits = parent.iter().flat_map(|event| match event {
        Event::Waiting { waits, .. } => waits.as_slice(),
        _ => &[],
    });
    let is_of = |wait: &&Wait| wait.child.as_ref().is_some_and(|child| child.run_id == task.id);
    let waits: Vec<_> = waits.filter(is_of).collect();
    let ids: BTreeSet<_> = waits.iter().map(|wait| wait.id.as_str()).collect();
    let call = task.parent.as_ref().map(|call| call.wait.as_str());
    if ids.len() != 1 || ids.first().copied() != call {
        return broken(ONE_CHILD, &format!("begun for {call:?}, and {ids:?} wait for it"));
    }
    let told = parent.iter().find_map(|event| match event {
        Event::Decided { wait, decision } if Some(wait.as_str()) == call => Some(decision),
        _ => None,
    });
    let Some(Decision { verdict: Verdict::Ended { answer, is_answered, usage }, at, .. }) = told else {
        return Ok(());
    };
    // The last events of a job may be lost with its process, whose result the queue has.
    let end = recorded_end(child.to_vec(), None).ok().flatten();
    let is_completed = status == JobStatus::Completed
        && end.as_ref().is_some_and(|end| end.stop_reason == StopReason::Completed);
    let has_expired = waits.iter().any(|wait| wait.expires_at <= *at);
    // The answer of a run that a limit ended stands behind a note which says so.
    let is_told = end.as_ref().is_none_or(|end| match end.stop_reason {
        StopReason::Completed => end.output == *answer,
        _ => answer.ends_with(&end.output),
    });
    if (*is_answered && !is_told) || (!is_answered && is_completed && !has_expired) {
        return broken(CHILD_TOLD, &format!("told as {answer:?}"));
    }
    let (billed, used) = (usage.total(), bill(child));
    // What is stopped may use some more behind that, and is billed with runs of its own that it was not told
    // of, as one that failed is.
    let has_ended = status == JobStatus::Failed || (status == JobStatus::Completed && !has_expired);
    if (*is_answered && end.is_some() && billed != used) || (has_ended && billed < used) {
        return broken(BILL, &format!("{billed} tokens are billed of {used}"));
    }
    Ok(())
}

/// What is kept of the run of a job that has ended. A failure is no event, so that it stands in the record
/// alone, and of a run that never began there is no journal.
pub fn ended(status: JobStatus, journal: &[Event], record: Option<&RunRecord>) -> Result<(), Broken> {
    let broken = |what: &str| {
        let what = format!("it is {}, and {what}", status.as_str());
        Err(Broken { rule: ENDS_WITH_ITS_JOB, what })
    };
    let outcome = record.map(|record| &record.outcome);
    let reason = match outcome {
        Some(RunOutcome::Running) => return broken("its record says that it is under way"),
        Some(RunOutcome::Ended { stop_reason, .. }) => Some(*stop_reason),
        Some(RunOutcome::Failed { .. }) | None => None,
    };
    if journal.is_empty() && status != JobStatus::Completed {
        return Ok(());
    }
    if outcome.is_none() {
        return broken("there is no record of it");
    }
    let has_end = matches!(recorded_end(journal.to_vec(), reason), Ok(Some(_)));
    if status != JobStatus::Failed && !has_end {
        return broken("its journal has no end");
    }
    Ok(())
}

/// The jobs that a process was given and that the queue takes to be its own still, when it has stopped.
pub fn stopped(process: &str, held: &[String]) -> Result<(), Broken> {
    match held {
        [] => Ok(()),
        held => Err(Broken { rule: LET_GO, what: format!("{process}: {}", held.join(", ")) }),
    }
}

/// The turns of a conversation.
pub fn turns(turns: &[Turn]) -> Result<(), Broken> {
    let mut known = BTreeSet::new();
    match turns.iter().find(|turn| !known.insert(&turn.id)) {
        Some(twice) => Err(Broken { rule: ONE_TURN, what: format!("turn {} is there twice", twice.id) }),
        None => Ok(()),
    }
}

/// What is known of a run while its journal is read.
#[derive(Default)]
struct Fold {
    has_begun: bool,
    has_ended: bool,
    /// Of the calls of the last reply: whether each is answered.
    answered: Vec<bool>,
    /// The waits for calls of the last reply, as each was shown last.
    waits: BTreeMap<CallPlace, OpenWait>,
    /// The run is one given call, with whose answer it ends.
    is_given_call: bool,
    /// The last reply neither said nor asked for anything.
    was_empty: bool,
    spending: Spending,
}

impl Fold {
    fn on(&mut self, event: &Event) -> Result<(), &'static str> {
        let is_start = matches!(event, Event::Started { .. });
        if is_start == self.has_begun {
            return Err(ONE_BEGINNING);
        }
        self.has_begun = true;
        if matches!(event, Event::TakenUp { .. } | Event::HandedBack) {
            return Ok(());
        }
        if self.has_ended {
            return Err(ONE_END);
        }
        if !self.spending.allows(event) {
            return Err(WITHIN_LIMITS);
        }
        match event {
            Event::ModelReplied { reply, output_fault, last_by, .. } => {
                if self.answered.contains(&false) {
                    return Err(ONE_ANSWER);
                }
                let (is_whole, is_empty) = (reply.finish == Finish::Done, is_empty(reply));
                let has_calls = is_whole && last_by.is_none() && !reply.tool_calls.is_empty();
                let is_last = last_by.is_some() || (output_fault.is_none() && !has_calls);
                let is_asked_again = is_empty && is_whole && !self.was_empty;
                self.has_ended = is_last && !is_asked_again;
                self.answered = vec![false; if has_calls { reply.tool_calls.len() } else { 0 }];
                self.was_empty = is_empty;
                self.waits.clear();
            }
            Event::ToolReturned { index, answer } => {
                let mut of_call = self.waits.iter().filter(|(place, _)| place.index == *index);
                let is_undecided = of_call.any(|(_, wait)| wait.decided().is_none());
                if is_undecided && answer.receipt.outcome == ToolOutcome::Ok {
                    return Err(DECIDED_FIRST);
                }
                match self.answered.get_mut(*index) {
                    Some(answered @ false) => *answered = true,
                    Some(true) | None => return Err(ONE_ANSWER),
                }
                self.has_ended = self.is_given_call;
            }
            Event::Waiting { waits, .. } => {
                let open = waits
                    .iter()
                    .map(|wait| (wait.place(), OpenWait { wait: wait.clone(), decisions: vec![] }));
                self.waits.extend(open);
            }
            Event::Decided { wait, decision } => {
                let open = self.waits.values_mut().find(|open| open.wait.id == *wait);
                let open = open.filter(|open| open.decided().is_none()).ok_or(ONE_DECISION)?;
                if open.wait.shown.digest() != decision.shown {
                    return Err(ONE_DECISION);
                }
                open.decisions.push(decision.clone());
            }
            Event::Cancelled => self.has_ended = true,
            Event::Started { task, .. } => {
                self.is_given_call = task.options.call.is_some();
                self.answered = vec![false; usize::from(self.is_given_call)];
            }
            Event::ToolsStarted { .. }
            | Event::RecordingStarted { .. }
            | Event::NestedStarted { .. }
            | Event::NestedReturned { .. }
            | Event::TakenUp { .. }
            | Event::HandedBack => {}
        }
        Ok(())
    }
}

/// Whether a reply neither says nor asks for anything: then the model is asked the same once more.
fn is_empty(reply: &ModelReply) -> bool {
    reply.tool_calls.is_empty() && reply.content.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use agent_core::testing::{asks_for, failed, record, says, task};
    use agent_core::words::{Limit, RunLimits, Task, ToolReceipt, ToolReturn, Usage};
    use serde_json::json;

    use super::*;

    fn started() -> Event {
        Event::Started { task: task("hi"), tools: "sha256:test".into() }
    }

    fn returned(index: usize) -> Event {
        let receipt = ToolReceipt::new("echo", ToolOutcome::Ok);
        Event::ToolReturned { index, answer: ToolReturn { content: String::new(), receipt } }
    }

    fn broken(events: &[Event]) -> Option<&'static str> {
        journal(events).err().map(|broken| broken.rule)
    }

    #[test]
    fn a_journal_begins_and_ends_once_and_answers_what_was_asked() {
        let asks = || Event::from(asks_for(&[("1", "echo", json!({})), ("2", "echo", json!({}))]));
        let (done, taken) = (|| Event::from(says("done")), || Event::TakenUp { by: "a".into() });
        let cut = || {
            let reply = asks_for(&[("1", "echo", json!({}))]);
            Event::from(ModelReply { finish: Finish::Length, ..reply })
        };
        let started_with = |tokens| {
            let limits = RunLimits { tokens, ..RunLimits::default() };
            Event::Started { task: Task { limits, ..task("hi") }, tools: "sha256:test".into() }
        };
        let last = |text: &str| {
            let (reply, last_by) = (says(text), Some(Limit::Tokens));
            Event::ModelReplied { reply, input_tokens: None, last_by, output_fault: None }
        };
        for (events, rule) in [
            (vec![], None),
            (vec![started(), asks(), taken(), returned(1), returned(0), done(), taken()], None),
            (vec![taken()], Some(ONE_BEGINNING)),
            (vec![started(), started()], Some(ONE_BEGINNING)),
            (vec![started(), done(), done()], Some(ONE_END)),
            (vec![started(), done(), Event::Cancelled], Some(ONE_END)),
            (vec![started(), asks(), returned(0), done()], Some(ONE_ANSWER)),
            (vec![started(), asks(), returned(0), returned(0)], Some(ONE_ANSWER)),
            (vec![started(), returned(0)], Some(ONE_ANSWER)),
            (vec![started(), Event::from(says(" \n")), done()], None),
            (vec![started(), Event::from(says(" \n")), Event::from(says("")), done()], Some(ONE_END)),
            (vec![started(), cut(), returned(0)], Some(ONE_END)),
            (vec![started_with(1), done()], None),
            (vec![started_with(1), asks(), returned(0), returned(1), done()], Some(WITHIN_LIMITS)),
            (vec![started_with(0), done()], Some(WITHIN_LIMITS)),
            (vec![started(), last(""), last("done")], None),
            (vec![started(), last("done"), done()], Some(ONE_END)),
        ] {
            assert_eq!(broken(&events), rule, "{events:?}");
        }
    }

    #[test]
    fn the_run_of_a_job_that_has_ended_has_an_end_and_a_record_of_it() {
        use JobStatus::{Cancelled, Completed, Failed};
        let (begun, done) = (vec![started()], vec![started(), Event::from(says("done"))]);
        let cancelled = vec![started(), Event::Cancelled];
        let (iterations, usage, model) = (1, Usage::default(), String::new());
        let ended = |stop_reason| {
            let model = model.clone();
            Some(record("run_1", RunOutcome::Ended { stop_reason, iterations, usage, model }))
        };
        let failed = || Some(record("run_1", failed("it is away")));
        let running = || Some(record("run_1", RunOutcome::Running));
        for (status, journal, record, is_kept) in [
            (Completed, &done, ended(StopReason::Completed), true),
            (Completed, &done, None, false),
            (Completed, &vec![], ended(StopReason::Completed), false),
            // The end that a limit brings about is no event.
            (Completed, &begun, ended(StopReason::TokenBudget), true),
            (Failed, &begun, failed(), true),
            (Failed, &begun, None, false),
            (Cancelled, &cancelled, ended(StopReason::Cancelled), true),
            (Cancelled, &cancelled, None, false),
            (Cancelled, &cancelled, running(), false),
            (Cancelled, &begun, failed(), false),
            (Cancelled, &vec![], None, true),
            (Cancelled, &vec![], running(), false),
        ] {
            let checked = super::ended(status, journal, record.as_ref());
            assert_eq!(checked.is_ok(), is_kept, "{status:?} {journal:?} {record:?}: {checked:?}");
        }
    }

    #[test]
    fn what_is_shown_and_kept_is_in_order_and_once() {
        let events = [started(), Event::from(says("done"))];
        let seen = |numbers: &[u64]| -> Result<(), Broken> {
            shown(numbers.iter().map(|number| (*number, &events[usize::try_from(*number).unwrap()])), &events)
        };
        assert_eq!((seen(&[0, 1]), seen(&[1])), (Ok(()), Ok(())));
        assert!(seen(&[1, 0]).is_err() && seen(&[0, 0]).is_err());
        assert!(
            shown([(0, &events[1])], &events).is_err() && shown([(1, &events[1])], &events[..1]).is_err()
        );
        let turn = |id: &str| Turn { id: id.into(), ..Turn::default() };
        assert!(turns(&[turn("a"), turn("b")]).is_ok() && turns(&[turn("a"), turn("a")]).is_err());
        let epochs = |numbers: &[u64]| fencing(numbers.iter().copied().map(Epoch));
        assert!(epochs(&[1, 1, 3]).is_ok() && epochs(&[1, 3, 2]).is_err());
        assert!(may_be_done_again(false, false) && !may_be_done_again(false, true));
        assert!(!may_be_done_again(true, false));
        assert!(owned("r", "a", None).is_ok() && owned("r", "a", Some("a")).is_ok());
        assert!(owned("r", "a", Some("b")).is_err());
        assert!(pinned("c", None, 1).is_ok() && pinned("c", Some(1), 1).is_ok());
        assert!(pinned("c", Some(1), 2).is_err());
        assert!(stopped("a", &[]).is_ok() && stopped("a", &["1".to_owned()]).is_err());
    }
}
