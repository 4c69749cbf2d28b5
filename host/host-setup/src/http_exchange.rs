//! An exchange as the store keeps it: versioned JSON. A body that is text stands there as text, so that an
//! operator who looks at the table can read it; any other in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tool_host::{HttpOutcome, HttpRequestRecord};

/// The version that is written.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    method: String,
    url: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: Body,
    #[serde(default)]
    body_cut: bool,
    outcome: Outcome,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Response { status: u16, headers: Vec<(String, String)>, body: Body, cut: bool },
    Failed(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Body {
    Text(String),
    Base64(String),
}

/// What is kept of an exchange.
pub fn encode(request: &HttpRequestRecord, outcome: &HttpOutcome) -> Vec<u8> {
    let HttpRequestRecord { method, url, headers, body, body_cut } = request;
    let stored = Stored {
        version: VERSION,
        method: method.clone(),
        url: url.clone(),
        headers: headers.clone(),
        body: Body::of(body),
        body_cut: *body_cut,
        outcome: match outcome {
            HttpOutcome::Response { status, headers, body, cut } => Outcome::Response {
                status: *status,
                headers: headers.clone(),
                body: Body::of(body),
                cut: *cut,
            },
            HttpOutcome::Failed(code) => Outcome::Failed(code.clone()),
        },
    };
    // It cannot fail: all of it is text and numbers. What is empty is not read.
    serde_json::to_vec(&stored).unwrap_or_default()
}

/// The exchange. Absent if it is none that this program reads.
pub fn decode(exchange: &[u8]) -> Option<(HttpRequestRecord, HttpOutcome)> {
    let stored: Stored = serde_json::from_slice(exchange).ok()?;
    if stored.version != VERSION {
        return None;
    }
    let Stored { method, url, headers, body, body_cut, outcome, .. } = stored;
    let request = HttpRequestRecord { method, url, headers, body: body.into_bytes()?, body_cut };
    let outcome = match outcome {
        Outcome::Response { status, headers, body, cut } => {
            HttpOutcome::Response { status, headers, body: body.into_bytes()?, cut }
        }
        Outcome::Failed(code) => HttpOutcome::Failed(code),
    };
    Some((request, outcome))
}

impl Body {
    fn of(bytes: &[u8]) -> Self {
        // JSON takes six bytes for a control character.
        let is_plain =
            |text: &&str| !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
        match std::str::from_utf8(bytes).ok().filter(is_plain) {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.into_bytes()),
            Self::Base64(text) => STANDARD.decode(text).ok(),
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &[u8]) -> HttpRequestRecord {
        HttpRequestRecord {
            method: "POST".into(),
            url: "https://example.org/a?b=c".into(),
            headers: vec![("x-own".into(), "1".into())],
            body: body.to_vec(),
            body_cut: true,
        }
    }

    fn failed() -> HttpOutcome {
        HttpOutcome::Failed("connection-refused".into())
    }

    #[test]
    fn an_exchange_is_read_as_it_was_written() {
        let headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
        let answers = [
            failed(),
            HttpOutcome::Response { status: 404, headers: headers.clone(), body: b"no".to_vec(), cut: false },
            HttpOutcome::Response { status: 200, headers, body: vec![0, 255], cut: true },
        ];
        for outcome in answers {
            for body in [&b"text\n"[..], b"\0", &[0xff, 0xfe], &[]] {
                let stored = encode(&request(body), &outcome);
                assert_eq!(decode(&stored), Some((request(body), outcome.clone())));
            }
        }
        let text = String::from_utf8(encode(&request(b"in words"), &failed())).unwrap();
        assert!(text.contains("in words"), "{text}");
        let controls = encode(&request(&[0; 3_000]), &failed());
        assert!(controls.len() < 5_000, "{}", controls.len());
        for strange in [&b"{}"[..], b"", br#"{"version":2,"method":"GET","url":"","outcome":{"failed":""}}"#]
        {
            assert_eq!(decode(strange), None);
        }
    }
}
