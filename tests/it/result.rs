//! The agent's result in both protocols: every field, as host/docs/interface/decisions-runs.md#the-result
//! has it.

use acceptance::{Component, Model, Service};
use serde_json::{Value, json};

/// One tool call and an answer, as the client sees it.
async fn check_a_run_with_one_tool_call(model: Model, name: &str) {
    let service = Service::variant_a().model(&model).start().await;
    model.asks_for("calculate", json!({ "expression": "(19.99 * 3 + 4.50) * 1.2" }));
    model.says("It is 77.364.");

    let answer = service.invoke("What is (19.99 * 3 + 4.50) * 1.2?").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json; charset=utf-8"));
    let body = answer.json();
    let id = text(&body["result"]["id"]);
    let unique = id.strip_prefix("run_").expect("an id of a run");
    assert!(unique.len() >= 16 && unique.chars().all(|c| c.is_ascii_alphanumeric()), "{id}");
    let duration = &body["result"]["toolCalls"][0]["durationMs"];
    assert!(duration.as_f64().is_some_and(|duration| duration > 0.0), "{duration}");
    // The digest is that of the file, as `sha256sum` gives it.
    let component = Component::shipped("calculator").id();
    assert_eq!(component.len(), "calculator@sha256:".len() + 64);
    assert_eq!(
        body,
        json!({ "result": {
            "id": id,
            "output": "It is 77.364.",
            "stopReason": "completed",
            "messages": [
                { "role": "user", "content": "What is (19.99 * 3 + 4.50) * 1.2?" },
                { "role": "assistant", "content": "", "toolCalls": [
                    { "id": "call_1", "name": "calculate",
                      "arguments": { "expression": "(19.99 * 3 + 4.50) * 1.2" } },
                ]},
                { "role": "tool", "toolCallId": "call_1", "name": "calculate",
                  "content": r#"{"value":"77.364","exact":true}"# },
                { "role": "assistant", "content": "It is 77.364." },
            ],
            "usage": { "inputTokens": 200, "outputTokens": 20, "totalTokens": 220 },
            "iterations": 2,
            "model": name,
            "toolCalls": [
                { "name": "calculate", "component": component, "durationMs": duration, "outcome": "ok" },
            ],
        }})
    );
    let calls = model.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].tools(), ["calculate"]);
    assert_eq!(calls[1].tool_results(), [r#"{"value":"77.364","exact":true}"#]);
}

#[tokio::test]
async fn a_run_with_a_tool_call_has_every_field_of_the_result_over_either_protocol() {
    check_a_run_with_one_tool_call(Model::openai().await, "openai/test-model").await;
    check_a_run_with_one_tool_call(Model::anthropic().await, "anthropic/test-model").await;
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
