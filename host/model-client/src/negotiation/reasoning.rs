//! What a refusal says about a model that reasons: that it takes no tools while it does, that its provider
//! wants back what it thought before it called tools, or that it takes no such thing.

use crate::http::provider_error::ProviderError;
use crate::protocol::provider_profile::{ProviderProfile, Thoughts};

/// Only so many first characters of a refusal are read: further on it may quote the conversation.
const READ_CHARACTERS: usize = 200;

/// The profile that a refused request should have been rendered with, if the refusal is about that.
///
/// OpenAI's models take `reasoning_effort: none` beside tools when their own default is another. Gemini,
/// DeepSeek and Moonshot refuse a conversation whose calls come without the thoughts before them. Others
/// (Groq, Mistral, OpenAI) refuse one with such thoughts, which happens where a gateway has another model by
/// now. For the same reason a model may take no `reasoning_effort`, or not that one. These two corrections go
/// back, so their caller has to count.
pub(crate) fn correct(
    profile: ProviderProfile,
    refusal: &ProviderError,
    shows_tools: bool,
    has_calls: bool,
) -> Option<ProviderProfile> {
    let text: String = refusal.message.chars().take(READ_CHARACTERS).collect();
    let text = text.to_ascii_lowercase();
    let wants = text.contains("missing") || text.contains("passed back");
    let is_wanted = |what: &str| wants && has_calls && profile.thoughts.is_none() && text.contains(what);
    let is_about_effort = refusal.parameter.as_deref().is_none_or(|named| named == "reasoning_effort")
        && text.contains("reasoning_effort");
    if shows_tools && profile.reasons_beside_tools && is_about_effort && text.contains("support") {
        Some(ProviderProfile { reasons_beside_tools: false, ..profile })
    } else if shows_tools
        && !profile.reasons_beside_tools
        && is_about_effort
        && says_unwanted(&text)
        && !text.contains("tools")
    {
        Some(ProviderProfile { reasons_beside_tools: true, ..profile })
    } else if is_wanted("thought_signature") {
        Some(ProviderProfile { thoughts: Some(Thoughts::Signature), ..profile })
    } else if is_wanted("reasoning_content") {
        Some(ProviderProfile { thoughts: Some(Thoughts::Text), ..profile })
    } else if !wants && is_unwanted(profile.thoughts, refusal, &text) {
        Some(ProviderProfile { thoughts: None, ..profile })
    } else {
        None
    }
}

/// Whether a refusal, of which `text` is the beginning in lower case, is about a field that is sent in place
/// of thoughts.
fn is_unwanted(sent: Option<Thoughts>, refusal: &ProviderError, text: &str) -> bool {
    let field = match sent {
        None => return false,
        Some(Thoughts::Text) => "reasoning_content",
        Some(Thoughts::Signature) => "extra_content",
    };
    let is_named = text.contains(field) || refusal.parameter.as_ref().is_some_and(|at| at.contains(field));
    is_named && says_unwanted(text)
}

/// Whether a refusal, in lower case, says that a field or its value is not taken.
fn says_unwanted(text: &str) -> bool {
    let words =
        ["support", "not permitted", "forbidden", "unknown", "unrecognized", "not allowed", "must be one of"];
    words.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: ProviderProfile = ProviderProfile::OTHER;

    fn corrected(of: ProviderProfile, message: &str, parameter: Option<&str>) -> Option<ProviderProfile> {
        let parameter = parameter.map(str::to_owned);
        let refusal = ProviderError { message: message.into(), parameter, ..ProviderError::default() };
        correct(of, &refusal, true, true)
    }

    #[test]
    fn refusals_of_a_model_that_reasons_are_understood() {
        let still = ProviderProfile { reasons_beside_tools: false, ..OTHER };
        let [text, signed] = [Thoughts::Text, Thoughts::Signature]
            .map(|thoughts| ProviderProfile { thoughts: Some(thoughts), ..OTHER });
        let openai = "Function tools with reasoning_effort are not supported for gpt-5.6-sol in \
                      /v1/chat/completions. To use function tools, use /v1/responses or set \
                      reasoning_effort to 'none'.";
        let gemini = "Function call is missing a thought_signature in functionCall parts. This is required \
                      for tools to work correctly. Additional data, function call `default_api:add` , \
                      position 2.";
        let vertex = "Unable to submit request because function call `add` in the 2. content block is \
                      missing a `thought_signature`.";
        let moonshot = "thinking is enabled but reasoning_content is missing in assistant tool call message \
                        at index 2";
        for (message, parameter, better) in [
            (openai, Some("reasoning_effort"), still),
            (openai, None, still),
            (gemini, None, signed),
            (vertex, None, signed),
            (moonshot, None, text),
            ("The `reasoning_content` in the thinking mode must be passed back to the API.", None, text),
            ("Missing `reasoning_content` field in the assistant message at message index 2.", None, text),
        ] {
            assert_eq!(corrected(OTHER, message, parameter), Some(better), "{message}");
            assert_eq!(corrected(better, message, parameter), None, "{message}");
        }
    }

    #[test]
    fn a_model_that_takes_no_such_effort_is_left_to_reason() {
        let still = ProviderProfile { reasons_beside_tools: false, ..OTHER };
        for (message, parameter) in [
            (
                "Unsupported value: 'reasoning_effort' does not support 'none' with this model. Supported \
                 values are: 'low', 'medium', and 'high'.",
                Some("reasoning_effort"),
            ),
            ("Unrecognized request argument supplied: reasoning_effort", None),
            ("`reasoning_effort` must be one of `low`, `medium`, `high`", None),
        ] {
            assert_eq!(corrected(still, message, parameter), Some(OTHER), "{message}");
        }
    }

    #[test]
    fn what_stands_in_for_thoughts_is_left_out_where_it_is_refused() {
        for (thoughts, message, parameter) in [
            (
                Thoughts::Text,
                "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : \
                 property 'reasoning_content' is unsupported)]",
                None,
            ),
            (
                Thoughts::Text,
                r#"[{"type":"extra_forbidden","loc":["body","messages",2,"assistant","reasoning_content"]}]"#,
                None,
            ),
            (
                Thoughts::Signature,
                "Unknown parameter: 'messages[1].tool_calls[0].extra_content'.",
                Some("messages[1].tool_calls[0].extra_content"),
            ),
        ] {
            let profile = ProviderProfile { thoughts: Some(thoughts), ..OTHER };
            assert_eq!(corrected(profile, message, parameter), Some(OTHER), "{message}");
            assert_eq!(corrected(OTHER, message, parameter), None, "{message}");
        }
    }

    #[test]
    fn other_refusals_change_nothing() {
        let quoted = format!("{} reasoning_content is missing", "x".repeat(READ_CHARACTERS));
        for (message, parameter) in [
            ("reasoning_content: Extra inputs are not permitted", None),
            ("Unsupported value: 'reasoning_effort' does not support 'none'", Some("messages")),
            ("The field 'messages' is missing", None),
            (quoted.as_str(), None),
        ] {
            assert_eq!(corrected(OTHER, message, parameter), None, "{message}");
        }
        let about_none = |message: &str| {
            let refusal = ProviderError { message: message.into(), ..ProviderError::default() };
            correct(OTHER, &refusal, false, false)
        };
        assert_eq!(about_none("Function tools with reasoning_effort are not supported"), None);
        assert_eq!(about_none("Missing `reasoning_content` field"), None);
    }
}
