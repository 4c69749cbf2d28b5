//! A bad answer becomes an error: which kind it is, how long to wait, and what the provider said, without
//! the key and in one short line.

use std::time::{Duration, SystemTime};

use agent_core::ports::ModelError;
use reqwest::StatusCode;

use crate::api_key::ApiKey;
use crate::complaint::Complaint;
use crate::transport::{Answer, Broken};

/// The most characters of somebody else's words in an error.
const LONGEST_QUOTE: usize = 300;

/// Makes errors of one client.
#[derive(Debug)]
pub(crate) struct Faults {
    /// `provider/model` that is asked.
    pub(crate) who: String,
    /// Is kept out of every error.
    pub(crate) key: ApiKey,
}

impl Faults {
    /// The error for an exchange that did not end.
    pub(crate) fn broken(&self, broken: Broken) -> ModelError {
        match broken {
            Broken::Late => ModelError::Timeout { provider: self.who.clone() },
            Broken::Cut(detail) => self.unreachable(&detail),
            Broken::Endless => self.malformed("it is larger than any reply can be"),
        }
    }

    /// The error for a connection that broke.
    pub(crate) fn unreachable(&self, detail: &str) -> ModelError {
        ModelError::Unreachable { provider: self.who.clone(), detail: self.quote(detail) }
    }

    /// The error for an answer that is no reply.
    pub(crate) fn malformed(&self, detail: &str) -> ModelError {
        ModelError::Malformed { provider: self.who.clone(), detail: self.quote(detail) }
    }

    /// The error for an answer of 200 that holds no reply, though another try may bring one.
    pub(crate) fn without_reply(&self, answer: &Answer, why: &str, now: SystemTime) -> ModelError {
        ModelError::Unavailable {
            provider: self.who.clone(),
            detail: self.quote(&format!("200 OK without a reply: {why}")),
            retry_after: retry_after(answer, now),
        }
    }

    /// The error for a request that cannot be made, or that `status` refuses.
    pub(crate) fn refused(&self, detail: &str) -> ModelError {
        ModelError::Refused { provider: self.who.clone(), detail: self.quote(detail) }
    }

    /// The error for an answer with a `status` that is no success, at the time of `now`. The status is the
    /// answer's own, or the one that a gateway put into a body.
    pub(crate) fn status(
        &self,
        status: StatusCode,
        answer: &Answer,
        complaint: Option<&Complaint>,
        now: SystemTime,
    ) -> ModelError {
        let words = complaint.map_or_else(|| plain_text(&answer.body), |said| said.message.clone());
        let mut detail = status
            .canonical_reason()
            .map_or_else(|| status.as_u16().to_string(), |reason| format!("{} {reason}", status.as_u16()));
        if !words.is_empty() {
            detail = format!("{detail}: {}", self.quote(&words));
        }
        if let Some(id) = answer.header("request-id").or_else(|| answer.header("x-request-id")) {
            // What a provider's support asks for first.
            detail = format!("{detail} (provider's request id {})", self.quote(id));
        }
        let (provider, retry_after) = (self.who.clone(), retry_after(answer, now));
        match status.as_u16() {
            429 => ModelError::RateLimited { provider, detail, retry_after },
            408 | 409 | 500.. => ModelError::Unavailable { provider, detail, retry_after },
            _ => ModelError::Refused { provider, detail },
        }
    }

    /// Somebody else's words, safe to log: the key is taken out before the text is cut, lest half of it
    /// stays; line breaks and the like would forge log lines.
    pub(crate) fn quote(&self, words: &str) -> String {
        let scrubbed = self.key.scrub(words);
        let printable = scrubbed.split(|c: char| c.is_whitespace() || c.is_control());
        let line = printable.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(LONGEST_QUOTE) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

/// The text of a body that is not JSON, unless it is a page for browsers.
fn plain_text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if text.trim_start().starts_with('<') { "an HTML page".to_owned() } else { text.into_owned() }
}

/// How long the provider asks us to wait: `retry-after-ms` of OpenAI, or `Retry-After` in seconds (some send
/// fractions) or as a date.
fn retry_after(answer: &Answer, now: SystemTime) -> Option<Duration> {
    let number = |name, unit: f64| {
        let number: f64 = answer.header(name)?.trim().parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    number("retry-after-ms", 0.001).or_else(|| number("retry-after", 1.0)).or_else(|| {
        let date = httpdate::parse_http_date(answer.header("retry-after")?.trim()).ok()?;
        Some(date.duration_since(now).unwrap_or(Duration::ZERO))
    })
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    fn faults() -> Faults {
        Faults { who: "openai/m".into(), key: ApiKey::new("sk-very-secret") }
    }

    fn answer(headers: &[(&'static str, &str)], body: &str) -> Answer {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        let headers: HeaderMap = headers.iter().map(header).collect();
        Answer { status: StatusCode::OK, headers, body: body.into() }
    }

    fn detail(body: &str) -> String {
        let answer = answer(&[("request-id", "req_1")], body);
        let complaint = Complaint::read(body.as_bytes());
        faults()
            .status(StatusCode::UNAUTHORIZED, &answer, complaint.as_ref(), SystemTime::UNIX_EPOCH)
            .to_string()
    }

    #[test]
    fn every_status_has_its_kind() {
        for status in 300..=599 {
            let status = StatusCode::from_u16(status).unwrap();
            let error = faults().status(status, &answer(&[], ""), None, SystemTime::UNIX_EPOCH);
            let fits = match status.as_u16() {
                429 => matches!(error, ModelError::RateLimited { .. }),
                408 | 409 | 500..=599 => matches!(error, ModelError::Unavailable { .. }),
                _ => matches!(error, ModelError::Refused { .. }),
            };
            assert!(fits, "{status}: {error}");
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
        let wait = |headers: &[(&'static str, &str)]| retry_after(&answer(headers, ""), now);
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
