//! Notices a model that asks for the same thing again and again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::words::{ToolCall, ToolOutcome, ToolReturn};

/// The calls of the last reply, each with what equal calls were answered in the replies right before it. A
/// reply without a call ends that call's row.
#[derive(Debug, Default)]
pub(super) struct Repeats(Vec<Row>);

#[derive(Debug)]
struct Row {
    call: Arc<ToolCall>,
    /// Fingerprints of the last two answers, the newest one last.
    answers: (Option<u64>, Option<u64>),
}

impl Repeats {
    /// Takes note of a reply whose calls were all answered.
    pub(super) fn note<'a>(
        &mut self,
        answered: impl IntoIterator<Item = (&'a Arc<ToolCall>, &'a ToolReturn)>,
    ) {
        let mut rows: Vec<Row> = Vec::new();
        for (call, answer) in answered {
            let row = self.row(call, &mut rows);
            // A call that was not made says nothing about what making it would give.
            if answer.receipt.outcome != ToolOutcome::NotRun {
                row.answers = (row.answers.1, Some(fingerprint(answer)));
            }
        }
        self.0 = rows;
    }

    /// Whether an equal call was made twice in a row and answered the same both times.
    pub(super) fn is_pointless(&self, call: &ToolCall) -> bool {
        let row = self.0.iter().find(|row| is_equal(&row.call, call));
        row.is_some_and(|row| row.answers.0.is_some() && row.answers.0 == row.answers.1)
    }

    /// The call's row among the new ones, which goes on where the old one stood.
    fn row<'r>(&self, call: &Arc<ToolCall>, rows: &'r mut Vec<Row>) -> &'r mut Row {
        let place = rows.iter().position(|row| is_equal(&row.call, call));
        let place = place.unwrap_or_else(|| {
            let before = self.0.iter().find(|row| is_equal(&row.call, call));
            let answers = before.map(|row| row.answers).unwrap_or_default();
            rows.push(Row { call: call.clone(), answers });
            rows.len() - 1
        });
        &mut rows[place]
    }
}

fn is_equal(one: &ToolCall, other: &ToolCall) -> bool {
    one.name == other.name && one.arguments == other.arguments
}

/// Equal for equal answers. What was too long was never read, so that all such answers are one; the text that
/// the model got instead says how much room there was and differs.
fn fingerprint(answer: &ToolReturn) -> u64 {
    let outcome = answer.receipt.outcome;
    let mut hasher = DefaultHasher::new();
    outcome.hash(&mut hasher);
    if outcome != ToolOutcome::OutputLimit {
        answer.content.hash(&mut hasher);
    }
    hasher.finish()
}
