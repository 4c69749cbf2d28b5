//! A chat completion that is not streamed, and what its stream says in the same words.

use agent_core::words::{AgentResult, StopReason, Usage};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::head::Head;
use super::super::input::functions;
use super::super::models;
use super::super::run::final_words::{refusal, words};

/// What the agent said.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiChatCompletion)]
pub(crate) struct ChatCompletion<'a> {
    /// Names the completion.
    #[schema(example = "chatcmpl-019b1c2d")]
    id: String,
    /// Always `chat.completion`.
    #[schema(example = "chat.completion")]
    object: &'static str,
    /// Seconds since 1970.
    #[schema(example = 1_795_262_400)]
    created: u64,
    /// Always `agent`.
    #[schema(example = "agent")]
    model: &'static str,
    /// One choice.
    choices: Vec<Choice<'a>>,
    /// What the run cost.
    usage: ChatUsage,
}

/// An answer.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiChoice)]
struct Choice<'a> {
    /// Always 0.
    #[schema(example = 0)]
    index: u32,
    /// What was said.
    message: ChatMessage<'a>,
    /// Always null.
    #[schema(value_type = Option<String>, example = json!(null))]
    logprobs: (),
    /// `stop`, `tool_calls`, `length` or `content_filter`.
    #[schema(example = "stop")]
    finish_reason: &'static str,
}

/// A message of the agent.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiChatMessage)]
struct ChatMessage<'a> {
    /// Always `assistant`.
    #[schema(example = "assistant")]
    role: &'static str,
    /// The agent's last words; null when it only called functions of the client.
    #[schema(example = "6 * 7 is 42.")]
    content: Option<&'a str>,
    /// Calls of the client's functions, which it carries out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ChatToolCall<'a>>,
    /// Why there is no answer of the format that was asked for.
    #[schema(example = json!(null))]
    refusal: Option<&'a str>,
}

/// A call of a function of the client.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiToolCall)]
pub(crate) struct ChatToolCall<'a> {
    /// Names the call; its answer has it too.
    #[schema(example = "call_1")]
    id: &'a str,
    /// Always `function`.
    #[schema(example = "function")]
    r#type: &'static str,
    /// What is called.
    function: ChatFunction<'a>,
}

/// What is called.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiFunctionCall)]
struct ChatFunction<'a> {
    /// The function.
    #[schema(example = "look")]
    name: &'a str,
    /// Its arguments, as JSON text.
    #[schema(example = "{}")]
    arguments: String,
}

/// The calls that the client carries out.
pub(crate) fn tool_calls(result: &AgentResult) -> Vec<ChatToolCall<'_>> {
    let calls = functions::called(result).into_iter().map(|call| {
        let function = ChatFunction { name: &call.name, arguments: functions::arguments_text(call) };
        ChatToolCall { id: &call.id, r#type: "function", function }
    });
    calls.collect()
}

/// Tokens of all model calls of a run.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = OpenAiChatUsage)]
pub(crate) struct ChatUsage {
    /// Tokens that the model read.
    #[schema(example = 210)]
    prompt_tokens: u64,
    /// Tokens that the model wrote.
    #[schema(example = 18)]
    completion_tokens: u64,
    /// Both together.
    #[schema(example = 228)]
    total_tokens: u64,
    /// Parts of the tokens that were read.
    prompt_tokens_details: PromptTokens,
    /// Parts of the tokens that were written.
    completion_tokens_details: CompletionTokens,
}

/// Parts of the tokens that were read.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = OpenAiPromptTokens)]
struct PromptTokens {
    /// What the provider had kept from earlier calls, as far as it says.
    #[schema(example = 128)]
    cached_tokens: u64,
}

/// Parts of the tokens that were written.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = OpenAiCompletionTokens)]
struct CompletionTokens {
    /// Thoughts, as far as the provider counts them apart.
    #[schema(example = 0)]
    reasoning_tokens: u64,
}

impl From<Usage> for ChatUsage {
    fn from(usage: Usage) -> Self {
        let Usage { input_tokens, output_tokens, cached_tokens, reasoning_tokens, .. } = usage;
        Self {
            prompt_tokens: input_tokens,
            completion_tokens: output_tokens,
            total_tokens: usage.total(),
            prompt_tokens_details: PromptTokens { cached_tokens },
            completion_tokens_details: CompletionTokens { reasoning_tokens },
        }
    }
}

/// Why a completion ends, as OpenAI has words for it. A run that a limit ended is one that was cut off,
/// unless its output was found to be whole JSON.
pub(crate) fn finish_reason(result: &AgentResult) -> &'static str {
    match result.stop_reason {
        _ if result.output_value.is_some() => "stop",
        StopReason::Completed | StopReason::EmptyReply | StopReason::InvalidOutput => "stop",
        StopReason::ContentFilter => "content_filter",
        StopReason::ToolCalls => "tool_calls",
        StopReason::MaxTokens
        | StopReason::TokenBudget
        | StopReason::MaxIterations
        | StopReason::Cancelled => "length",
    }
}

/// The id of a completion.
pub(crate) fn id_of(head: &Head) -> String {
    format!("chatcmpl-{}", head.id)
}

impl<'a> ChatCompletion<'a> {
    pub(crate) fn of(head: &Head, result: &'a AgentResult, is_formatted: bool) -> Self {
        let tool_calls = tool_calls(result);
        let (content, refusal) = (words(result, is_formatted), refusal(result, is_formatted));
        let message = ChatMessage { role: "assistant", content, tool_calls, refusal };
        let finish_reason = finish_reason(result);
        Self {
            id: id_of(head),
            object: "chat.completion",
            created: head.created,
            model: models::AGENT,
            choices: vec![Choice { index: 0, message, logprobs: (), finish_reason }],
            usage: result.usage.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_that_a_limit_did_not_cut_off_is_an_answer_and_other_words_are_none() {
        let mut result: AgentResult = serde_json::from_value(json!({
            "id": "run_1", "output": "{}", "outputValue": {}, "stopReason": "max_iterations", "messages": [],
            "usage": { "inputTokens": 1, "outputTokens": 1 }, "iterations": 10, "model": "test/m", "toolCalls": [],
        }))
        .unwrap();
        assert_eq!((finish_reason(&result), words(&result, true)), ("stop", Some("{}")));
        result.output_value = None;
        assert_eq!((finish_reason(&result), words(&result, true)), ("length", None));
        for (stop_reason, said, refused) in [
            (StopReason::ToolCalls, None, None),
            (StopReason::InvalidOutput, None, Some("why")),
            (StopReason::Completed, None, Some("{}")),
        ] {
            let result = AgentResult { stop_reason, output_error: Some("why".into()), ..result.clone() };
            assert_eq!((words(&result, true), refusal(&result, true)), (said, refused), "{stop_reason:?}");
        }
        // A client that wants words is told those beside calls as well.
        let result = AgentResult { stop_reason: StopReason::ToolCalls, ..result };
        assert_eq!((words(&result, false), refusal(&result, false)), (Some("{}"), None));
    }
}
