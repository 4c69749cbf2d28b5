//! The body of a provider's error. Servers that imitate a provider's protocol rarely imitate its errors,
//! hence the many forms that are read.

use std::time::Duration;

use serde_json::Value;

use super::transport::ERROR_LIMIT;

/// An error as the provider describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProviderError {
    /// Text of the error, neither cut nor redacted: it may quote the key and the conversation.
    pub(crate) message: String,
    /// The status that a gateway passes on inside a body whose own status is 200.
    pub(crate) status: Option<u16>,
    /// The parameter it is about (`param`).
    pub(crate) parameter: Option<String>,
    /// `type` of the error, and its `code` if that is a word, in lower case.
    pub(crate) kinds: Vec<String>,
    /// How long to wait, if the body says so: Gemini sends no `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
    /// What the model wrote, where the provider could make no call of it (Groq).
    pub(crate) failed_generation: Option<String>,
}

impl ProviderError {
    /// The error in a body, if it holds one. A body longer than [`ERROR_LIMIT`] is not parsed: it is a reply,
    /// and a tree of JSON values takes many times its size.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        if body.len() > ERROR_LIMIT {
            return None;
        }
        let body: Value = serde_json::from_slice(body).ok()?;
        // Gemini writes an error as a list of one.
        let body = body.get(0).unwrap_or(&body);
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let message = match error {
            Value::String(text) => text.clone(),
            _ => ["message", "detail", "msg"]
                .iter()
                .find_map(|key| error.get(key))
                .map(|text| text.as_str().map_or_else(|| text.to_string(), str::to_owned))?,
        };
        let kind = error.get("type").and_then(Value::as_str).filter(|kind| !message.contains(kind));
        Some(Self {
            message: kind.map_or_else(|| message.clone(), |kind| format!("{kind}: {message}")),
            status: error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()),
            // Groq writes an empty one where there is none.
            parameter: text_of(error, "param").filter(|named| !named.is_empty()),
            kinds: ["type", "code"]
                .iter()
                .filter_map(|key| error.get(key).and_then(Value::as_str))
                .map(str::to_ascii_lowercase)
                .collect(),
            retry_after: retry_delay(error),
            failed_generation: text_of(error, "failed_generation"),
        })
    }

    /// The status of an error in the body of a 200: the one it names, else that of its kind. `None` when it
    /// says neither.
    pub(crate) fn implied_status(&self) -> Option<u16> {
        let is = |words: &[&str]| self.kinds.iter().any(|kind| words.iter().any(|word| kind.contains(word)));
        if self.status.is_some_and(|status| (400..600).contains(&status)) {
            self.status
        } else if is(&["rate_limit", "too_many_requests", "insufficient_quota"]) {
            Some(429)
        } else if is(&["invalid_request", "bad_request", "context_length"]) {
            Some(400)
        } else if is(&["authentication", "invalid_api_key"]) {
            Some(401)
        } else if is(&["billing"]) {
            Some(402)
        } else if is(&["permission"]) {
            Some(403)
        } else if is(&["not_found"]) {
            Some(404)
        } else {
            None
        }
    }

    /// Whether a content filter refused the conversation or the reply: by the codes of Azure and Alibaba, or
    /// in the words of OpenAI, DeepSeek and Anthropic, whose codes say only that the request is invalid.
    pub(crate) fn is_content_filter(&self) -> bool {
        let codes = [
            "content_filter",
            "content_policy_violation",
            "responsibleaipolicyviolation",
            "data_inspection_failed",
        ];
        let words = [
            "your prompt was flagged as potentially violating",
            "content exists risk",
            "output blocked by content filtering policy",
        ];
        let text = self.message.to_ascii_lowercase();
        self.kinds.iter().any(|kind| codes.contains(&kind.as_str()))
            || words.iter().any(|words| text.contains(words))
    }

    /// Whether the quota of the account is used up, for which OpenAI answers 429 as for too many requests,
    /// and Anthropic 400. Its words have to begin the text: further on they may be a caller's, quoted, who
    /// must not open the circuit for everybody.
    pub(crate) fn is_quota_exhausted(&self) -> bool {
        let is_of_kind = |kind: &str| self.kinds.iter().any(|known| known.eq_ignore_ascii_case(kind));
        // The type of the error may stand before its text.
        let typed = self.message.split_once(": ").filter(|(kind, _)| is_of_kind(kind));
        let text = typed.map_or(self.message.as_str(), |(_, text)| text);
        is_of_kind("insufficient_quota") || text.starts_with("Your credit balance is too low")
    }

    /// Whether this one request has more tokens than the account may use in a minute, however long it waits,
    /// or than its credit pays for: OpenAI answers 429 as for too many requests, OpenRouter 402 as for no
    /// credit at all.
    pub(crate) fn is_too_large(&self) -> bool {
        ["Request too large", "Prompt tokens limit exceeded"].iter().any(|words| self.message.contains(words))
    }

    /// Whether the request is longer than the model's context. A text that only quotes such words misleads
    /// nobody but its own caller.
    pub(crate) fn is_too_long(&self) -> bool {
        let codes = ["context_length_exceeded", "exceed_context_size_error"];
        let words = [
            "context length",
            "context window",
            "context size",
            "context limit",
            "prompt is too long",
            "maximum prompt length",
            "input token count",
            "max_new_tokens",
        ];
        let text: String = self.message.chars().take(300).collect::<String>().to_ascii_lowercase();
        self.kinds.iter().any(|kind| codes.contains(&kind.as_str()))
            || words.iter().any(|words| text.contains(words))
    }

    /// Whether the model wrote a call of which the provider could make none, or one against its schema: Groq
    /// answers 400, although the request was fine and another reply may be as well.
    pub(crate) fn is_failed_call(&self) -> bool {
        self.kinds.iter().any(|kind| kind == "tool_use_failed")
    }

    /// Whether this is a reply that reached its token limit: OpenAI's reasoning models report that as an
    /// error when they wrote no word before.
    pub(crate) fn is_cut_off(&self) -> bool {
        let text = self.message.to_ascii_lowercase();
        text.contains("could not finish the message because max_tokens")
    }
}

fn text_of(error: &Value, key: &str) -> Option<String> {
    error.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// `{"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36.5s"}]}`
fn retry_delay(error: &Value) -> Option<Duration> {
    let mut details = error.get("details")?.as_array()?.iter();
    let seconds = details.find_map(|detail| detail.get("retryDelay")?.as_str()?.strip_suffix('s'))?;
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_in_many_forms() {
        for (body, expected) in [
            (r#"{"error":{"message":"no","type":"invalid","param":"temperature"}}"#, Some("invalid: no")),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, {
                Some("overloaded_error: Overloaded")
            }),
            (r#"{"error":"model not found"}"#, Some("model not found")),
            (r#"{"object":"error","message":"too long","code":40303}"#, Some("too long")),
            (r#"{"detail":[{"loc":["body"]}]}"#, Some(r#"[{"loc":["body"]}]"#)),
            (r#"{"error":null,"message":"m"}"#, Some("m")),
            (r#"[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]"#, Some("no")),
            ("[]", None),
            (r#"{"choices":[]}"#, None),
            ("<html>", None),
            ("", None),
        ] {
            let message = ProviderError::parse(body.as_bytes()).map(|error| error.message);
            assert_eq!(message.as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn filters_are_known_by_their_codes_and_by_their_words() {
        for (body, is_filter) in [
            (r#"{"error":{"message":"The response was filtered.","code":"content_filter"}}"#, true),
            (r#"{"error":{"message":"Input data","code":"data_inspection_failed"}}"#, true),
            (
                r#"{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","code":"invalid_prompt"}}"#,
                true,
            ),
            (r#"{"error":{"message":"Content Exists Risk","type":"invalid_request_error"}}"#, true),
            (r#"{"error":{"message":"Output blocked by content filtering policy"}}"#, true),
            (r#"{"error":{"message":"Invalid prompt: it is empty","code":"invalid_prompt"}}"#, false),
        ] {
            let error = ProviderError::parse(body.as_bytes()).unwrap();
            assert_eq!(error.is_content_filter(), is_filter, "{body}");
        }
    }

    #[test]
    fn an_account_without_credit_is_known_by_how_the_text_begins() {
        for (body, is_exhausted) in [
            (r#"{"error":{"message":"You exceeded your quota","type":"insufficient_quota"}}"#, true),
            (r#"{"error":{"message":"Your credit balance is too low to access the API."}}"#, true),
            (r#"{"error":{"message":"Your credit balance is too low.","type":"Bad_request"}}"#, true),
            (r#"{"error":{"message":"Unknown: Your credit balance is too low"}}"#, false),
            (r#"{"error":{"message":"'Your credit balance is too low' is not one of the formats"}}"#, false),
        ] {
            let error = ProviderError::parse(body.as_bytes()).unwrap();
            assert_eq!(error.is_quota_exhausted(), is_exhausted, "{body}");
        }
    }

    #[test]
    fn a_body_too_long_for_an_error_is_not_taken_apart() {
        let body = |padding: usize| format!(r#"{{"error":"no"}}{}"#, " ".repeat(padding));
        let longest = ERROR_LIMIT - body(0).len();
        assert!(ProviderError::parse(body(longest).as_bytes()).is_some());
        assert!(ProviderError::parse(body(longest + 1).as_bytes()).is_none());
    }

    #[test]
    fn the_parameter_and_a_gateways_status_are_found() {
        let body = br#"{"error":{"message":"busy","code":429,"param":"top_p"}}"#;
        let error = ProviderError::parse(body).unwrap();
        assert_eq!((error.status, error.parameter.as_deref()), (Some(429), Some("top_p")));
    }

    #[test]
    fn an_empty_parameter_is_none() {
        let body = br#"{"error":{"message":"no","param":"","code":"tool_use_failed"}}"#;
        let error = ProviderError::parse(body).unwrap();
        assert_eq!((error.parameter.as_deref(), error.is_failed_call()), (None, true));
    }

    #[test]
    fn a_delay_in_the_body_is_read() {
        let error = |delay: &str| {
            let details = format!(r#"[{{"@type":"Help"}},{{"@type":"RetryInfo","retryDelay":"{delay}"}}]"#);
            let body = format!(r#"[{{"error":{{"code":429,"message":"m","details":{details}}}}}]"#);
            ProviderError::parse(body.as_bytes()).unwrap().retry_after
        };
        assert_eq!(error("36.5s"), Some(Duration::from_millis(36_500)));
        for delay in ["36", "-1s", "s", "1e300s", "soon"] {
            assert_eq!(error(delay), None, "{delay}");
        }
    }

    #[test]
    fn the_kind_of_an_error_implies_a_status() {
        for (body, status) in [
            (r#"{"error":{"message":"m","code":502}}"#, Some(502)),
            (r#"{"error":{"message":"m","code":7}}"#, None),
            (r#"{"error":{"message":"m","code":"rate_limit_exceeded"}}"#, Some(429)),
            (r#"{"error":{"message":"m","code":"insufficient_quota"}}"#, Some(429)),
            (r#"{"error":{"message":"m","type":"invalid_request_error"}}"#, Some(400)),
            (r#"{"error":{"message":"m","type":"authentication_error"}}"#, Some(401)),
            (r#"{"error":{"message":"m","type":"billing_error"}}"#, Some(402)),
            (r#"{"error":{"message":"m","code":"model_not_found"}}"#, Some(404)),
            (r#"{"error":{"message":"m","type":"overloaded_error"}}"#, None),
            (r#"{"error":"overloaded"}"#, None),
        ] {
            assert_eq!(ProviderError::parse(body.as_bytes()).unwrap().implied_status(), status, "{body}");
        }
    }
}
