//! The agent's result in both protocols: every field, as host/docs/interface/decisions-runs.md#the-result
//! has it.

use acceptance::{Component, Model, Request, Service, asks_for_all, says};
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
async fn a_run_with_a_tool_call_over_openais_protocol_has_every_field_of_the_result() {
    check_a_run_with_one_tool_call(Model::openai().await, "openai/test-model").await;
}

#[tokio::test]
async fn a_run_with_a_tool_call_over_anthropics_protocol_has_every_field_of_the_result() {
    check_a_run_with_one_tool_call(Model::anthropic().await, "anthropic/test-model").await;
}

async fn check_several_calls_in_one_reply(model: Model) {
    let service = Service::variant_a().model(&model).start().await;
    let expression = |text: &str| json!({ "expression": text });
    // The second is the slowest: answers must not come in the order in which the tools are done.
    model.plays(asks_for_all([
        ("calculate", expression("1 + 1")),
        ("calculate", expression("exp(sin(1)) ^ 0.37 + ln(1234567.89)")),
        ("calculate", expression("3 + 3")),
    ]));
    model.plays(asks_for_all([("calculate", expression("4 + 4")), ("calculate", expression("5 + 5"))]));
    model.says("done");

    let result = service.result_of("five sums").await;
    let messages = result["messages"].as_array().unwrap();
    let answered: Vec<_> = messages.iter().filter(|message| message["role"] == "tool").collect();
    let ids: Vec<_> = answered.iter().map(|message| text(&message["toolCallId"])).collect();
    assert_eq!(ids, ["call_1", "call_2", "call_3", "call_4", "call_5"]);
    let value = |index: usize| -> Value {
        serde_json::from_str::<Value>(text(&answered[index]["content"])).unwrap()["value"].take()
    };
    assert_eq!([value(0), value(2), value(3), value(4)], ["2", "6", "8", "10"]);
    let outcomes: Vec<_> =
        result["toolCalls"].as_array().unwrap().iter().map(|call| text(&call["outcome"])).collect();
    assert_eq!(outcomes, ["ok"; 5]);
    assert_eq!((&result["iterations"], &result["stopReason"]), (&json!(3), &json!("completed")));
}

#[tokio::test]
async fn several_tool_calls_in_one_openai_reply_are_answered_in_the_order_asked() {
    check_several_calls_in_one_reply(Model::openai().await).await;
}

#[tokio::test]
async fn several_tool_calls_in_one_anthropic_reply_are_answered_in_the_order_asked() {
    check_several_calls_in_one_reply(Model::anthropic().await).await;
}

#[tokio::test]
async fn every_run_has_an_id_of_its_own() {
    let model = Model::openai().await;
    model.always(|_| says("hello"));
    let service = Service::variant_a().model(&model).start().await;
    let (one, two) = tokio::join!(service.result_of("hi"), service.result_of("hi"));
    assert_ne!(one["id"], two["id"]);
}

#[tokio::test]
async fn the_callers_text_reaches_the_model_as_it_was_sent() {
    let model = Model::openai().await;
    model.always(|_| says("hello"));
    let service = Service::variant_a().model(&model).start().await;
    let texts = [" ", "Grüße, 世界 🦀", "\"quoted\" \\ and \u{0}\u{7f}\n\t", "<script>", "{\"input\":1}"];
    for input in texts {
        let result = service.result_of(input).await;
        assert_eq!(result["messages"][0], json!({ "role": "user", "content": input }));
    }
    let heard: Vec<_> = model.calls().iter().map(Request::user_text).collect();
    assert_eq!(heard, texts);
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
