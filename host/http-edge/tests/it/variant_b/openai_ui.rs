//! Chats of the Vercel AI SDK.

use agent_core::testing::{asks_for, says};
use agent_core::words::ModelReply;
use serde_json::{Value, json};

use super::openai::{data, events, saying};
use crate::harness::Answer;

const UI_CHAT: &str = "/v1/chat";

fn chat() -> String {
    let user = json!({"id": "1", "role": "user", "parts": [{"type": "text", "text": "hi"}]});
    json!({"id": "chat-1", "messages": [user], "trigger": "submit-message"}).to_string()
}

/// The types of the chunks, and the word behind the last of them.
fn types(answer: &Answer) -> Vec<String> {
    let kind = |chunk: &str| match serde_json::from_str::<Value>(chunk) {
        Ok(chunk) => chunk["type"].as_str().unwrap().to_owned(),
        Err(_) => chunk.to_owned(),
    };
    data(answer).into_iter().map(kind).collect()
}

#[tokio::test(start_paused = true)]
async fn a_chat_is_answered_step_by_step() {
    let calls = asks_for(&[("1", "echo", json!({"a": 1})), ("2", "nope", json!({}))]);
    let script = [ModelReply { content: "Let me see.".into(), ..calls }, says("done")];
    let answer = saying(script).post(UI_CHAT, chat()).await;
    assert_eq!(answer.header("x-vercel-ai-ui-message-stream"), Some("v1"));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(
        types(&answer),
        [
            "start",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "tool-input-available",
            "tool-input-available",
            "tool-output-available",
            "tool-output-error",
            "finish-step",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "finish-step",
            "finish",
            "[DONE]",
        ]
    );
    let chunks = events(&answer);
    let call = &chunks[5];
    assert_eq!(
        (&call["toolName"], &call["input"], &call["dynamic"]),
        (&json!("echo"), &json!({"a": 1}), &json!(true))
    );
    assert_eq!(chunks[7]["toolCallId"], call["toolCallId"]);
    let last = chunks.last().unwrap();
    assert_eq!(
        (&last["finishReason"], &last["messageMetadata"]["usage"]["totalTokens"]),
        (&json!("stop"), &json!(30))
    );
}

#[tokio::test]
async fn a_chat_that_cannot_be_answered_says_why() {
    let fakes = saying([]);
    let answer = fakes.post(UI_CHAT, r#"{"messages": []}"#).await;
    answer.check_error(400, "param", "messages");
    let answer = fakes.post(UI_CHAT, chat()).await;
    assert_eq!(types(&answer), ["start", "error", "[DONE]"]);
}
