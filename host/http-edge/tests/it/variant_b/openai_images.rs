//! Images from clients of OpenAI: they reach the model as they were sent, and nobody else reads them whole.

use std::sync::Arc;

use agent_core::testing::{EchoTools, ScriptedModel, TestRuns, reply, says};
use agent_core::words::{ContentPart, Image, ImageDetail, MOST_IMAGES, Message, UserContent};
use http::StatusCode;
use run_service::layers::Agent;
use run_service::testing::ScriptedInvoke;
use serde_json::{Value, json};

use super::openai::{CHAT, RESPONSES};
use crate::harness::{Answer, Fakes};

const PIXEL: &str = "data:image/png;base64,AAAA";

fn chat(content: &Value) -> String {
    json!({"model": "agent", "messages": [{"role": "user", "content": content}]}).to_string()
}

fn response(content: &Value) -> String {
    json!({"model": "agent", "input": [{"role": "user", "content": content}]}).to_string()
}

/// What a user says who shows this image.
fn shows(text: &str, url: &str, detail: Option<ImageDetail>) -> Message {
    let image = Image::new(url, detail).unwrap();
    let parts = vec![ContentPart::Text { text: text.into() }, ContentPart::Image(image)];
    Message::User { content: UserContent::of_parts(parts) }
}

#[tokio::test]
async fn the_model_is_shown_what_the_user_shows_now_and_has_shown_before() {
    let model = Arc::new(ScriptedModel::new([Ok(says("a cat")), Ok(says("a dog"))]));
    let fakes = Fakes::conversing(Agent::new(
        model.clone(),
        Arc::new(EchoTools::new(&[])),
        Arc::new(TestRuns::default()),
    ));
    let remote = "https://example.com/dog.webp";
    let messages = json!([
        {"role": "user", "content": [
            {"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
        ]},
        {"role": "assistant", "content": "a bird"},
        {"role": "user", "content": [
            {"type": "text", "text": "two"}, {"type": "image_url", "image_url": {"url": remote}},
        ]},
    ]);
    let answer = fakes.post(CHAT, json!({"model": "agent", "messages": messages}).to_string()).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "a cat", "{answer}");
    let items = json!([
        {"role": "user", "content": [
            {"type": "input_text", "text": "one"}, {"type": "input_image", "image_url": PIXEL, "detail": "low"},
        ]},
        {"role": "assistant", "content": "a bird"},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "two"}, {"type": "input_image", "image_url": remote},
        ]},
    ]);
    let answer = fakes.post(RESPONSES, json!({"model": "agent", "input": items}).to_string()).await;
    assert_eq!(answer.json()["output"][0]["content"][0]["text"], "a dog", "{answer}");
    let shown = [shows("one", PIXEL, Some(ImageDetail::Low)), reply("a bird"), shows("two", remote, None)];
    assert_eq!(model.asked(), [shown.to_vec(), shown.to_vec()]);
}

/// Refused with this code for what stands there.
fn check_refusal(answer: &Answer, code: &str, param: &str) {
    let error = &answer.json()["error"];
    assert_eq!((answer.status, &error["type"]), (StatusCode::BAD_REQUEST, &json!("invalid_request_error")));
    assert_eq!((&error["code"], &error["param"]), (&json!(code), &json!(param)), "{answer}");
}

#[tokio::test]
async fn only_users_show_images_and_not_too_many() {
    let fakes = Fakes::with_invoke(ScriptedInvoke::new([]));
    let image = json!({"type": "image_url", "image_url": {"url": PIXEL}});
    let told = |messages: Value| json!({"model": "agent", "messages": messages}).to_string();
    let call = json!([{"id": "1", "function": {"name": "look", "arguments": "{}"}}]);
    let answers = json!({"role": "tool", "tool_call_id": "1", "content": [image]});
    for (path, body, code, param) in [
        (
            CHAT,
            told(json!([{"role": "system", "content": [image]}])),
            "unsupported_value",
            "messages[0].content[0].type",
        ),
        (
            CHAT,
            told(json!([{"role": "assistant", "tool_calls": call}, answers])),
            "unsupported_value",
            "messages[1].content[0].type",
        ),
        (CHAT, chat(&json!(vec![image; MOST_IMAGES + 1])), "invalid_value", "messages"),
        (
            RESPONSES,
            response(&json!([{"type": "input_image", "file_id": "file-1"}])),
            "unsupported_value",
            "input[0].content[0].file_id",
        ),
    ] {
        check_refusal(&fakes.post(path, body).await, code, param);
    }
}

#[tokio::test]
async fn a_kept_conversation_keeps_an_image_and_names_it_to_whoever_reads_it() {
    let agent = ScriptedInvoke::answering("a cat");
    let fakes = Fakes::conversing(agent.clone());
    let asked =
        json!([{"type": "input_text", "text": "Which?"}, {"type": "input_image", "image_url": PIXEL}]);
    let mut body: Value = serde_json::from_str(&response(&asked)).unwrap();
    body["conversation"] = "zoo".into();
    let first = fakes.post(RESPONSES, body.to_string()).await;
    assert_eq!(first.status, StatusCode::OK, "{first}");
    let id = &first.json()["id"];
    let said = [shows("Which?", PIXEL, None), reply("a cat")];
    let history = || agent.asked().pop().unwrap().options.history;
    for (path, body) in [
        ("/api/agent", json!({"query": "Sure?", "options": {"conversationId": "zoo"}})),
        (RESPONSES, json!({"model": "agent", "input": "Sure?", "previous_response_id": id})),
    ] {
        let answer = fakes.post(path, body.to_string()).await;
        assert_eq!((answer.status, history()), (StatusCode::OK, said.to_vec()), "{path} {answer}");
    }
    let kept = fakes.get("/api/agent/conversations/zoo").await.json();
    assert_eq!(
        kept["turns"][0]["messages"][0],
        json!({"role": "user", "content": "Which?\n[image image/png, 3 bytes]"})
    );
    // The native route takes texts only, as ever.
    let parts = json!({"query": asked}).to_string();
    assert_eq!(fakes.post("/api/agent", parts).await.status, StatusCode::BAD_REQUEST);
}
