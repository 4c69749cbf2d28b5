//! What a finished run gives back, in the JSON shape of the service's contract.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::message::{Message, Usage};

/// The agent's result. Variant A wraps it in `{"result": …}`, Variant B returns it bare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentResult {
    /// Id of the run, `run_…`.
    pub id: String,
    /// The text of the model's last reply.
    pub output: String,
    /// Why the run ended.
    pub stop_reason: StopReason,
    /// The whole transcript. Every tool call in it is answered.
    pub messages: Vec<Message>,
    /// Tokens of all model calls of the run together.
    #[serde(serialize_with = "with_total")]
    pub usage: Usage,
    /// Model calls made.
    pub iterations: u32,
    /// `provider/model` of the last reply.
    pub model: String,
    /// One receipt per tool call, in the order the model asked for them.
    pub tool_calls: Vec<ToolReceipt>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model gave its final answer.
    Completed,
    /// The run made as many model calls as it may. The last one was asked for words only.
    MaxIterations,
    /// The token budget allowed for one last model call, which was asked for words only, or for none.
    TokenBudget,
    /// The model's last reply was cut off at `options.maxTokens` or at the provider's own limit.
    MaxTokens,
    /// The provider's content filter stopped the model's last reply, or the model refused to answer.
    ContentFilter,
    /// The model replied twice in a row with neither words nor tool calls.
    EmptyReply,
    /// The run was cancelled.
    Cancelled,
}

impl StopReason {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Completed,
        Self::MaxIterations,
        Self::TokenBudget,
        Self::MaxTokens,
        Self::ContentFilter,
        Self::EmptyReply,
        Self::Cancelled,
    ];

    /// The reason as it stands in JSON and in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::MaxIterations => "max_iterations",
            Self::TokenBudget => "token_budget",
            Self::MaxTokens => "max_tokens",
            Self::ContentFilter => "content_filter",
            Self::EmptyReply => "empty_reply",
            Self::Cancelled => "cancelled",
        }
    }
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

fn with_total<S: Serializer>(usage: &Usage, serializer: S) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_struct("Usage", 3)?;
    object.serialize_field("inputTokens", &usage.input_tokens)?;
    object.serialize_field("outputTokens", &usage.output_tokens)?;
    object.serialize_field("totalTokens", &usage.total())?;
    object.end()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stop_reason_is_called_the_same_everywhere() {
        for reason in StopReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }

    #[test]
    fn a_result_that_is_read_back_is_the_one_that_was_written() {
        let text = json!({
            "id": "run_1", "output": "3", "stopReason": "completed",
            "messages": [
                {"role": "user", "content": "1+2?"},
                {"role": "assistant", "content": "",
                 "toolCalls": [{"id": "call_1", "name": "add", "arguments": {"a": 0.1, "b": 5e-324}}]},
                {"role": "tool", "toolCallId": "call_1", "name": "add", "content": "{}"},
                {"role": "assistant", "content": "3"},
            ],
            "usage": {"inputTokens": 210, "outputTokens": 18, "totalTokens": 228},
            "iterations": 2, "model": "openai/m",
            "toolCalls": [
                {"name": "add", "component": "c@sha256:1", "durationMs": 0.087_654_321_987_654_3, "outcome": "ok"},
                {"name": "nope", "durationMs": 0.0, "outcome": "unknown_tool"},
            ],
        });
        let result: AgentResult = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(serde_json::to_value(&result).unwrap(), text);
        let written = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<AgentResult>(&written).unwrap(), result);
    }
}
