//! Answers of a form: JSON that a client's schema allows, in all dialects.

use agent_core::testing::{asks_for, says};
use agent_core::words::{Finish, ModelReply};
use http::StatusCode;
use serde_json::{Value, json};

use super::openai::{CHAT, RESPONSES, chat, data, events, response, saying};

fn schema() -> Value {
    json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]})
}

fn of_chat() -> Value {
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "sum", "schema": schema()}}})
}

fn of_response() -> Value {
    json!({"text": {"format": {"type": "json_schema", "name": "sum", "schema": schema()}}})
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}

/// Words beside a call, words that are no JSON, and the answer.
fn corrected() -> [ModelReply; 3] {
    let asking = ModelReply { content: "Let me see.".into(), ..asks_for(&[("1", "echo", json!({}))]) };
    [asking, says("It is 3."), says(r#"{"sum": 3}"#)]
}

fn never_right() -> [ModelReply; 3] {
    [says("one"), says("two"), says("three")]
}

#[tokio::test]
async fn nothing_but_the_checked_output_is_said_streamed_or_not() {
    let fakes = saying(corrected());
    let completion = fakes.post(CHAT, chat(&of_chat())).await.json();
    let message = &completion["choices"][0]["message"];
    assert_eq!((&message["content"], &message["refusal"]), (&json!(r#"{"sum": 3}"#), &Value::Null));
    let streamed = fakes.post(CHAT, chat(&with(of_chat(), "stream", true.into()))).await;
    let chunks = data(&streamed).into_iter().filter_map(|chunk| serde_json::from_str::<Value>(chunk).ok());
    let said: Vec<_> = chunks
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(said.concat(), r#"{"sum": 3}"#);

    let fakes = saying(corrected());
    let whole = fakes.post(RESPONSES, response(&of_response())).await.json();
    let streamed = fakes.post(RESPONSES, response(&with(of_response(), "stream", true.into()))).await;
    let events = events(&streamed);
    let last = &events.last().unwrap()["response"];
    for ended in [&whole, last] {
        assert_eq!(
            (&ended["status"], &ended["text"]["format"]["name"]),
            (&json!("completed"), &json!("sum"))
        );
        let kinds: Vec<_> = ended["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
        assert_eq!(kinds, ["mcp_call", "message"]);
        assert_eq!(ended["output"][1]["content"][0]["text"], r#"{"sum": 3}"#);
    }
    let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    assert_eq!(deltas.map(|event| &event["delta"]).collect::<Vec<_>>(), [r#"{"sum": 3}"#]);
}

#[tokio::test]
async fn an_output_that_is_never_right_is_a_refusal_or_a_failed_response_that_says_why() {
    let fakes = saying(never_right());
    let completion = fakes.post(CHAT, chat(&of_chat())).await.json();
    let message = &completion["choices"][0]["message"];
    assert!(message["refusal"].as_str().unwrap().starts_with("The reply is not JSON"), "{message}");
    assert_eq!(message["content"], Value::Null);
    let streamed = fakes.post(CHAT, chat(&with(of_chat(), "stream", true.into()))).await;
    assert!(streamed.body.contains(r#""refusal":"The reply is not JSON"#), "{}", streamed.body);
    assert!(!streamed.body.contains("three"), "{}", streamed.body);

    let fakes = saying(never_right());
    let whole = fakes.post(RESPONSES, response(&of_response())).await.json();
    let streamed = fakes.post(RESPONSES, response(&with(of_response(), "stream", true.into()))).await;
    let events = events(&streamed);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed");
    for ended in [&whole, &last["response"]] {
        assert_eq!((&ended["status"], &ended["output"]), (&json!("failed"), &json!([])));
        assert!(ended["error"]["message"].as_str().unwrap().starts_with("The reply is not JSON"), "{ended}");
    }
}

/// A parser that is given neither JSON nor a refusal takes it for an answer.
#[tokio::test]
async fn an_output_that_stays_empty_is_one_that_is_never_right() {
    let silent = || saying([says(""), says("")]);
    let completion = silent().post(CHAT, chat(&of_chat())).await.json();
    let message = &completion["choices"][0]["message"];
    assert!(message["refusal"].is_string() && message["content"].is_null(), "{message}");
    let streamed = silent().post(CHAT, chat(&with(of_chat(), "stream", true.into()))).await;
    assert!(streamed.body.contains(r#"{"refusal":"The run ended"#), "{}", streamed.body);
    let whole = silent().post(RESPONSES, response(&of_response())).await.json();
    let streamed = silent().post(RESPONSES, response(&with(of_response(), "stream", true.into()))).await;
    let last = events(&streamed).pop().unwrap();
    assert_eq!(last["type"], "response.failed");
    for ended in [&whole, &last["response"]] {
        assert_eq!((&ended["status"], &ended["output"]), (&json!("failed"), &json!([])), "{ended}");
        assert!(ended["error"]["message"].is_string(), "{ended}");
    }
    // Who wants words reads that there are none.
    let completion = silent().post(CHAT, chat(&json!({}))).await.json();
    assert_eq!(completion["choices"][0]["message"]["content"], "", "{completion}");
}

#[tokio::test]
async fn the_services_own_callers_get_the_value_beside_the_text() {
    let ask = json!({"query": "1+2?", "options": {"outputSchema": schema()}}).to_string();
    let result = saying(corrected()).post("/api/agent", ask.clone()).await.json();
    assert_eq!((&result["outputValue"], &result["iterations"]), (&json!({"sum": 3}), &json!(3)));
    assert_eq!(result["output"], r#"{"sum": 3}"#);
    let result = saying(never_right()).post("/api/agent", ask).await.json();
    assert_eq!((&result["stopReason"], &result["output"]), (&json!("invalid_output"), &json!("three")));
    assert!(result["outputError"].as_str().unwrap().starts_with("The reply is not JSON"), "{result}");
    assert!(result.get("outputValue").is_none());
}

/// Words that a limit has cut off are no JSON: readers of the SDKs would fail on them.
#[tokio::test]
async fn what_a_limit_cut_off_is_no_answer_of_a_form() {
    let cut = || [ModelReply { finish: Finish::Length, ..says(r#"{"sum": "#) }];
    let completion = saying(cut()).post(CHAT, chat(&of_chat())).await.json();
    let choice = &completion["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!("length"), &Value::Null));
    let whole = saying(cut()).post(RESPONSES, response(&of_response())).await.json();
    let streamed = with(of_response(), "stream", true.into());
    let last = events(&saying(cut()).post(RESPONSES, response(&streamed)).await).pop().unwrap();
    for ended in [&whole, &last["response"]] {
        assert_eq!((&ended["status"], &ended["output"]), (&json!("incomplete"), &json!([])), "{ended}");
        assert_eq!(ended["incomplete_details"]["reason"], "max_output_tokens");
    }
}

#[tokio::test]
async fn a_format_is_repeated_as_it_was_sent_and_may_refer_to_itself() {
    for (strict, about) in [(Some(true), Some("A sum.")), (Some(false), None), (None, Some("Of two."))] {
        let fakes = saying([says(r#"{"sum": 3}"#)]);
        let mut format = of_response();
        format["text"]["format"]["strict"] = json!(strict);
        format["text"]["format"]["description"] = json!(about);
        let answered = fakes.post(RESPONSES, response(&format)).await.json();
        let repeated = &answered["text"]["format"];
        assert_eq!(repeated["strict"], json!(strict.unwrap_or(true)));
        assert_eq!(repeated["description"], json!(about));
    }
    let mut format = of_response();
    format["text"]["format"]["schema"]["properties"]["parts"] =
        json!({"type": "array", "items": {"$ref": "#"}});
    let nested = saying([says(r#"{"sum": 3, "parts": [{"sum": 1}, {"sum": 2, "parts": []}]}"#)]);
    let answered = nested.post(RESPONSES, response(&format)).await.json();
    assert_eq!(answered["status"], "completed", "{answered}");
    let wrong = || says(r#"{"sum": 3, "parts": [{"sum": "1"}]}"#);
    let answered = saying([wrong(), wrong(), wrong()]).post(RESPONSES, response(&format)).await.json();
    assert!(answered["error"]["message"].as_str().unwrap().contains("/parts/0/sum"), "{answered}");
}

#[tokio::test]
async fn a_schema_that_is_none_is_refused_by_its_place() {
    let fakes = saying([says("hi")]);
    let odd = json!({"type": "nothing"});
    let ask = json!({"query": "1+2?", "options": {"outputSchema": odd}}).to_string();
    let answer = fakes.post("/api/agent", ask).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(answer.body.contains("outputSchema"), "{}", answer.body);
    let mut format = of_response();
    format["text"]["format"]["schema"] = odd;
    let answer = fakes.post(RESPONSES, response(&format)).await;
    answer.check_error(400, "param", "text.format.schema");
    let unknown = json!({"tool_choice": {"type": "function", "function": {"name": "nope"}}});
    let answer = fakes.post(CHAT, chat(&unknown)).await;
    answer.check_error(400, "param", "tool_choice");
}
