//! A request as a provider got it.

use axum::http::HeaderMap;
use serde_json::Value;
use tokio::time::Instant;

use super::Protocol;

/// A request as a provider got it.
#[derive(Debug, Clone)]
pub struct Request {
    /// In which protocol it was made.
    pub(super) protocol: Protocol,
    /// Method and path.
    pub line: String,
    pub headers: HeaderMap,
    /// The body; null when it was not JSON.
    pub body: Value,
    /// When it came.
    pub came: Instant,
}

impl Request {
    /// A header as text; empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap_or("(not text)"))
    }

    /// The most tokens that the reply may have.
    pub fn max_tokens(&self) -> u64 {
        let limit = [&self.body["max_tokens"], &self.body["max_completion_tokens"]];
        limit.iter().find_map(|limit| limit.as_u64()).unwrap_or_default()
    }

    /// The names of the tools it offers, in order.
    pub fn tools(&self) -> Vec<&str> {
        let names = self.body["tools"].as_array().into_iter().flatten().map(|tool| match self.protocol {
            Protocol::OpenAi => &tool["function"]["name"],
            Protocol::Anthropic => &tool["name"],
        });
        names.map(|name| name.as_str().unwrap_or_default()).collect()
    }

    /// Whether the model may choose tools: `None` is what providers take for yes.
    pub fn tool_choice(&self) -> Option<&str> {
        let choice = self.body.get("tool_choice")?;
        choice.as_str().or_else(|| choice["type"].as_str())
    }

    /// What the model was told before the conversation.
    pub fn instructions(&self) -> Vec<&str> {
        let told: Vec<_> = match self.protocol {
            Protocol::OpenAi => self
                .said()
                .take_while(|message| message["role"] == "system")
                .map(|one| &one["content"])
                .collect(),
            Protocol::Anthropic => {
                self.body["system"].as_array().into_iter().flatten().map(|one| &one["text"]).collect()
            }
        };
        told.into_iter().filter_map(Value::as_str).collect()
    }

    fn said(&self) -> impl Iterator<Item = &Value> {
        self.body["messages"].as_array().into_iter().flatten()
    }

    /// What the user has said first.
    pub fn user_text(&self) -> String {
        let first = self.said().find(|message| message["role"] == "user");
        let Some(first) = first.map(|message| &message["content"]) else { return String::new() };
        first.as_str().or_else(|| first[0]["text"].as_str()).unwrap_or_default().to_owned()
    }

    /// What tools have returned, in the order of the conversation.
    pub fn tool_results(&self) -> Vec<&str> {
        let messages = self.body["messages"].as_array().into_iter().flatten();
        match self.protocol {
            Protocol::OpenAi => {
                let results = messages.filter(|message| message["role"] == "tool");
                results.map(|result| result["content"].as_str().unwrap_or_default()).collect()
            }
            Protocol::Anthropic => {
                let blocks = messages.filter_map(|turn| turn["content"].as_array()).flatten();
                let results = blocks.filter(|block| block["type"] == "tool_result");
                results.map(|result| result["content"].as_str().unwrap_or_default()).collect()
            }
        }
    }

    /// A health check: a short word of the user, and nothing else.
    pub(super) fn is_check(&self) -> bool {
        self.user_text() == "ping" && self.body.get("tools").is_none()
    }

    /// How many tools the model has asked for in this conversation.
    pub(super) fn calls_so_far(&self) -> usize {
        self.tool_results().len()
    }
}
