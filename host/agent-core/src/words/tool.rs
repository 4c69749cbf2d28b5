//! What a tool call came to.

use serde::{Deserialize, Serialize};

/// The answer to one tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolReturn {
    /// What the model is told.
    pub content: String,
    /// What it came to.
    pub receipt: ToolReceipt,
}

/// What one tool call came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReceipt {
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// `component@sha256:…` of the code that ran; absent when none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// How long the call took in the host, in milliseconds.
    pub duration_ms: f64,
    /// How it ended.
    pub outcome: ToolOutcome,
    /// Whether the component that ran, or one that it called, can tell users apart: then the answer may be one user's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_user: bool,
}

impl ToolReceipt {
    /// The receipt of a call for which no code has run (yet).
    pub fn new(name: impl Into<String>, outcome: ToolOutcome) -> Self {
        Self { name: name.into(), component: None, duration_ms: 0.0, outcome, per_user: false }
    }

    /// Whether the answer may be one user's. Everything that decides about sharing asks here.
    pub fn is_per_user(&self) -> bool {
        self.per_user
    }
}

/// How a tool call ended. Everything but [`Ok`](Self::Ok) is told to the model as an error text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// The call was under way when its worker died, and its tool is neither read-only nor idempotent: whether it had
    /// an effect is not known, and it is not made again.
    Interrupted,
    /// The run did not make the call: it ended before, made it twice already for the same answer, or there were too
    /// many calls in one reply. Nothing ran.
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
