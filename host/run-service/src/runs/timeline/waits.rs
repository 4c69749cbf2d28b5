//! Lines about what a run waits for and what was decided.

use agent_core::terminal_text::shown;
use agent_core::words::{ChildRun, Decision, Verdict, Wait};

use super::{TEXT_CHARS, Timeline, word};

impl Timeline<'_> {
    /// One line for each call that waits, with what those who decide are shown.
    pub(super) fn waiting(&mut self, number: usize, waits: &[Wait]) {
        self.numbered(number, format_args!("waits"));
        for wait in waits {
            let (tool, arguments) = (word(&wait.shown.tool), wait.shown.arguments.to_string());
            let place = match &wait.within {
                None => wait.index.to_string(),
                Some(within) => format!("{}.{}", wait.index, within.number),
            };
            self.beneath(1, format_args!("[{place}] {tool} {}", shown(&arguments, TEXT_CHARS)));
            let (component, digest) = (word(&wait.shown.component), wait.shown.digest());
            self.beneath(2, format_args!("wait {}, {component}, shown {digest}", word(&wait.id)));
            if let Some(ChildRun { job_id, run_id, tokens, .. }) = &wait.child {
                let (job_id, run_id) = (word(job_id), word(run_id));
                self.beneath(2, format_args!("job {job_id}, run {run_id}, {tokens} tokens at most"));
            }
        }
    }
}

/// What somebody decided, in words.
pub(super) fn decided(decision: &Decision) -> String {
    let by = decision.by.as_deref().map_or_else(|| "nobody in time, so".to_owned(), word);
    match &decision.verdict {
        Verdict::Approve => format!("{by} approved"),
        Verdict::Reject { reason: None } => format!("{by} rejected"),
        Verdict::Reject { reason: Some(reason) } => format!("{by} rejected: {}", shown(reason, TEXT_CHARS)),
        Verdict::Answer { answer } => format!("{by} answered {}", shown(&answer.to_string(), TEXT_CHARS)),
        Verdict::Ended { answer, usage, .. } => {
            format!("its run ended with {} tokens: {}", usage.total(), shown(answer, TEXT_CHARS))
        }
        Verdict::Edit { arguments } => {
            format!("{by} approved with {}", shown(&arguments.to_string(), TEXT_CHARS))
        }
    }
}
