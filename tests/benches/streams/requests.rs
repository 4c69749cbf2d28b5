//! What is asked, as bytes. Where a user is needed each connection has one of its own: a user may have 32
//! streams at once, and one that has just ended may still count.

use std::sync::LazyLock;

use acceptance::Token;

use crate::measuring::request::post;

/// Users of Variant B.
const USERS: usize = 32;

/// Makes the request of a connection, by its number, with that text.
pub(crate) type MakeRequest = fn(text: &str, connection: usize) -> Vec<u8>;

/// The provider itself, for a stream.
pub(crate) fn provider(text: &str, _connection: usize) -> Vec<u8> {
    let body = format!(
        r#"{{"model":"bench","messages":[{{"role":"user","content":"{text}"}}],"max_tokens":9000,"temperature":0,"stream":true}}"#
    );
    post("/v1/chat/completions", "", &body)
}

/// Variant A, for a stream.
pub(crate) fn invoke_streamed(text: &str, _connection: usize) -> Vec<u8> {
    post("/agent/invoke", EVENTS, format!(r#"{{"input":"{text}"}}"#))
}

/// Variant B, for an answer.
pub(crate) fn agent(text: &str, connection: usize) -> Vec<u8> {
    post("/api/agent", user(connection), format!(r#"{{"query":"{text}"}}"#))
}

/// Variant B, for a stream.
pub(crate) fn agent_streamed(text: &str, connection: usize) -> Vec<u8> {
    let headers = format!("{}{EVENTS}", user(connection));
    post("/api/agent", &headers, format!(r#"{{"query":"{text}"}}"#))
}

/// The OpenAI front, for an answer.
pub(crate) fn completion(text: &str, connection: usize) -> Vec<u8> {
    let body = format!(r#"{{"model":"agent","messages":[{{"role":"user","content":"{text}"}}]}}"#);
    post("/v1/chat/completions", user(connection), &body)
}

/// The OpenAI front, for a stream.
pub(crate) fn completion_streamed(text: &str, connection: usize) -> Vec<u8> {
    let body =
        format!(r#"{{"model":"agent","messages":[{{"role":"user","content":"{text}"}}],"stream":true}}"#);
    post("/v1/chat/completions", user(connection), &body)
}

/// Something that costs next to nothing.
pub(crate) const LIVENESS: &[u8] = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";

const EVENTS: &str = "Accept: text/event-stream\r\n";

fn user(connection: usize) -> &'static str {
    static HEADERS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let tokens = (0..USERS).map(|number| Token::of(format!("user-{number}")).premium());
        tokens.map(|token| format!("Authorization: Bearer {token}\r\n")).collect()
    });
    &HEADERS[connection % USERS]
}
