//! Calls that wait for somebody: which of them are decided, and what that means for the call.

use std::sync::Arc;

use super::open_wait::{Decided, OpenWait};
use super::{Run, Step, UnexpectedEvent, Waiting};
use crate::words::{AgentResult, CallPlace, Catalog, Decision, Event, StopReason, ToolCall, Verdict, Wait};

impl Run {
    /// The waits that the run has, by call, decided or not.
    pub fn waits(&self) -> impl Iterator<Item = &OpenWait> {
        self.waits.values()
    }

    /// The epoch under which decisions about them are written. `None` when the run was taken up since the
    /// last of them: the journal takes nothing under an earlier epoch then.
    pub fn waits_epoch(&self) -> Option<u64> {
        self.waits_epoch
    }

    /// Folds a journal for somebody who goes on with nothing of it: what the run waits for does not depend on
    /// the tools of now.
    pub fn waiting(events: impl IntoIterator<Item = Event>) -> Result<Self, UnexpectedEvent> {
        Self::fold(events, Arc::new(Catalog::default()))
    }

    /// How often that was shown to somebody.
    pub fn times_shown(&self, place: CallPlace) -> u32 {
        self.shown.get(&place).copied().unwrap_or_default()
    }

    /// What the run has come to while calls of its last reply have no answer, as if it ended there: the model
    /// is told of these that somebody has to decide first. `None` where no call is open.
    pub fn so_far(mut self) -> Option<AgentResult> {
        let Waiting::Tools(calls) = std::mem::replace(&mut self.waiting, Waiting::Over) else { return None };
        // A call that has called other tools is gone on with, as a child run is, and was not broken off.
        self.nested.clear();
        self.waits.retain(|_, open| open.decided().is_some());
        self.leave_unanswered(calls, "somebody has to decide about it first");
        match self.finish(StopReason::Completed) {
            Step::Done(result) => Some(*result),
            Step::AskModel(_) | Step::CallTools(_) | Step::Park(_) => None,
        }
    }

    fn is_undecided(&self, index: usize) -> bool {
        self.waits.iter().any(|(place, open)| place.index == index && open.decided().is_none())
    }

    /// Whether a call waits, or comes after one that does: those that may destroy something keep the order
    /// that the model gave them.
    pub(super) fn is_held(&self, index: usize, call: &ToolCall) -> bool {
        let may_destroy = |name: &str| self.catalog.get(name).is_some_and(|tool| self.may_destroy(tool));
        let before = |open: &OpenWait| {
            let of_reply = open.wait.within.as_ref().map_or(&open.wait.shown.tool, |within| &within.tool);
            open.wait.index < index && may_destroy(of_reply) && open.decided().is_none()
        };
        self.is_undecided(index) || (may_destroy(&call.name) && self.waits.values().any(before))
    }

    pub(super) fn on_waiting(&mut self, waits: Vec<Wait>, epoch: u64) -> Result<(), UnexpectedEvent> {
        let Waiting::Tools(calls) = &self.waiting else { return Err(self.unexpected("waits for no tools")) };
        let is_open = |wait: &Wait| matches!(calls.get(wait.index), Some((_, None)));
        if !waits.iter().all(is_open) {
            return Err(self.unexpected("waits for other tools"));
        }
        self.waits_epoch = Some(epoch);
        for wait in waits {
            let place = wait.place();
            if place.nested.is_some() {
                // The call has ended in good order, and is made again when that is decided.
                self.started.remove(&place.index);
            }
            *self.shown.entry(place).or_default() += 1;
            self.waits.insert(place, OpenWait { wait, decisions: Vec::new() });
        }
        Ok(())
    }

    pub(super) fn on_decided(&mut self, id: &str, decision: Decision) -> Result<(), UnexpectedEvent> {
        let open = self.waits.values_mut().find(|open| open.wait.id == id && open.decided().is_none());
        match open {
            Some(open) => {
                if let Verdict::Ended { usage, .. } = &decision.verdict {
                    self.usage = self.usage.plus(*usage);
                }
                open.decisions.push(decision);
            }
            None => return Err(self.unexpected("does not wait for that decision")),
        }
        Ok(())
    }

    /// What was decided about a call, if anything was.
    pub(super) fn decided(&self, index: usize, call: &Arc<ToolCall>) -> Option<Decided> {
        self.waits.get(&CallPlace { index, nested: None })?.makes_of(call)
    }
}
