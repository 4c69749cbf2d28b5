//! The one entry to an agent run, and the wrappers around it: one file each.
//!
//! Wrappers are stacked in one visible place, the binary's `wire/invoke.rs`.

mod agent;
mod deadline;

use async_trait::async_trait;

pub use agent::Agent;
pub use deadline::Deadline;

use crate::drive::DriveError;
use crate::message::Options;
use crate::result::AgentResult;

/// Answers a caller's text with an agent run, or with something around one.
#[async_trait]
pub trait Invoke: Send + Sync {
    /// Runs the agent. Dropping the future stops the run.
    async fn invoke(&self, ask: Ask) -> Result<AgentResult, InvokeError>;
}

/// What a caller wants.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Id of the HTTP request or job.
    pub request_id: String,
    /// The caller's text.
    pub input: String,
    /// The caller's wishes for every model call.
    pub options: Options,
    /// When the answer must be there. [`Deadline`] sets it.
    pub deadline: Option<std::time::Instant>,
}

/// Why there is no answer. What a client may read of it is decided by each variant's error table.
#[derive(Debug, thiserror::Error)]
pub enum InvokeError {
    /// The run broke off.
    #[error("the agent run failed")]
    Run(#[source] DriveError),
    /// The run took longer than it may.
    #[error("the agent run took longer than {} ms", .0.as_millis())]
    TimedOut(std::time::Duration),
}
