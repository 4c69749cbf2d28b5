//! The agent's result as clients read it (decisions, "The agent's result"). Journals and stores keep the same facts in
//! forms of their own, so that those can change without the interface.

use agent_core::words::{AgentResult, Message, ToolCall, ToolReceipt, Usage};
use serde::Serialize;
use serde_json::Value;

/// The JSON of a result. Variant A wraps it, Variant B puts `cached` beside its fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResultBody<'a> {
    id: &'a str,
    output: &'a str,
    stop_reason: &'static str,
    messages: Vec<MessageBody<'a>>,
    usage: UsageBody,
    iterations: u32,
    model: &'a str,
    tool_calls: Vec<ReceiptBody<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum MessageBody<'a> {
    User {
        content: &'a str,
    },
    Assistant {
        content: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCallBody<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        name: &'a str,
        content: &'a str,
    },
}

#[derive(Debug, Serialize)]
struct ToolCallBody<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a Value,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UsageBody {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReceiptBody<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    component: Option<&'a str>,
    duration_ms: f64,
    outcome: &'static str,
}

impl<'a> From<&'a AgentResult> for ResultBody<'a> {
    fn from(result: &'a AgentResult) -> Self {
        Self {
            id: &result.id,
            output: &result.output,
            stop_reason: result.stop_reason.as_str(),
            messages: result.messages.iter().map(MessageBody::from).collect(),
            usage: UsageBody::from(result.usage),
            iterations: result.iterations,
            model: &result.model,
            tool_calls: result.tool_calls.iter().map(ReceiptBody::from).collect(),
        }
    }
}

impl<'a> From<&'a Message> for MessageBody<'a> {
    fn from(message: &'a Message) -> Self {
        match message {
            Message::User { content } => Self::User { content },
            Message::Assistant { content, tool_calls } => {
                Self::Assistant { content, tool_calls: tool_calls.iter().map(ToolCallBody::from).collect() }
            }
            Message::Tool { tool_call_id, name, content } => Self::Tool { tool_call_id, name, content },
        }
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
    use agent_core::words::{StopReason, ToolOutcome};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_has_the_shape_of_the_interface() {
        let call = ToolCall { id: "call_1".into(), name: "add".into(), arguments: json!({"a": 1, "b": 2}) };
        let receipt = |name: &str, component: Option<&str>, outcome| ToolReceipt {
            component: component.map(str::to_owned),
            duration_ms: 0.5,
            ..ToolReceipt::new(name, outcome)
        };
        let result = AgentResult {
            id: "run_1".into(),
            output: "3".into(),
            stop_reason: StopReason::MaxIterations,
            messages: vec![
                Message::User { content: "1+2?".into() },
                Message::Assistant { content: String::new(), tool_calls: vec![call] },
                Message::Tool { tool_call_id: "call_1".into(), name: "add".into(), content: "{}".into() },
                Message::Assistant { content: "3".into(), tool_calls: vec![] },
            ],
            usage: Usage { input_tokens: 210, output_tokens: 18 },
            iterations: 2,
            model: "openai/m".into(),
            tool_calls: vec![
                receipt("add", Some("c@sha256:1"), ToolOutcome::Ok),
                receipt("nope", None, ToolOutcome::UnknownTool),
            ],
        };
        // As text: the order of the fields is that of the interface too.
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
