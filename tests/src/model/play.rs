//! What a fake provider does when it is asked: replies, errors, and everything that goes wrong on a wire.

use serde_json::{Value, json};
use test_servers::within;
use tokio::sync::watch;

use super::request::Request;

/// One part of a script.
#[derive(Debug, Clone)]
pub enum Play {
    /// A reply in the provider's protocol.
    Reply {
        /// What it says; may be empty.
        text: String,
        /// The tools it asks for, with their arguments. Those that are a JSON string go over OpenAI's wire as
        /// that text, JSON or not.
        calls: Vec<(String, Value)>,
        /// Tokens it is billed for: read and written. Nothing: it does not say.
        usage: Option<(u64, u64)>,
    },
    /// Any response.
    Whole {
        /// Status of the response.
        status: u16,
        /// Headers of the response.
        headers: Vec<(&'static str, String)>,
        /// Body of the response.
        body: String,
    },
    /// A reply whose words are streamed at once and whose end follows once a gate is open.
    Paused(watch::Receiver<bool>, Box<Play>),
    /// Nothing, for as long as the client stays.
    Hang,
    /// Something else, once a gate is open.
    Held(watch::Receiver<bool>, Box<Play>),
}

/// A reply that is nothing but text.
pub fn says(text: &str) -> Play {
    Play::Reply { text: text.to_owned(), calls: Vec::new(), usage: Some((100, 10)) }
}

/// A reply that asks for one tool.
pub fn asks_for(tool: &str, arguments: Value) -> Play {
    asks_for_all([(tool, arguments)])
}

/// A reply that asks for several tools.
pub fn asks_for_all<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Play {
    let calls = calls.into_iter().map(|(tool, arguments)| (tool.to_owned(), arguments)).collect();
    Play::Reply { text: String::new(), calls, usage: Some((100, 10)) }
}

/// A user's text that tells a model which [`obeys`](super::Model::obeys) to call a tool.
pub fn order(tool: &str, arguments: &Value) -> String {
    json!({ "tool": tool, "arguments": arguments }).to_string()
}

/// Calls the tool of the user's order, then says what it returned.
pub(super) fn obey(request: &Request) -> Play {
    if let Some(returned) = request.tool_results().last() {
        return says(returned);
    }
    let text = request.user_text();
    let order: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("this is no order: {text}"));
    asks_for(order["tool"].as_str().unwrap_or_default(), order["arguments"].clone())
}

impl Play {
    /// A reply that is billed for that many tokens read and written.
    #[must_use]
    pub fn using(self, read: u64, written: u64) -> Self {
        match self {
            Self::Reply { text, calls, .. } => Self::Reply { text, calls, usage: Some((read, written)) },
            other => other,
        }
    }
}

/// Holds an answer back until it is opened, or dropped.
#[derive(Debug)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    pub(super) fn closed() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(super) fn opened(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }

    /// Waits until whoever waited for the answer has gone away.
    pub async fn is_abandoned(&self) {
        within("whoever waits at the gate to go away", self.0.closed()).await;
    }

    /// Lets the answer go.
    pub fn open(self) {
        drop(self);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}
