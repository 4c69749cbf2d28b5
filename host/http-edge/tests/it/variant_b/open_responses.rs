//! What `/v1/responses` answers is what the document says, event by event: it is as strict as the Open
//! Responses specification.

use std::collections::BTreeSet;

use agent_core::testing::{asks_for, says};
use agent_core::words::{Finish, ModelReply};
use http::StatusCode;
use serde_json::{Value, json};

use super::openai::{RESPONSES, events, merged, saying};
use crate::openapi::unknown_fields;

/// What is wrong with a value that is to have the form of that name, if anything is.
pub(super) fn faults(document: &Value, form: &str, value: &Value) -> Vec<String> {
    let reference = json!({ "$ref": format!("#/components/schemas/{form}") });
    let mut whole = reference.clone();
    whole["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&whole).unwrap();
    let mut faults: Vec<_> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    faults.extend(unknown_fields(document, &[&reference], value));
    faults
}

#[tokio::test(start_paused = true)]
async fn every_event_and_every_response_has_the_form_that_is_described() {
    let document = saying([]).get("/openapi.json").await.json();
    let (ended, failed) = ("response.completed", "response.failed");
    let calls = || asks_for(&[("1", "echo", json!({"a": 1})), ("2", "nope", json!({}))]);
    let look = || asks_for(&[("1", "look", json!({"at": "it"}))]);
    let system = json!({"type": "message", "role": "system", "content": "Be a pirate."});
    let user = |text: &str| json!({"type": "message", "role": "user", "content": text});
    let assistant = |text: &str, phase: &str| json!({"type": "message", "role": "assistant", "content": text, "phase": phase});
    let told =
        json!([user("four?"), assistant("Hm.", "commentary"), assistant("4", "final_answer"), user("sure?")]);
    let function = json!({"type": "function", "name": "look", "parameters": {"type": "object"}});
    let output = json!({"type": "function_call_output", "call_id": "1", "output": "a cat"});
    let called = json!({"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"});
    let cases: [(&str, Vec<ModelReply>, Value, &str); 9] = [
        ("words", vec![says("hello")], json!({}), ended),
        ("system prompt", vec![says("ahoy")], json!({"input": [system, user("hi")]}), ended),
        ("several turns", vec![says("yes")], json!({"input": told, "metadata": {"a": "b"}}), ended),
        ("tools of the agent", vec![calls(), says("done")], json!({"instructions": "be kind"}), ended),
        ("a function", vec![look()], json!({"tools": [function], "max_output_tokens": 9}), ended),
        ("its output", vec![says("fur")], json!({"input": [user("hi"), called, output]}), ended),
        ("cut", vec![ModelReply { finish: Finish::Length, ..says("It") }], json!({}), "response.incomplete"),
        (
            "filtered",
            vec![ModelReply { finish: Finish::ContentFilter, ..says("") }],
            json!({}),
            "response.incomplete",
        ),
        // Asked once more, the model has no answer.
        ("no answer", vec![calls()], json!({}), failed),
    ];
    let mut kinds = BTreeSet::new();
    for (name, script, more, end) in cases {
        let body = |stream: bool| merged(json!({"model": "agent", "input": "hi", "stream": stream}), &more);
        let streamed = saying(script.clone()).post(RESPONSES, body(true)).await;
        let events = events(&streamed);
        for event in &events {
            assert_eq!(faults(&document, "OpenAiResponseEvent", event), [""; 0], "{name}: {event:#}");
            kinds.insert(event["type"].as_str().unwrap().to_owned());
        }
        assert_eq!(events.last().unwrap()["type"], end, "{name}");
        let whole = saying(script).post(RESPONSES, body(false)).await;
        if end == failed {
            assert_eq!(whole.status, StatusCode::INTERNAL_SERVER_ERROR, "{name}");
            continue;
        }
        assert_eq!(whole.status, StatusCode::OK, "{name}: {}", whole.body);
        assert_eq!(faults(&document, "OpenAiResponse", &whole.json()), [""; 0], "{name}: {}", whole.body);
    }
    // Only a response in the background has it, whose stream is in `openai_background.rs`.
    kinds.insert("response.queued".to_owned());
    // Nothing is described that never comes.
    let described: BTreeSet<_> = document["components"]["schemas"]["OpenAiResponseEvent"]["anyOf"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|event| event["properties"]["type"]["enum"].as_array().unwrap())
        .map(|kind| kind.as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, described);
}
