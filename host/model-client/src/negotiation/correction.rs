//! What a refusal of a parameter says about the profile: a model that takes no temperature, the other name of
//! the token limit, another bound of it.
//!
//! No list of models stays true for long, and a server behind another address may serve any of them. So the
//! text of the refusal is read: it names the parameter, and the request is sent again without it, under its
//! other name or with fewer tokens. A caller without a limit of its own is given all that its budget leaves,
//! which is often more than the model's own bound. This is no retry: that would send the same request.

use super::token_bounds::{is_of_the_model, maximum, minimum, room};
use crate::http::provider_error::ProviderError;
use crate::protocol::provider_profile::ProviderProfile;

/// A parameter counts as named only among so many first characters of a refusal without a `param` field.
/// Further on it may be a quotation of the conversation, and what a caller writes must not change how others
/// are served.
const NAMED_WITHIN: usize = 120;

/// What the format of an output is called in requests, the parallel calls, the texts that end a reply, and
/// what asks for a stream.
const FORMATS: [&str; 9] = [
    "response_format",
    "output_config",
    "output_format",
    "json_schema",
    // vLLM and llama.cpp, of one that they cannot make a grammar of.
    "JSON schema",
    "json schema",
    "Grammar error",
    // Gemini and Groq, of one beside tools.
    "response mime type",
    "json mode",
];
const ONE_CALL: [&str; 2] = ["parallel_tool_calls", "disable_parallel_tool_use"];
const STOP: [&str; 5] = ["stop_sequences", "'stop'", "`stop`", "\"stop\"", ": stop"];
const STREAM: [&str; 4] = ["stream_options", "'stream'", "`stream`", "\"stream\""];

/// What a refused request held, as far as a refusal can be about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentParameters {
    /// The most tokens that it asked for.
    pub(crate) tokens: u32,
    /// The request had `tool_choice: none`.
    pub(crate) forbids_calls: bool,
    /// The request may have asked for an output of a schema.
    pub(crate) format: bool,
    /// The request had `parallel_tool_calls: false`, or what Anthropic has for it.
    pub(crate) one_call: bool,
    /// The request had texts at which the reply ends.
    pub(crate) stop: bool,
}

/// A profile that fits the refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Correction {
    pub(crate) profile: ProviderProfile,
    /// The correction holds for other requests too. A bound that follows from what is left of a quota does
    /// not, nor does the refusal of one caller's schema.
    pub(crate) lasting: bool,
}

/// The profile that a refused request should have been rendered with, if the refusal is about a parameter.
///
/// Each correction goes one way, and bounds only move towards each other, so that a sequence of them ends.
pub(crate) fn correct(
    profile: ProviderProfile,
    refusal: &ProviderError,
    sent: SentParameters,
) -> Option<Correction> {
    let about = |parameter: &str| match &refusal.parameter {
        Some(named) => named == parameter,
        None => names(refusal, parameter),
    };
    let message = refusal.message.to_ascii_lowercase();
    let unsupported = says_unsupported(&message);
    let renamed = message.contains("max_completion_tokens");
    let lasting = |profile| Some(Correction { profile, lasting: true });
    let named = |parameters: &[&str]| parameters.iter().any(|parameter| about(parameter));
    // A caller's function may be called like a parameter.
    let of_function = message.contains("function") || message.contains("schema");
    if sent.format && profile.output_format && named(&FORMATS) {
        let profile = ProviderProfile { output_format: false, ..profile };
        Some(Correction { profile, lasting: is_of_every_format(&message) })
    } else if sent.one_call && profile.one_call && !of_function && named(&ONE_CALL) {
        lasting(ProviderProfile { one_call: false, ..profile })
    } else if unsupported
        && sent.stop
        && profile.stop
        && !of_function
        && (refusal.parameter.as_deref() == Some("stop") || named(&STOP))
    {
        lasting(ProviderProfile { stop: false, ..profile })
    } else if unsupported && profile.prompt_cache && (about("cache_control") || about("prompt_cache_key")) {
        lasting(ProviderProfile { prompt_cache: false, ..profile })
    } else if sent.forbids_calls && profile.tool_choice && about("tool_choice") {
        lasting(ProviderProfile { tool_choice: false, ..profile })
    } else if (unsupported || message.contains("only")) && profile.temperature && about("temperature") {
        lasting(ProviderProfile { temperature: false, ..profile })
    } else if unsupported && renamed && !profile.completion_tokens && about("max_tokens") {
        lasting(ProviderProfile { completion_tokens: true, ..profile })
    } else if !profile.nine_character_ids && message.contains("length of 9") && names(refusal, "call id") {
        lasting(ProviderProfile { nine_character_ids: true, ..profile })
    } else if let Some(room) = room(&message, sent.tokens) {
        Some(Correction { profile: ProviderProfile { most_tokens: Some(room), ..profile }, lasting: false })
    } else if about("max_tokens") || about("max_completion_tokens") {
        if let Some(least) = minimum(&message, sent.tokens) {
            return lasting(ProviderProfile { least_tokens: Some(least), ..profile });
        }
        let most_tokens = Some(maximum(&message, sent.tokens)?);
        let bounded = ProviderProfile { most_tokens, ..profile };
        // A server whose least limit is above its highest one would be asked the same again.
        (bounded != profile).then(|| Correction { profile: bounded, lasting: is_of_the_model(&message) })
    } else {
        None
    }
}

/// Whether a refusal says that this server streams no replies, or does not take a parameter for that.
pub(crate) fn refuses_streams(refusal: &ProviderError) -> bool {
    match &refusal.parameter {
        Some(parameter) => parameter.starts_with("stream"),
        None => {
            let message = refusal.message.to_ascii_lowercase();
            // Some stream everything but calls of tools.
            let of_tools = ["tool", "function", "schema"].iter().any(|word| message.contains(word));
            says_unsupported(&message) && !of_tools && STREAM.iter().any(|word| names(refusal, word))
        }
    }
}

/// Whether a refusal is about a call that the model is to make: models that think take no such demand.
pub(crate) fn refuses_demands(refusal: &ProviderError) -> bool {
    match &refusal.parameter {
        Some(parameter) => parameter == "tool_choice",
        None => names(refusal, "tool_choice"),
    }
}

fn names(refusal: &ProviderError, parameter: &str) -> bool {
    refusal.message.find(parameter).is_some_and(|at| at < NAMED_WITHIN)
}

/// Whether a refusal, in lower case, says that something is not taken at all.
fn says_unsupported(refusal: &str) -> bool {
    let words = ["support", "deprecated", "unrecognized", "not permitted", "not allowed"];
    words.iter().any(|word| refusal.contains(word))
}

/// Whether a refusal is about formats at all, and not about the one schema that was sent: only then is it
/// worth remembering, since the schema is a caller's and others send theirs.
fn is_of_every_format(refusal: &str) -> bool {
    let says = |words: &[&str]| words.iter().any(|word| refusal.contains(word));
    let parameter =
        ["this model", "extra inputs", "unknown parameter", "unrecognized request argument", "unknown field"];
    says(&parameter)
        && !says(&["schema for", "invalid schema", "context=", "format.schema", "property", "properties"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correction(
        profile: ProviderProfile,
        message: &str,
        parameter: Option<&str>,
        tokens: u32,
    ) -> Option<Correction> {
        let parameter = parameter.map(str::to_owned);
        let refusal = ProviderError { message: message.into(), parameter, ..ProviderError::default() };
        let tokens = profile.tokens(tokens);
        let sent = SentParameters { tokens, forbids_calls: true, format: true, one_call: true, stop: true };
        correct(profile, &refusal, sent)
    }

    fn corrected(
        profile: ProviderProfile,
        message: &str,
        parameter: Option<&str>,
    ) -> Option<ProviderProfile> {
        correction(profile, message, parameter, 20_000).map(|better| better.profile)
    }

    #[test]
    fn only_a_bound_that_is_the_models_own_is_worth_remembering() {
        for (message, bound, lasting) in [
            ("max_tokens: 20000 > 4096, which is the maximum allowed number of output tokens", 4096, true),
            ("max_tokens must be less than or equal to 8192", 8192, true),
            ("max_tokens not in [1,8192]", 8192, true),
            ("max_tokens: only 512 left right now", 512, false),
            ("max_tokens: you can afford at most 512 with your credits", 512, false),
            ("max_tokens: at most 900 remaining this minute", 900, false),
            ("This requires fewer max_tokens. You requested 20000, but can only afford 3919.", 3919, false),
            ("max_tokens: 20,000 is more than 16,384", 16_384, false),
        ] {
            let better = correction(ProviderProfile::OTHER, message, None, 20_000).unwrap();
            assert_eq!((better.profile.most_tokens, better.lasting), (Some(bound), lasting), "{message}");
        }
    }

    #[test]
    fn a_server_that_wants_to_write_more_is_let() {
        let message =
            "Invalid 'max_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead.";
        let better = correction(ProviderProfile::OTHER, message, None, 1).unwrap();
        assert_eq!((better.profile.least_tokens, better.lasting), (Some(16), true));
        assert_eq!([1, 16, 500].map(|wanted| better.profile.tokens(wanted)), [16, 16, 500]);
        assert_eq!(correction(better.profile, message, None, 16), None);
    }

    #[test]
    fn a_server_that_contradicts_itself_is_not_asked_the_same_again() {
        let message = "max_tokens must be at least 60 and at most 16";
        let profile =
            ProviderProfile { most_tokens: Some(16), least_tokens: Some(60), ..ProviderProfile::OTHER };
        assert_eq!(correction(profile, message, None, profile.tokens(20_000)), None);
    }

    #[test]
    fn refusals_of_a_parameter_are_understood() {
        let cold = Some(ProviderProfile { temperature: false, ..ProviderProfile::OTHER });
        let renamed = Some(ProviderProfile { completion_tokens: true, ..ProviderProfile::OTHER });
        let choosing = Some(ProviderProfile { tool_choice: false, ..ProviderProfile::OTHER });
        let openai_temperature = "Unsupported value: 'temperature' does not support 0 with this model. \
                                  Only the default (1) value is supported.";
        let openai_tokens = "Unsupported parameter: 'max_tokens' is not supported with this model. \
                             Use 'max_completion_tokens' instead.";
        for (message, parameter, expected) in [
            (openai_temperature, Some("temperature"), cold),
            (openai_temperature, None, cold),
            ("`temperature` is deprecated for this model.", None, cold),
            ("invalid temperature: only 1 is allowed for this model", None, cold),
            ("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.", None, cold),
            (openai_tokens, Some("max_tokens"), renamed),
            (openai_tokens, None, renamed),
            ("tool_choice: only 'auto' is taken", None, choosing),
            (
                "Input tag 'none' found using 'type' does not match any of the expected tags",
                Some("tool_choice"),
                choosing,
            ),
            ("temperature: Input should be less than or equal to 1", None, None),
            ("Invalid schema for function 'f': 'temperature' is not supported", Some("tools[0]"), None),
            ("The model `x` does not exist", None, None),
        ] {
            assert_eq!(corrected(ProviderProfile::OTHER, message, parameter), expected, "{message}");
        }
    }

    #[test]
    fn one_callers_schema_changes_nothing_for_others() {
        let without = ProviderProfile { output_format: false, ..ProviderProfile::OPENAI };
        for (message, parameter, lasting) in [
            (
                "Invalid schema for response_format 'sum': In context=(), 'additionalProperties' is required to \
              be supplied and to be false.",
                Some("response_format"),
                false,
            ),
            ("Invalid schema for response_format 'sum': 'oneOf' is not permitted.", None, false),
            (
                "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
                Some("response_format"),
                true,
            ),
            ("output_config: Extra inputs are not permitted", None, true),
            ("This response_format type is unavailable now", None, false),
            ("Function calling with a response mime type: 'application/json' is unsupported", None, false),
            ("json mode cannot be combined with tool/function calling", None, false),
            ("The provided JSON schema contains features not supported by xgrammar.", None, false),
            ("Grammar error: Unknown format: uri", None, false),
            (
                "output_config.format.schema: For 'integer' type, properties maximum, minimum are not supported",
                None,
                false,
            ),
        ] {
            let better = correction(ProviderProfile::OPENAI, message, parameter, 20_000).unwrap();
            assert_eq!((better.profile, better.lasting), (without, lasting), "{message}");
            assert_eq!(correction(without, message, parameter, 20_000), None, "{message}");
        }
    }

    #[test]
    fn what_ends_a_reply_and_how_many_calls_it_has_is_seen_to_here_where_a_provider_does_not() {
        let endless = ProviderProfile { stop: false, ..ProviderProfile::OPENAI };
        let parallel = ProviderProfile { one_call: false, ..ProviderProfile::OPENAI };
        for (message, parameter, expected) in [
            ("Unsupported parameter: 'stop' is not supported with this model.", Some("stop"), Some(endless)),
            ("Unsupported parameter: 'stop' is not supported with this model.", None, Some(endless)),
            ("Argument not supported on this model: stop", None, Some(endless)),
            ("Unknown parameter: parallel_tool_calls", None, Some(parallel)),
            ("the stop button is not supported", Some("messages"), None),
            ("Invalid schema for function 'parallel_tool_calls': it is not supported", None, None),
        ] {
            assert_eq!(corrected(ProviderProfile::OPENAI, message, parameter), expected, "{message}");
        }
    }

    #[test]
    fn a_server_without_streams_is_told_from_one_that_mentions_them() {
        for (message, parameter, expected) in [
            ("Unrecognized request argument supplied: stream_options", None, true),
            ("stream_options: Extra inputs are not permitted", None, true),
            ("Your organization must be verified to stream this model.", Some("stream"), true),
            ("Tools are not supported when `stream` is set", None, false),
            ("No such thing is supported: a stream of words", None, false),
            ("Unsupported value: 'a stream_options of mine'", Some("messages"), false),
        ] {
            let parameter = parameter.map(str::to_owned);
            let refusal = ProviderError { message: message.into(), parameter, ..ProviderError::default() };
            assert_eq!(refuses_streams(&refusal), expected, "{message}");
        }
    }

    #[test]
    fn a_provider_that_keeps_nothing_is_not_told_to_again() {
        let keeping = ProviderProfile { prompt_cache: true, ..ProviderProfile::OTHER };
        for message in [
            "messages.0.content.0.cache_control: Extra inputs are not permitted",
            "Unrecognized request argument supplied: prompt_cache_key",
        ] {
            assert_eq!(corrected(keeping, message, None), Some(ProviderProfile::OTHER), "{message}");
            assert_eq!(corrected(ProviderProfile::OTHER, message, None), None, "{message}");
        }
    }

    #[test]
    fn ids_of_another_providers_calls_are_mended_where_they_are_refused() {
        let refusal = "Tool call id was call_0fypS1hVX but must be a-z, A-Z, 0-9, with a length of 9.";
        let mended = ProviderProfile { nine_character_ids: true, ..ProviderProfile::OTHER };
        assert_eq!(corrected(ProviderProfile::OTHER, refusal, None), Some(mended));
        assert_eq!(corrected(mended, refusal, None), None);
    }

    #[test]
    fn the_bound_of_a_models_tokens_is_understood() {
        let openai = "max_tokens is too large: 20000. This model supports at most 16384 completion tokens, \
                      whereas you provided 20000.";
        let anthropic = "invalid_request_error: max_tokens: 20000 > 4096, which is the maximum allowed \
                         number of output tokens for claude-3-haiku-20240307";
        let groq = "`max_completion_tokens` must be less than or equal to `8192`, the maximum value for \
                    `max_completion_tokens` is less than the `context_window` for this model";
        for (message, parameter, expected) in [
            (openai, Some("max_tokens"), Some(16_384)),
            (openai, Some("max_completion_tokens"), Some(16_384)),
            (openai, None, Some(16_384)),
            (openai, Some("messages"), None),
            (anthropic, None, Some(4096)),
            (groq, None, Some(8192)),
            ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", None, Some(8192)),
            ("max_tokens: Input should be less than or equal to 4096.", None, Some(4096)),
            ("At most 4096.", Some("max_tokens"), Some(4096)),
            ("max_tokens: 20000 is too large for gpt-4-0613", None, None),
            ("max_tokens: 20000 is too large, see section 15", None, None),
            ("max_tokens: 20000 < 32000, the least this model takes", None, None),
            ("max_tokens: 99999999999999999999 is no number", None, None),
        ] {
            let expected =
                expected.map(|most| ProviderProfile { most_tokens: Some(most), ..ProviderProfile::OTHER });
            assert_eq!(corrected(ProviderProfile::OTHER, message, parameter), expected, "{message}");
        }
    }

    #[test]
    fn a_reply_gets_what_its_conversation_leaves_of_the_context_and_others_get_theirs() {
        for (message, room) in [
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 20000. This model's maximum context \
                 length is 8192 tokens and your request has 150 input tokens (20000 > 8192 - 150).",
                8042,
            ),
            (
                "This model's maximum context length is 8192 tokens. However, you requested 20150 tokens \
                 (150 in the messages, 20000 in the completion). Please reduce the length of the messages.",
                8042,
            ),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input \
                 length or `max_tokens` and try again",
                10_000,
            ),
            (
                "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 50 `inputs` tokens and 20000 \
                 `max_new_tokens`",
                4047,
            ),
            (
                "This model's maximum context length is 24000 tokens. However, you requested 20000 output \
                 tokens and your prompt contains at least 4001 input tokens, for a total of at least 24001.",
                10_000,
            ),
            (
                "You passed 4001 input tokens and requested 20000 output tokens. However, the model's context \
                 length is only 24000 tokens, resulting in a maximum input length of 4000 tokens.",
                10_000,
            ),
            (
                "This endpoint's maximum context length is 8192 tokens. However, you requested about 20350 \
                 tokens (50 of text input, 300 of tool input, 20000 in the output).",
                10_000,
            ),
            (
                "Request too large for model `m` in organization `o` service tier `on_demand` on tokens per \
                 minute (TPM): Limit 6000, Requested 20900, please reduce your message size and try again.",
                10_000,
            ),
        ] {
            let better = correction(ProviderProfile::OTHER, message, None, 20_000);
            let better = better.map(|better| (better.profile.most_tokens, better.lasting));
            assert_eq!(better, Some((Some(room), false)), "{message}");
        }
    }

    #[test]
    fn a_conversation_that_is_too_long_by_itself_is_not_sent_again_and_again() {
        for message in [
            "Rate limit reached for model `m`: Limit 6000, Used 5034, Requested 20000.",
            "This model's maximum context length is 8192 tokens, your messages have 9000 tokens.",
            "maximum context length is 8192 tokens: 8150 in the messages, 20000 in the reply",
            "This model's maximum context length is 24000 tokens. However, you requested 20000 output \
             tokens and your prompt contains at least 24001 input tokens, for a total of at least 44001.",
            "This endpoint's maximum context length is 8192 tokens. However, you requested about 220000 \
             tokens (199700 of text input, 300 of tool input, 20000 in the output).",
            "This model's maximum context length is 8192 tokens. However, you requested 29000 tokens \
             (9000 in the messages, 20000 in the completion). Please reduce the length of the messages.",
            "Request too large for model `m` in organization `o` service tier `on_demand` on tokens per \
             minute (TPM): Limit 6000, Requested 28000, please reduce your message size and try again.",
        ] {
            assert!(correction(ProviderProfile::OTHER, message, None, 20_000).is_none(), "{message}");
        }
    }

    #[test]
    fn the_bound_only_ever_falls() {
        let bounded = |most| ProviderProfile { most_tokens: Some(most), ..ProviderProfile::OTHER };
        let refusal = "max_tokens must be between 16 and 4096";
        assert_eq!(corrected(bounded(8192), refusal, None), Some(bounded(4096)));
        assert_eq!(corrected(bounded(4096), refusal, None), Some(bounded(16)));
        assert_eq!(corrected(bounded(16), refusal, None), None);
        assert_eq!([1, 4096, 9000].map(|wanted| bounded(4096).tokens(wanted)), [1, 4096, 4096]);
    }

    #[test]
    fn a_quotation_of_the_conversation_changes_nothing() {
        let long = "x".repeat(NAMED_WITHIN);
        for message in [
            format!("refused: {long} temperature is deprecated"),
            format!("refused: {long} max_tokens is at most 17"),
            format!("max_tokens refused: {long} {long} at most 17"),
        ] {
            assert_eq!(corrected(ProviderProfile::OTHER, &message, None), None);
        }
    }

    #[test]
    fn what_was_corrected_once_is_not_corrected_again() {
        let bare = ProviderProfile { temperature: false, ..ProviderProfile::OPENAI };
        for message in ["temperature is not supported", "max_tokens unsupported, use max_completion_tokens"] {
            assert_eq!(corrected(bare, message, None), None);
        }
    }
}
