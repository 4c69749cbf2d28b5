//! A wait with what was decided about it, and what that makes of its call.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::refusal;
use crate::words::{Decision, Event, ToolCall, ToolReturn, Verdict, Wait};

/// A wait and the decisions about it.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenWait {
    pub wait: Wait,
    pub decisions: Vec<Decision>,
}

impl OpenWait {
    /// The wait of that id that these events of a journal decide, also when the run has gone on since: who
    /// comes second may come after its next reply, or after its end.
    pub fn decided_in(events: &[Event], id: &str) -> Option<Self> {
        let mut open: Option<Self> = None;
        for event in events {
            match (event, &mut open) {
                (Event::Waiting { waits, .. }, open) => {
                    if let Some(wait) = waits.iter().find(|wait| wait.id == id) {
                        *open = Some(Self { wait: wait.clone(), decisions: Vec::new() });
                    }
                }
                (Event::Decided { wait, decision }, Some(open)) if wait == id => {
                    open.decisions.push(decision.clone());
                }
                _ => {}
            }
        }
        open.filter(|open| open.decided().is_some())
    }

    /// The decision that is complete, once there is one: one who rejects, edits or answers, an expiry and the
    /// end of a child run decide alone, and as many have to approve as the wait says, never the same one
    /// twice.
    pub fn decided(&self) -> Option<&Decision> {
        let mut approving = BTreeSet::new();
        self.decisions.iter().find(|decision| match &decision.verdict {
            Verdict::Reject { .. }
            | Verdict::Edit { .. }
            | Verdict::Answer { .. }
            | Verdict::Ended { .. } => true,
            Verdict::Approve => {
                approving.insert(&decision.by);
                decision.by.is_none() || approving.len() >= self.wait.deciders.count as usize
            }
        })
    }

    /// How the call that it is about goes on, once that is decided.
    pub fn makes_of(&self, call: &Arc<ToolCall>) -> Option<Decided> {
        let decision = self.decided()?;
        let approved = Approved { digest: decision.shown.clone(), asked: call.clone() };
        Some(match &decision.verdict {
            Verdict::Approve => Decided::Made { call: call.clone(), approved },
            Verdict::Edit { arguments } => {
                let edited = ToolCall { arguments: arguments.clone(), ..ToolCall::clone(call) };
                Decided::Made { call: Arc::new(edited), approved }
            }
            Verdict::Reject { reason } => {
                Decided::Answered(Box::new(refusal::rejected(call, decision.by.is_none(), reason.as_deref())))
            }
            Verdict::Answer { answer } => Decided::Answered(Box::new(refusal::answered(call, answer))),
            Verdict::Ended { answer, is_answered, .. } => {
                let child = self.wait.child.as_ref().map(|child| child.job_id.clone());
                Decided::Answered(Box::new(refusal::ended(call, answer, *is_answered, child)))
            }
        })
    }

    /// Whether that user is among those who have decided.
    pub fn has_decided(&self, user_id: &str) -> bool {
        self.decisions.iter().any(|decision| decision.by.as_deref() == Some(user_id))
    }
}

/// A call that somebody approved, as they were shown it.
#[derive(Debug, Clone, PartialEq)]
pub struct Approved {
    /// [`ShownCall::digest`](crate::words::ShownCall::digest) of what they were shown.
    pub digest: String,
    /// The call as the model asked for it, and as it was shown: its arguments may have been edited since.
    pub asked: Arc<ToolCall>,
}

/// How a call goes on behind a complete decision.
#[derive(Debug)]
pub enum Decided {
    /// The call is made like this.
    Made { call: Arc<ToolCall>, approved: Approved },
    /// The call is not made: this is its answer.
    Answered(Box<ToolReturn>),
}
