//! A failed exchange becomes a `ModelError`: which kind it is, how long to wait, and what the provider said,
//! in one short line without the key.

use std::time::{Duration, SystemTime};

use agent_core::ports::ModelError;
use agent_core::secret::Secret;
use http::StatusCode;

use super::provider_error::ProviderError;
use super::transport::{ExchangeError, HttpResponse};

/// The most characters of the provider's text in an error.
const LONGEST_QUOTE: usize = 300;

/// A shorter key is a placeholder for a server that wants none ("x", "none", "ollama"). It is not redacted:
/// that would garble every error text in which the word occurs.
const SHORTEST_SECRET: usize = 8;

/// Makes the errors of one client.
#[derive(Debug)]
pub(crate) struct Faults {
    /// `provider/model`, which every error names.
    pub(crate) model: String,
    /// The API key, which is redacted in every error.
    pub(crate) key: Secret,
}

impl Faults {
    /// The error for an exchange without a whole response.
    pub(crate) fn exchange(&self, error: ExchangeError) -> ModelError {
        match error {
            ExchangeError::Timeout => ModelError::Timeout { provider: self.model.clone() },
            ExchangeError::Connection(detail) => self.unreachable(&detail),
            ExchangeError::TooLarge => self.malformed("it is larger than any reply can be"),
        }
    }

    /// The error for a connection that broke.
    pub(crate) fn unreachable(&self, detail: &str) -> ModelError {
        ModelError::Unreachable { provider: self.model.clone(), detail: self.quote(detail) }
    }

    /// The error for a successful response that is no reply, where another try would bring the same.
    pub(crate) fn malformed(&self, detail: &str) -> ModelError {
        ModelError::Malformed { provider: self.model.clone(), detail: self.quote(detail) }
    }

    /// The error for a successful response that holds no reply, where another try may bring one.
    pub(crate) fn without_reply(&self, response: &HttpResponse, why: &str, now: SystemTime) -> ModelError {
        ModelError::Unavailable {
            provider: self.model.clone(),
            detail: self.quote(&format!("200 OK without a reply: {why}")),
            retry_after: retry_after(response, now),
        }
    }

    /// The error for a request that cannot be made, or that `status` refuses.
    pub(crate) fn refused(&self, detail: &str) -> ModelError {
        ModelError::Refused { provider: self.model.clone(), detail: self.quote(detail) }
    }

    /// The error for a request that was only refused for these functions of its caller.
    pub(crate) fn refused_functions(&self, functions: &[&str], detail: &str) -> ModelError {
        ModelError::RefusedFunctions {
            provider: self.model.clone(),
            functions: functions.iter().map(|name| (*name).to_owned()).collect(),
            detail: self.quote(detail),
        }
    }

    /// The error for a `status` that is no success: the response's own, or one that a gateway put into the
    /// body of a
    /// 200. `now` is subtracted from a `Retry-After` that is a date.
    pub(crate) fn status(
        &self,
        status: StatusCode,
        response: &HttpResponse,
        error: Option<&ProviderError>,
        now: SystemTime,
    ) -> ModelError {
        let words = error.map_or_else(|| plain_text(&response.body), |error| error.message.clone());
        let mut detail = status
            .canonical_reason()
            .map_or_else(|| status.as_u16().to_string(), |reason| format!("{} {reason}", status.as_u16()));
        if !words.is_empty() {
            detail = format!("{detail}: {}", self.quote(&words));
        }
        if let Some(id) = response.header("request-id").or_else(|| response.header("x-request-id")) {
            // What a provider's support asks for first.
            detail = format!("{detail} (provider's request id {})", self.quote(id));
        }
        let retry_after = retry_after(response, now).or_else(|| error?.retry_after);
        let provider = self.model.clone();
        let is_too_large = error.is_some_and(ProviderError::is_too_large);
        let quota_exhausted = (status == StatusCode::PAYMENT_REQUIRED && !is_too_large)
            || error.is_some_and(ProviderError::is_quota_exhausted);
        match status.as_u16() {
            status if quota_exhausted || (status == 429 && !is_too_large) => {
                ModelError::RateLimited { provider, detail, retry_after, quota_exhausted }
            }
            408 | 409 | 500.. => ModelError::Unavailable { provider, detail, retry_after },
            _ if is_too_large || error.is_some_and(ProviderError::is_too_long) => {
                ModelError::TooLong { provider, detail }
            }
            _ => ModelError::Refused { provider, detail },
        }
    }

    /// The provider's text, safe to log: one line, because line breaks would forge log lines, and without the
    /// key, which is redacted before the text is cut so that no half of it stays.
    pub(crate) fn quote(&self, words: &str) -> String {
        let redacted = self.redact(words);
        let printable = redacted.split(|c: char| c.is_whitespace() || c.is_control());
        let line = printable.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(LONGEST_QUOTE) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }

    /// `text` without the key. Providers do quote it: "Incorrect API key provided: …".
    fn redact(&self, text: &str) -> String {
        let key = self.key.expose();
        if key.len() < SHORTEST_SECRET { text.to_owned() } else { text.replace(key, "[key]") }
    }
}

/// The text of a body that is not JSON, unless it is a page for browsers.
fn plain_text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if text.trim_start().starts_with('<') { "an HTML page".to_owned() } else { text.into_owned() }
}

/// How long the provider asks us to wait: `retry-after-ms` of OpenAI, or `Retry-After` in seconds (some send
/// fractions) or as a date.
fn retry_after(response: &HttpResponse, now: SystemTime) -> Option<Duration> {
    let number = |name, unit: f64| {
        let number: f64 = response.header(name)?.trim().parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    number("retry-after-ms", 0.001).or_else(|| number("retry-after", 1.0)).or_else(|| {
        let date = httpdate::parse_http_date(response.header("retry-after")?.trim()).ok()?;
        Some(date.duration_since(now).unwrap_or(Duration::ZERO))
    })
}

#[cfg(test)]
mod tests {
    use http::header::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    fn faults() -> Faults {
        Faults { model: "openai/m".into(), key: Secret::new("sk-very-secret") }
    }

    fn response(headers: &[(&'static str, &str)], body: &str) -> HttpResponse {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        let headers: HeaderMap = headers.iter().map(header).collect();
        HttpResponse { status: StatusCode::OK, headers, body: body.into(), is_streamed: false }
    }

    fn detail(body: &str) -> String {
        let response = response(&[("request-id", "req_1")], body);
        let error = ProviderError::parse(body.as_bytes());
        faults()
            .status(StatusCode::UNAUTHORIZED, &response, error.as_ref(), SystemTime::UNIX_EPOCH)
            .to_string()
    }

    #[test]
    fn every_status_has_its_kind() {
        for status in 300..=599 {
            let status = StatusCode::from_u16(status).unwrap();
            let error = faults().status(status, &response(&[], ""), None, SystemTime::UNIX_EPOCH);
            let fits = match status.as_u16() {
                402 => matches!(error, ModelError::RateLimited { quota_exhausted: true, .. }),
                429 => matches!(error, ModelError::RateLimited { quota_exhausted: false, .. }),
                408 | 409 | 500..=599 => matches!(error, ModelError::Unavailable { .. }),
                _ => matches!(error, ModelError::Refused { .. }),
            };
            assert!(fits, "{status}: {error}");
        }
    }

    #[test]
    fn an_account_without_credit_and_a_request_beyond_its_limit_are_told_from_too_many_requests() {
        for (status, message, exhausted) in [
            (400, "Your credit balance is too low to access the Anthropic API.", Some(true)),
            (429, "Rate limit reached for gpt: Limit 30000, Used 29000, Requested 5000.", Some(false)),
            (429, "Request too large for gpt: Limit 30000, Requested 38520.", None),
            (402, "Prompt tokens limit exceeded: 64128 > 6964. To increase, visit the settings.", None),
            (402, "This request requires more credits, but can only afford 0.", Some(true)),
            (400, "Unknown format: Your credit balance is too low", None),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = ProviderError { message: message.into(), ..ProviderError::default() };
            let error = faults().status(status, &response(&[], ""), Some(&error), SystemTime::UNIX_EPOCH);
            let known = match error {
                ModelError::RateLimited { quota_exhausted, .. } => Some(quota_exhausted),
                _ => None,
            };
            assert_eq!(known, exhausted, "{message}");
        }
    }

    #[test]
    fn a_request_that_is_too_long_is_told_from_other_refusals() {
        for (status, body, is_long) in [
            (400, r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#, true),
            (400, r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#, true),
            (400, r#"{"error":{"code":400,"message":"m","type":"exceed_context_size_error"}}"#, true),
            (400, r#"{"message":"too large for model with 32768 maximum context length"}"#, true),
            (413, r#"{"error":{"message":"Request too large for gpt: Limit 3, Requested 8."}}"#, true),
            (400, r#"{"error":{"message":"max_tokens is too large"}}"#, false),
            (500, r#"{"error":{"message":"the context length is exceeded"}}"#, false),
        ] {
            let (status, error) =
                (StatusCode::from_u16(status).unwrap(), ProviderError::parse(body.as_bytes()));
            let error = faults().status(status, &response(&[], body), error.as_ref(), SystemTime::UNIX_EPOCH);
            assert_eq!(matches!(error, ModelError::TooLong { .. }), is_long, "{error}");
        }
    }

    #[test]
    fn the_providers_words_are_quoted_in_one_line_without_the_key() {
        insta::assert_snapshot!(detail(r#"{"error":{"message":"bad key sk-very-secret\nsee docs"}}"#),
            @"the model provider openai/m refused the request: 401 Unauthorized: bad key [key] see docs (provider's request id req_1)");
        insta::assert_snapshot!(detail("<html>sk-very-secret</html>"),
            @"the model provider openai/m refused the request: 401 Unauthorized: an HTML page (provider's request id req_1)");
        insta::assert_snapshot!(detail(""),
            @"the model provider openai/m refused the request: 401 Unauthorized (provider's request id req_1)");
    }

    #[test]
    fn a_placeholder_for_a_key_is_not_redacted() {
        assert_eq!(faults().redact("got sk-very-secret, sk-very-secret"), "got [key], [key]");
        let placeholder = Faults { key: Secret::new("x"), ..faults() };
        assert_eq!(placeholder.redact("context exceeded"), "context exceeded");
    }

    #[test]
    fn a_key_across_the_cut_leaves_no_half_behind() {
        for padding in LONGEST_QUOTE - 14..=LONGEST_QUOTE {
            let quoted = faults().quote(&format!("{}sk-very-secret", "é".repeat(padding)));
            assert!(!quoted.contains("sk-"), "{quoted}");
            assert!(quoted.chars().count() <= LONGEST_QUOTE + 1);
        }
    }

    #[test]
    fn retry_after_is_seconds_milliseconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let wait = |headers: &[(&'static str, &str)]| retry_after(&response(headers, ""), now);
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (value, expected) in [
            ("0", seconds(0)),
            ("7", seconds(7)),
            ("1.5", Some(Duration::from_millis(1500))),
            ("Sun, 06 Nov 1994 08:49:42 GMT", seconds(5)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", seconds(0)),
            ("-1", None),
            ("NaN", None),
            ("1e300", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(wait(&[("retry-after", value)]), expected, "{value}");
        }
        let both = [("retry-after", "7"), ("retry-after-ms", "250")];
        assert_eq!(wait(&both), Some(Duration::from_millis(250)));
        assert_eq!(wait(&[]), None);
    }
}
