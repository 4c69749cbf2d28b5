//! Answers the questions of a component under test, by the lines of a case or of the command line.

use std::time::{Duration, Instant};

use agent_core::ports::{CallEnds, NestedTools, Question, REJECTED, WaitTerms};
use agent_core::words::{ToolCall, ToolOutcome, ToolReceipt, ToolReturn};
use boxed_async::boxed_async;
use parking_lot::Mutex;
use serde_json::json;
use tool_kit::people::{AnswerLine, People};

/// The refusal of a call of another tool.
const NO_OTHER_TOOLS: &str = "a test has no other tools";

/// How long reading the schema of an answer may take.
const SCHEMA_TIME: Duration = Duration::from_secs(2);

/// Somebody who answers in place of a user.
#[derive(Debug, Default)]
pub(crate) struct Answering(Mutex<People>);

impl Answering {
    /// The questions of the next call are answered with these.
    pub(crate) fn answer_with(&self, lines: &[AnswerLine]) {
        *self.0.lock() = People::new(lines);
    }

    /// What went otherwise than the lines say.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.0.lock().problems()
    }
}

#[boxed_async]
impl NestedTools for Answering {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn call(&self, name: &str, _arguments: &str) -> Result<ToolReturn, CallEnds> {
        Ok(WaitTerms::not_made(&called(name), NO_OTHER_TOOLS))
    }

    /// At once: a service has the call made again with the answers that it had, and so with the same ones.
    async fn ask(&self, question: Question<'_>) -> Result<ToolReturn, CallEnds> {
        let deadline = Instant::now() + SCHEMA_TIME;
        if let Some(content) = self.0.lock().answer(question.text, question.schema, deadline) {
            return Ok(ToolReturn { content, receipt: ToolReceipt::new("ask", ToolOutcome::Ok) });
        }
        let mut rejected = WaitTerms::not_made(&called("ask"), "somebody who was asked rejected it");
        rejected.receipt.detail_mut().code = Some(REJECTED.to_owned());
        Ok(rejected)
    }
}

fn called(name: &str) -> ToolCall {
    ToolCall { id: String::new(), name: name.to_owned(), arguments: json!({}) }
}
