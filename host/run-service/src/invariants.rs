//! What always holds, as pure functions: the simulator (`host/sim`) asks them after every step, the judge of
//! `cargo xtask chaos` of every kill, and `debug_assert!` in this crate where the data are at hand.

use std::collections::{BTreeMap, BTreeSet};

use agent_core::agent_loop::OpenWait;
use agent_core::ports::Epoch;
use agent_core::words::{CallPlace, Event, ModelReply, ToolOutcome, Turn};

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
pub const ONE_TURN: &str = "a conversation has each turn once";

/// A journal, as far as it goes.
pub fn journal<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<(), Broken> {
    let mut fold = Fold::default();
    events.into_iter().enumerate().try_for_each(|(number, event)| {
        fold.on(event).map_err(|rule| Broken { rule, what: format!("event {number}: {event:?}") })
    })
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
        match event {
            Event::ModelReplied { reply, output_fault, last_by, .. } => {
                if self.answered.contains(&false) {
                    return Err(ONE_ANSWER);
                }
                let is_last = output_fault.is_none() && is_answer(reply);
                self.has_ended = is_last || last_by.is_some();
                self.answered = vec![false; if last_by.is_some() { 0 } else { reply.tool_calls.len() }];
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

/// Whether a run ends with that reply, if nothing is wrong with it.
fn is_answer(reply: &ModelReply) -> bool {
    reply.tool_calls.is_empty() && !reply.content.is_empty()
}

#[cfg(test)]
mod tests {
    use agent_core::testing::{asks_for, says, task};
    use agent_core::words::{ToolReceipt, ToolReturn};
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
        ] {
            assert_eq!(broken(&events), rule, "{events:?}");
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
    }
}
