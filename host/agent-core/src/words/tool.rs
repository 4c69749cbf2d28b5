//! How a tool call ended. `receipt.rs` has the rest of what is known of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a tool call ended. Everything but [`Ok`](Self::Ok) is told to the model as an error text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The tool returned a value.
    Ok,
    /// The tool itself reported a failure.
    Failed,
    /// The arguments were not a JSON object or did not match the tool's schema; nothing ran.
    InvalidArguments,
    /// No tool of that name is loaded; nothing ran.
    UnknownTool,
    /// The call was under way when its worker died or its run ended, and its tool is neither read-only nor
    /// idempotent: whether it had an effect is not known, and it is not made again.
    Interrupted,
    /// The run did not make the call: it ended before, made it twice already for the same answer, or there
    /// were too many calls in one reply. Nothing ran.
    NotRun,
    /// The deadline passed and the tool was interrupted.
    TimedOut,
    /// The tool crashed.
    Trapped,
    /// The tool wanted more memory, tables or instances than it may have.
    MemoryLimit,
    /// The tool returned more bytes than it may, or more than the run's token budget had room for.
    OutputLimit,
    /// The tool returned something that is not JSON or does not match its own schema.
    InvalidOutput,
    /// The host could not run the tool; its log says why.
    HostError,
    /// Whoever asked for the call went away before it ended. Only counted: there is nobody left to answer.
    Cancelled,
}

impl ToolOutcome {
    /// The outcome as it stands in JSON and in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::InvalidArguments => "invalid_arguments",
            Self::UnknownTool => "unknown_tool",
            Self::Interrupted => "interrupted",
            Self::NotRun => "not_run",
            Self::TimedOut => "timed_out",
            Self::Trapped => "trapped",
            Self::MemoryLimit => "memory_limit",
            Self::OutputLimit => "output_limit",
            Self::InvalidOutput => "invalid_output",
            Self::HostError => "host_error",
            Self::Cancelled => "cancelled",
        }
    }
}
