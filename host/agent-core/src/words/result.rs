//! What a finished run gives back, in the JSON shape of the service's contract.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

use super::{Message, ToolOutcome, ToolReceipt, Usage};

/// The agent's result. Variant A wraps it in `{"result": …}`, Variant B returns it bare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentResult {
    /// Id of the run, `run_…`.
    pub id: String,
    /// The text of the model's last reply.
    pub output: String,
    /// The output as the JSON value that the caller asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_value: Option<Value>,
    /// What is wrong with the output, measured by what the caller asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_error: Option<String>,
    /// Why the run ended.
    pub stop_reason: StopReason,
    /// The transcript of the run. Every tool call in it is answered, but for those of the caller's own
    /// functions.
    pub messages: Vec<Message>,
    /// Tokens of all model calls of the run together.
    #[serde(serialize_with = "with_total")]
    pub usage: Usage,
    /// Model calls made.
    pub iterations: u32,
    /// `provider/model` of the last reply.
    pub model: String,
    /// One receipt per tool call, in the order the model asked for them. Their detail and the number of
    /// nested calls are not part of the JSON, which clients read as the result of a job: journals have them.
    #[serde(serialize_with = "without_detail")]
    pub tool_calls: Vec<ToolReceipt>,
}

impl AgentResult {
    /// Whether a call of the run went to a component that can tell users apart. Such a result is for the user
    /// whose run it was and for nobody else.
    pub fn is_per_user(&self) -> bool {
        self.tool_calls.iter().any(ToolReceipt::is_per_user)
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// The model called functions of the caller, who carries them out.
    ToolCalls,
    /// The model's last reply is not the JSON that the caller asked for, after two corrections.
    InvalidOutput,
}

impl StopReason {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Completed,
        Self::MaxIterations,
        Self::TokenBudget,
        Self::MaxTokens,
        Self::ContentFilter,
        Self::EmptyReply,
        Self::Cancelled,
        Self::ToolCalls,
        Self::InvalidOutput,
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
            Self::ToolCalls => "tool_calls",
            Self::InvalidOutput => "invalid_output",
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

fn without_detail<S: Serializer>(receipts: &[ToolReceipt], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Brief<'a> {
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        component: Option<&'a str>,
        duration_ms: f64,
        outcome: ToolOutcome,
    }
    serializer.collect_seq(receipts.iter().map(|receipt| Brief {
        name: &receipt.name,
        component: receipt.component.as_deref(),
        duration_ms: receipt.duration_ms,
        outcome: receipt.outcome,
    }))
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
        // What is known of a call besides is not the client's to read.
        let mut detailed = result;
        for receipt in &mut detailed.tool_calls {
            receipt.nested = 3;
            receipt.detail_mut().cause = Some("for operators".into());
        }
        assert_eq!(serde_json::to_string(&detailed).unwrap(), written);
    }
}
