//! Calls that wait for somebody: which they are, and letting go of their run.

use std::time::SystemTime;

use agent_core::agent_loop::{OpenCall, Run};
use agent_core::ports::WaitingCall;
use agent_core::words::{Decision, Event, OnExpiry, Verdict, Wait};

use super::{Driver, RunError};
use crate::clock;

/// The answer to a call that waited for a time.
const TIME_HAS_COME: &str = "The time has come.";

impl Driver<'_> {
    /// What is to be decided before these calls are made. A call that was approved waits again when it would
    /// be shown differently by now. Runs that cannot wait have such calls refused by the tools themselves.
    pub(super) fn waits(&self, run: &Run, calls: &[OpenCall]) -> Vec<Wait> {
        // Nobody takes up a run that no job goes on with.
        let claimed = self.claim.map(|claim| claim.job_id.as_str());
        let Some(job_id) = claimed.or(self.control.job_id.as_deref()) else { return Vec::new() };
        let made = calls.iter().filter(|open| open.refusal.is_none());
        made.filter_map(|open| self.wait(job_id, run, open)).collect()
    }

    fn wait(&self, job_id: &str, run: &Run, open: &OpenCall) -> Option<Wait> {
        let asked = open.approved.as_ref().map_or(&open.call, |approved| &approved.asked);
        let terms = self.tools.approval(asked, run.principal())?;
        if terms.are_met(open.approved.as_ref()) {
            return None;
        }
        let id = format!("{job_id}:{}.{}", run.iterations(), open.index);
        let call =
            WaitingCall { id: &id, times_shown: open.times_shown, index: open.index, usage: run.usage() };
        Some(terms.wait(call, since_1970(clock::now())))
    }
}

/// What an expired wait is decided by itself, if one of these has expired.
pub(super) fn expired(waits: &[Wait]) -> Option<Event> {
    let now = since_1970(clock::now());
    let wait = waits.iter().find(|wait| wait.expires_at <= now)?;
    let verdict = match wait.on_expiry {
        OnExpiry::Reject => Verdict::Reject { reason: None },
        OnExpiry::Approve => Verdict::Approve,
        OnExpiry::Answer => Verdict::Answer { answer: TIME_HAS_COME.into() },
    };
    let decision = Decision { by: None, at: now, shown: wait.shown.digest(), verdict };
    Some(Event::Decided { wait: wait.id.clone(), decision })
}

/// The end of an attempt whose run waits.
pub(super) fn parked(waits: &[Wait], events: u64) -> RunError {
    RunError::Parked { until: waits.iter().map(|wait| wait.expires_at).min().unwrap_or_default(), events }
}

/// How many milliseconds a moment is behind 1970.
pub(crate) fn since_1970(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
