//! The header `Idempotency-Key`, and what keys and requests are known by in the store.

use agent_core::ports::IdempotencyKey;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::IF_MATCH;
use http::{HeaderMap, HeaderName};
use sha2::{Digest as _, Sha256};

use crate::server_sent_events::accepts_events;

pub(crate) const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// Most characters of a key, as with Stripe.
const MOST_CHARACTERS: usize = 255;

/// A header that holds no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("there is more than one Idempotency-Key")]
    Several,
    #[error("the Idempotency-Key has none or more than {} characters", MOST_CHARACTERS)]
    Length,
    #[error(
        "the Idempotency-Key has a character that is not visible ASCII, or a double quote or backslash within"
    )]
    Character,
}

/// The key of a request that has the header. The draft wants a quoted string, and most clients send a bare
/// one: both are the same key.
pub(crate) fn read(headers: &HeaderMap) -> Result<String, KeyError> {
    let mut lines = headers.get_all(HEADER).iter();
    let (line, second) = (lines.next(), lines.next());
    if second.is_some() {
        return Err(KeyError::Several);
    }
    let text = line.map_or(&b""[..], |line| line.as_bytes()).trim_ascii();
    let quoted = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
    let key = quoted.unwrap_or(text);
    if !(1..=MOST_CHARACTERS).contains(&key.len()) {
        return Err(KeyError::Length);
    }
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    if !key.iter().all(is_plain) {
        return Err(KeyError::Character);
    }
    Ok(String::from_utf8_lossy(key).into_owned())
}

/// A key and its request as the store knows them: digests, so that whatever callers send has the same form
/// and nobody who looks into the store learns a key.
#[derive(Debug)]
pub(super) struct Digests {
    caller: String,
    key: String,
    request: String,
}

impl Digests {
    pub(super) fn of(caller: &str, key: &str, request: &http::Request<()>, body: &[u8]) -> Self {
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        let mut said = vec![request.method().as_str().as_bytes(), target.as_bytes(), body];
        // Of the headers, what decides about the kind of the answer and about what is to be changed.
        if accepts_events(request.headers()) {
            said.push(b"events");
        }
        if let Some(revision) = request.headers().get(IF_MATCH) {
            said.extend([b"if-match", revision.as_bytes()]);
        }
        Self { caller: digest(&[caller.as_bytes()]), key: digest(&[key.as_bytes()]), request: digest(&said) }
    }

    pub(super) fn key(&self) -> IdempotencyKey<'_> {
        IdempotencyKey { caller: &self.caller, key: &self.key, request: &self.request }
    }
}

fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // With its length before it, no part can be read as the end of another.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read_lines(lines: &[&[u8]]) -> Result<String, KeyError> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(HEADER, HeaderValue::from_bytes(line).unwrap());
        }
        read(&headers)
    }

    #[test]
    fn a_key_is_the_same_with_quotes_and_without() {
        for line in
            ["8e03978e-40d5-43dd-bc93-6e2a7bea36ca", "\"8e03978e-40d5-43dd-bc93-6e2a7bea36ca\"", " x "]
        {
            let key = line.trim().trim_matches('"');
            assert_eq!(read_lines(&[line.as_bytes()]).as_deref(), Ok(key));
        }
        assert_eq!(read_lines(&["k".repeat(255).as_bytes()]), Ok("k".repeat(255)));
        assert_eq!(read_lines(&[b"a,b;c=1!~"]).as_deref(), Ok("a,b;c=1!~"));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for line in ["", "\"\"", " ", &"k".repeat(256)] {
            assert_eq!(read_lines(&[line.as_bytes()]), Err(KeyError::Length), "{line:?}");
        }
        for line in ["a b", "\"a", "a\"", "\"a\\\"b\"", "\"a\";x=1", "a\tb", "é", "\""] {
            assert_eq!(read_lines(&[line.as_bytes()]), Err(KeyError::Character), "{line:?}");
        }
        assert_eq!(read_lines(&[b"\xff"]), Err(KeyError::Character));
        assert_eq!(read_lines(&[b"a", b"a"]), Err(KeyError::Several));
    }

    #[test]
    fn requests_differ_in_method_target_body_and_what_they_want() {
        let with = |headers: &[(&str, &str)], target: &str, body: &[u8]| {
            let mut request = http::Request::post(target);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            Digests::of("u1", "k", &request.body(()).unwrap(), body).request
        };
        let request = |target: &str, body: &[u8]| with(&[("accept", "application/json")], target, body);
        let all = [
            request("/a", b"1"),
            request("/a?b", b"1"),
            request("/a", b"11"),
            request("/a1", b""),
            with(&[("accept", "text/event-stream")], "/a", b"1"),
            with(&[("if-match", "\"1\"")], "/a", b"1"),
            with(&[("if-match", "\"2\"")], "/a", b"1"),
        ];
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(request("/a", b"1"), all[0]);
    }
}
