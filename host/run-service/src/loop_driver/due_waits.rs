//! Due timers: waits that are decided by themselves because their time has come, or the child run has ended
//! that they are for. A parked job is claimed when the first of them is due, by the index of the queue.

use agent_core::agent_loop::Run;
use agent_core::chosen_tools;
use agent_core::ports::WaitDecided;
use agent_core::words::{Decision, Event, OnExpiry, Usage, Verdict, Wait};

use super::child_runs::Child;
use super::{Driver, RunError};
use crate::clock;

/// The answer to a call that waited for a time.
const TIME_HAS_COME: &str = "The time has come.";

impl Driver<'_> {
    /// What is decided by itself by now, if anything is: a wait has expired, or the run has ended that it is
    /// for. Child runs that there are not are begun.
    pub(super) async fn due(&self, run: &Run, waits: &[Wait]) -> Result<Option<Due>, RunError> {
        let now = clock::millis();
        for wait in waits {
            let (verdict, stops) = match &wait.child {
                None if wait.expires_at <= now => (expired(wait), None),
                None => continue,
                Some(child) => match self.end_of_child(run, wait).await? {
                    Some(ended) => (ended, None),
                    // What it has cost is read by `Self::billed`.
                    None if wait.expires_at <= now => (unanswered(String::new()), Some(child.job_id.clone())),
                    None => continue,
                },
            };
            let decision =
                Decision { by: None, at: now, shown: wait.shown.digest(), verdict, nonce: String::new() };
            return Ok(Some(Due { wait: wait.clone(), decision, stops }));
        }
        Ok(None)
    }

    /// What is decided, with what a child has cost by then whose time is over. It is cancelled first: what it
    /// uses behind the reading of its journal is on no bill.
    pub(super) async fn billed(&self, mut due: Due) -> Result<Due, RunError> {
        let children = &self.control.children;
        if let Some(job_id) = &due.stops {
            // silent-ok: it is stopped behind the decision as well.
            let _ = children.cancel_at_work(job_id).await;
            due.decision.verdict = children.late(self.journal, &due.wait).await.map_err(RunError::Journal)?;
        }
        Ok(due)
    }

    /// The end of a child, if it has ended or cannot be begun.
    async fn end_of_child(&self, run: &Run, wait: &Wait) -> Result<Option<Verdict>, RunError> {
        match run.child_refusal(wait) {
            Some(refusal) => Ok(Some(unanswered(refusal))),
            None => self.look(run, wait).await,
        }
    }

    async fn look(&self, run: &Run, wait: &Wait) -> Result<Option<Verdict>, RunError> {
        let chosen = wait.child.as_ref().map(|child| child.tools.as_slice());
        let tools = chosen_tools::digest(run.catalog(), chosen);
        let child = Child { wait, task: run.child_task(wait), tools };
        self.control.children.look(self.journal, child).await.map_err(RunError::Journal)
    }
}

pub(super) struct Due {
    wait: Wait,
    decision: Decision,
    /// The job of a child run that is not waited for any more.
    pub(super) stops: Option<String>,
}

impl Due {
    pub(super) fn event(&self) -> Event {
        Event::Decided { wait: self.wait.id.clone(), decision: self.decision.clone() }
    }

    pub(super) fn told(&self) -> WaitDecided<'_> {
        WaitDecided { wait: &self.wait, decision: &self.decision }
    }
}

/// The end of a child run that has used nothing.
fn unanswered(answer: String) -> Verdict {
    Verdict::Ended { answer, is_answered: false, usage: Usage::default() }
}

/// What an expired wait is decided by itself.
fn expired(wait: &Wait) -> Verdict {
    match wait.on_expiry {
        OnExpiry::Reject => Verdict::Reject { reason: None },
        OnExpiry::Approve => Verdict::Approve,
        OnExpiry::Answer => Verdict::Answer { answer: TIME_HAS_COME.into() },
    }
}
