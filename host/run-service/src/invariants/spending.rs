//! What a run may use up by its journal, and what it has used.

use agent_core::words::{Event, RunLimits, Verdict};

/// The limits of a run, beside what has counted towards them so far.
#[derive(Debug, Default)]
pub(super) struct Spending {
    limits: RunLimits,
    replies: u32,
    used: u64,
}

impl Spending {
    /// Takes note of an event. False where the limits did not allow for it: the model had been asked often
    /// enough, no token was left when it was asked, or child runs were given more than there is.
    pub(super) fn allows(&mut self, event: &Event) -> bool {
        let before = self.used;
        self.used = before.saturating_add(tokens_of(event));
        match event {
            Event::Started { task, .. } => self.limits = task.limits,
            Event::ModelReplied { .. } => {
                self.replies += 1;
                return self.replies <= self.limits.iterations && before < self.limits.tokens;
            }
            Event::Waiting { waits, .. } => {
                let given = waits.iter().filter_map(|wait| Some(wait.child.as_ref()?.tokens));
                let given = given.fold(0, u64::saturating_add);
                return given == 0 || before.saturating_add(given) <= self.limits.tokens;
            }
            _ => {}
        }
        true
    }
}

/// The tokens that an event says were used: by a reply of the run's model, or by a run that it began.
pub(super) fn tokens_of(event: &Event) -> u64 {
    match event {
        Event::ModelReplied { reply, .. } => reply.usage.map_or(0, |usage| usage.total()),
        Event::Decided { decision, .. } => match decision.verdict {
            Verdict::Ended { usage, .. } => usage.total(),
            _ => 0,
        },
        _ => 0,
    }
}
