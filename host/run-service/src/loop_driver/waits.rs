//! Calls that wait for somebody: which they are, and letting go of their run.

use agent_core::agent_loop::{OpenCall, Run, Step};
use agent_core::ports::WaitingCall;
use agent_core::words::{CallPlace, Event, OpenKinds, Wait};

use super::child_runs::look_again;
use super::{Driver, Journaled, RunError};
use crate::clock;

impl Driver<'_> {
    /// What is to be decided before these calls are made. A call that was approved waits again when it would
    /// be shown differently by now. Runs that cannot wait have such calls refused by the tools themselves.
    pub(super) fn waits(&self, run: &Run, calls: &[OpenCall]) -> Vec<Wait> {
        let Some(job_id) = self.job_id() else { return Vec::new() };
        let made = calls.iter().filter(|open| open.refusal.is_none());
        let mut waits: Vec<_> = made.filter_map(|open| self.wait(job_id, run, open)).collect();
        run.begin_children(&mut waits);
        waits
    }

    /// The job that goes on with the run when it has waited. Absent where nobody would take it up.
    pub(super) fn job_id(&self) -> Option<&str> {
        let claimed = self.claim.map(|claim| claim.job_id.as_str());
        claimed.or(self.control.job_id.as_deref())
    }

    fn wait(&self, job_id: &str, run: &Run, open: &OpenCall) -> Option<Wait> {
        let asked = open.approved.as_ref().map_or(&open.call, |approved| &approved.asked);
        let terms = self.tools.approval(asked, run.principal())?;
        if terms.are_met(open.approved.as_ref()) {
            return None;
        }
        let place = CallPlace { index: open.index, nested: None };
        let id = Wait::new_id(job_id, run.id(), run.iterations(), place);
        let call = WaitingCall {
            id: &id,
            times_shown: open.times_shown,
            index: open.index,
            within: None,
            usage: run.usage(),
        };
        Some(terms.wait(call, clock::millis()))
    }

    /// Journals what calls wait for.
    pub(super) async fn begin_to_wait(
        &self,
        run: &mut Journaled,
        waits: Vec<Wait>,
    ) -> Result<Step, RunError> {
        let kinds: Vec<_> = waits.iter().map(|wait| wait.kind).collect();
        let step = self.note(run, Event::Waiting { waits, epoch: self.epoch().0 }).await?;
        kinds.into_iter().for_each(|kind| self.control.observer.0.wait_began(kind));
        Ok(step)
    }

    /// Stops the child runs of one that has ended.
    pub(super) async fn stop_children(&self, run: &Run) {
        self.control.children.stop(run.children().map(|(_, child)| child.job_id.as_str())).await;
    }

    /// The end of an attempt that took its run up too early. Whoever was about to decide had the job claimed,
    /// and may have died of it or have been told that it failed: what they wrote can still arrive.
    pub(super) fn parked_again(&self, run: &Run, waits: &[Wait], events: u64) -> RunError {
        match self.parked(run, waits, events) {
            RunError::Parked { until, due, events, children, open } => {
                let due = due.min(look_again(began_to_wait(run, waits), clock::millis()));
                RunError::Parked { until, due, events, children, open }
            }
            other => other,
        }
    }

    /// The end of an attempt whose run waits.
    pub(super) fn parked(&self, run: &Run, waits: &[Wait], events: u64) -> RunError {
        let until = waits.iter().map(|wait| wait.expires_at).min().unwrap_or_default();
        let children: Vec<_> = run.children().map(|(_, child)| child.job_id.clone()).collect();
        let look = match children.is_empty() {
            true => u64::MAX,
            false => self.control.children.due(began_to_wait(run, waits), clock::millis()),
        };
        RunError::Parked { until, due: until.min(look), events, children, open: OpenKinds::of(waits) }
    }
}

/// When a run began to wait for what it waits for now.
fn began_to_wait(run: &Run, waits: &[Wait]) -> u64 {
    let decided = run.waits().filter_map(|open| open.decided()).map(|decision| decision.at);
    waits.iter().map(|wait| wait.began_at).chain(decided).max().unwrap_or_default()
}
