//! What is asked of the service: one request or job of each kind.

use acceptance::{Service, Token};

use super::Queue;

/// One thing whose cost is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// `POST /api/agent` with a new question.
    Miss,
    /// `POST /api/agent` with a known question.
    Hit,
    /// A job of one model call: submitted, worked on, waited for with `?wait=`.
    Job,
    /// A job with a tool call and so two model calls.
    ToolJob,
}

/// Callers. Their lists of jobs do not grow beyond what real ones are.
const USERS: usize = 50;

impl Unit {
    /// Units that are worth counting with that queue. What a request costs does not depend on it.
    pub(super) fn of(queue: Queue) -> &'static [Self] {
        match queue {
            Queue::Redis => &[Self::Miss, Self::Hit, Self::Job, Self::ToolJob],
            Queue::Postgres => &[Self::Job, Self::ToolJob],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Miss => "miss",
            Self::Hit => "hit",
            Self::Job => "job",
            Self::ToolJob => "tool_job",
        }
    }

    /// Does it once. `number` is used once for each bench.
    pub(super) async fn carry_out(self, service: &Service, number: usize) {
        let user = service.user(Token::of(format!("user-{}", number % USERS)).premium());
        match self {
            Self::Miss => {
                let result = user.result_of(&format!("word {number}")).await;
                assert_eq!(result["cached"], false, "{result:#}");
            }
            Self::Hit => {
                let result = service.user(Token::of("known").premium()).result_of("known").await;
                assert_eq!(result["output"], "heard known", "{result:#}");
            }
            Self::Job | Self::ToolJob => {
                let asked = if self == Self::Job { "word" } else { "add one to" };
                let id = user.job_for(&format!("{asked} {number}")).await;
                let job = user.ended_job(&id).await;
                assert_eq!(job["status"], "completed", "{job:#}");
            }
        }
    }
}
