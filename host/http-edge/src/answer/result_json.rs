//! The agent's result as clients read it (host/docs/interface/decisions-runs.md#the-result). Journals and
//! stores keep the same facts in forms of their own, so that those can change without the interface. The
//! result cache keeps this form: its bytes are passed on as they are where they are
//! [`agent_core::words::CanonicalResult`]s. A test asks for kept results both ways.

use std::borrow::Cow;

use agent_core::words::{AgentResult, Message, StopReason, ToolCall, ToolOutcome, ToolReceipt, Usage};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// What a run came to. Variant A wraps it, Variant B puts `cached` beside its fields.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentResult)]
pub(crate) struct ResultBody<'a> {
    /// Names the run.
    #[schema(example = "run_019b1c2d")]
    id: &'a str,
    /// The text of the model's last reply.
    #[schema(example = "6 * 7 is 42.")]
    output: &'a str,
    /// The output as the JSON that `options.outputSchema` asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = json!({"answer": 42}))]
    output_value: Option<&'a Value>,
    /// What is wrong with the output, if the model did not keep to `options.outputSchema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "The reply is not JSON: expected value at line 1 column 1.")]
    output_error: Option<&'a str>,
    /// Why the run ended.
    #[schema(value_type = StopReason)]
    stop_reason: &'static str,
    /// The whole transcript. Every tool call in it is answered.
    messages: Vec<MessageBody<'a>>,
    /// What the model calls of the run cost together.
    usage: UsageBody,
    /// Model calls that were made.
    #[schema(example = 2)]
    iterations: u32,
    /// `provider/model` of the last reply.
    #[schema(example = "openai/gpt-5")]
    model: &'a str,
    /// One receipt for each tool call, in the order in which the model asked for them.
    tool_calls: Vec<ReceiptBody<'a>>,
}

/// One message of a run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "role", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[schema(as = Message)]
pub(crate) enum MessageBody<'a> {
    /// What the caller said.
    User {
        /// The text.
        #[schema(value_type = String, example = "What is 6 * 7?")]
        content: Cow<'a, str>,
    },
    /// What the model replied.
    Assistant {
        /// The text; empty when there are only tool calls.
        #[schema(example = "6 * 7 is 42.")]
        content: &'a str,
        /// The tools that it wants called.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[schema(rename = "toolCalls")]
        tool_calls: Vec<ToolCallBody<'a>>,
    },
    /// What a tool answered.
    Tool {
        /// The call that it answers.
        #[schema(rename = "toolCallId", example = "call_1")]
        tool_call_id: &'a str,
        /// The tool.
        #[schema(example = "calculate")]
        name: &'a str,
        /// The answer as the model reads it: JSON, or an error text.
        #[schema(example = "{\"value\":42}")]
        content: &'a str,
    },
}

/// A call of a tool that a model asks for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolCall)]
pub(crate) struct ToolCallBody<'a> {
    /// Names the call within the run.
    #[schema(example = "call_1")]
    id: &'a str,
    /// The tool.
    #[schema(example = "calculate")]
    name: &'a str,
    /// What the model wants it called with: an object, unless the model made a mistake.
    #[schema(example = json!({"expression": "6 * 7"}))]
    arguments: &'a Value,
}

/// Tokens that were used.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Usage)]
struct UsageBody {
    /// Tokens that the model read.
    #[schema(example = 210)]
    input_tokens: u64,
    /// Tokens that the model wrote.
    #[schema(example = 18)]
    output_tokens: u64,
    /// Both together.
    #[schema(example = 228)]
    total_tokens: u64,
}

/// What one call of a tool came to.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolReceipt)]
struct ReceiptBody<'a> {
    /// The tool.
    #[schema(example = "calculate")]
    name: &'a str,
    /// The component that has it, with its digest; absent when there is no such tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "calculator@sha256:9f86d081884c7d65")]
    component: Option<&'a str>,
    /// How long it took, in milliseconds.
    #[schema(minimum = 0, example = 0.08)]
    duration_ms: f64,
    /// How it ended.
    #[schema(value_type = ToolOutcome)]
    outcome: &'static str,
}

impl<'a> From<&'a AgentResult> for ResultBody<'a> {
    fn from(result: &'a AgentResult) -> Self {
        Self {
            id: &result.id,
            output: &result.output,
            output_value: result.output_value.as_ref(),
            output_error: result.output_error.as_deref(),
            stop_reason: result.stop_reason.as_str(),
            messages: result.messages.iter().filter_map(MessageBody::of).collect(),
            usage: UsageBody::from(result.usage),
            iterations: result.iterations,
            model: &result.model,
            tool_calls: result.tool_calls.iter().map(ReceiptBody::from).collect(),
        }
    }
}

impl<'a> MessageBody<'a> {
    /// Instructions are no part of what clients read.
    pub(crate) fn of(message: &'a Message) -> Option<Self> {
        Some(match message {
            Message::System { .. } => return None,
            // Images are for clients of OpenAI, and named here.
            Message::User { content } => Self::User { content: content.text() },
            Message::Assistant { content, tool_calls } => {
                Self::Assistant { content, tool_calls: tool_calls.iter().map(ToolCallBody::from).collect() }
            }
            Message::Tool { tool_call_id, name, content } => Self::Tool { tool_call_id, name, content },
        })
    }
}

impl<'a> From<&'a ToolCall> for ToolCallBody<'a> {
    fn from(call: &'a ToolCall) -> Self {
        Self { id: &call.id, name: &call.name, arguments: &call.arguments }
    }
}

impl From<Usage> for UsageBody {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            total_tokens: usage.total(),
        }
    }
}

impl<'a> From<&'a ToolReceipt> for ReceiptBody<'a> {
    fn from(receipt: &'a ToolReceipt) -> Self {
        Self {
            name: &receipt.name,
            component: receipt.component.as_deref(),
            duration_ms: receipt.duration_ms,
            outcome: receipt.outcome.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_core::words::{ReceiptDetail, StopReason, ToolOutcome};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_has_the_shape_of_the_interface() {
        let call = ToolCall { id: "call_1".into(), name: "add".into(), arguments: json!({"a": 1, "b": 2}) };
        // What operators read of a call stands beside it and stays out of the body.
        let detail = ReceiptDetail { cause: Some("for operators".into()), ..ReceiptDetail::default() };
        let receipt = |name: &str, component: Option<&str>, outcome| ToolReceipt {
            component: component.map(str::to_owned),
            duration_ms: 0.5,
            nested: 2,
            detail: Some(Box::new(detail.clone())),
            ..ToolReceipt::new(name, outcome)
        };
        let result = AgentResult {
            id: "run_1".into(),
            output: "3".into(),
            output_value: None,
            output_error: None,
            stop_reason: StopReason::MaxIterations,
            messages: vec![
                Message::User { content: "1+2?".into() },
                Message::Assistant { content: String::new(), tool_calls: vec![call] },
                Message::Tool { tool_call_id: "call_1".into(), name: "add".into(), content: "{}".into() },
                Message::Assistant { content: "3".into(), tool_calls: vec![] },
            ],
            usage: Usage::of(210, 18),
            iterations: 2,
            model: "openai/m".into(),
            tool_calls: vec![
                receipt("add", Some("c@sha256:1"), ToolOutcome::Ok),
                receipt("nope", None, ToolOutcome::UnknownTool),
            ],
        };
        // As text: the interface has an order of the fields, too
        // (host/docs/interface/decisions-runs.md#the-result).
        assert_eq!(
            serde_json::to_string(&ResultBody::from(&result)).unwrap(),
            concat!(
                r#"{"id":"run_1","output":"3","stopReason":"max_iterations","messages":["#,
                r#"{"role":"user","content":"1+2?"},"#,
                r#"{"role":"assistant","content":"","#,
                r#""toolCalls":[{"id":"call_1","name":"add","arguments":{"a":1,"b":2}}]},"#,
                r#"{"role":"tool","toolCallId":"call_1","name":"add","content":"{}"},"#,
                r#"{"role":"assistant","content":"3"}],"#,
                r#""usage":{"inputTokens":210,"outputTokens":18,"totalTokens":228},"#,
                r#""iterations":2,"model":"openai/m","toolCalls":["#,
                r#"{"name":"add","component":"c@sha256:1","durationMs":0.5,"outcome":"ok"},"#,
                r#"{"name":"nope","durationMs":0.5,"outcome":"unknown_tool"}]}"#,
            )
        );
    }
}
