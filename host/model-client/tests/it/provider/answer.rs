//! What a scripted provider answers: replies, errors, and everything that goes wrong on a wire.

use std::future;
use std::time::Duration;

use model_client::Provider;
use serde_json::{Value, json};
use test_servers::HttpConnection;

/// One answer of a script.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A whole response.
    Whole { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// Sends these bytes, and then the connection is closed.
    Raw(String),
    /// The server sends these bytes, and then nothing more for as long as the client stays.
    Stalled(String),
    /// Sends these bytes, others after a silence, and then the connection is closed.
    Silent(String, Duration, String),
    /// A successful response whose body does not end.
    Endless,
    /// The connection is closed without a word.
    HangUp,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self::text(status, "")
    }

    pub(crate) fn text(status: u16, body: &str) -> Self {
        Self::Whole { status, headers: vec![], body: body.to_owned() }
    }

    pub(crate) fn json(body: &Value) -> Self {
        Self::text(200, &body.to_string())
    }

    /// An error in the form both providers use.
    pub(crate) fn error(status: u16, message: &str) -> Self {
        Self::text(status, &json!({"error": {"message": message}}).to_string())
    }

    /// A reply that is nothing but `text`.
    pub(crate) fn reply(protocol: Provider, text: &str) -> Self {
        Self::json(&match protocol.prefix() {
            "openai" => json!({
                "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 4},
            }),
            "anthropic" => json!({
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 3, "output_tokens": 4},
            }),
            other => panic!("there is no reply of {other} here"),
        })
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        match &mut self {
            Self::Whole { headers, .. } => headers.push((name, value.to_owned())),
            other => panic!("{other:?} has no headers to add to"),
        }
        self
    }

    /// True when the connection can be used again. That the client hangs up first is its right.
    pub(crate) async fn send(self, connection: &mut HttpConnection) -> bool {
        match self {
            Self::Whole { status, headers, body } => {
                let mut text = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n", body.len());
                for (name, value) in headers {
                    text.push_str(&format!("{name}: {value}\r\n"));
                }
                text.push_str("\r\n");
                text.push_str(&body);
                connection.write(text).await
            }
            Self::Raw(text) => {
                connection.write(text).await;
                false
            }
            Self::Stalled(text) => {
                connection.write(text).await;
                future::pending().await
            }
            Self::Silent(begin, silence, rest) => {
                connection.write(begin).await;
                tokio::time::sleep(silence).await;
                connection.write(rest).await;
                false
            }
            Self::Endless => {
                connection.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
                let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
                while connection.write(&chunk).await {}
                false
            }
            Self::HangUp => false,
        }
    }
}
