//! `POST /agent/invoke` runs the agent and answers with its result, or with one text for every failure.

use std::time::Duration;

use agent_core::ports::ModelError;
use agent_core::testing::{asks_for, says};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use run_service::layers::InvokeError;
use run_service::testing::ScriptedInvoke;
use serde_json::json;

use crate::harness::{Answers, Service, request};

#[tokio::test]
async fn a_run_answers_with_its_whole_result() {
    let service =
        Service::with_model([Ok(asks_for(&[("call_1", "echo", json!({"n": 1}))])), Ok(says("It is 1."))]);
    let answer = service.invoke(r#"{"input":"What is it?"}"#).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));

    let mut body = answer.json();
    let id = body["result"]["id"].take();
    assert!(id.as_str().unwrap().starts_with("run_"), "{id}");
    assert_eq!(
        body,
        json!({"result": {
            "id": null,
            "output": "It is 1.",
            "stopReason": "completed",
            "messages": [
                {"role": "user", "content": "What is it?"},
                {"role": "assistant", "content": "", "toolCalls": [
                    {"id": "call_1", "name": "echo", "arguments": {"n": 1}}]},
                {"role": "tool", "toolCallId": "call_1", "name": "echo", "content": "{\"n\":1}"},
                {"role": "assistant", "content": "It is 1."}],
            "usage": {"inputTokens": 20, "outputTokens": 10, "totalTokens": 30},
            "iterations": 2,
            "model": "test/scripted",
            "toolCalls": [{"name": "echo", "component": "echo@sha256:echo", "durationMs": 0.1, "outcome": "ok"}],
        }})
    );
}

#[tokio::test]
async fn the_agent_gets_the_text_exactly_as_it_was_sent() {
    let service = Service::with_invoke(Answers);
    for input in ["x", " ", "\n", "\0", "\u{feff}", "\"\\/", "Grüße 👋🏽", &"long ".repeat(20_000)] {
        let answer = service.invoke(json!({"input": input}).to_string()).await;
        assert_eq!(answer.status, StatusCode::OK, "{input}");
        assert_eq!(answer.json()["result"]["messages"][0]["content"], input);
    }
}

#[tokio::test]
async fn every_content_type_is_json() {
    let service = Service::with_invoke(Answers);
    for content_type in ["application/json", "text/plain", "application/json; charset=iso-8859-1", "nonsense"]
    {
        let mut request = request("POST", "/agent/invoke", r#"{"input":"hi"}"#);
        request.headers_mut().insert(CONTENT_TYPE, content_type.parse().unwrap());
        assert_eq!(service.send(request).await.status, StatusCode::OK, "{content_type}");
    }
    assert_eq!(service.invoke(r#"{"input":"hi"}"#).await.status, StatusCode::OK, "none at all");
}

#[tokio::test]
async fn unknown_keys_are_ignored() {
    let answer = Service::with_invoke(Answers).invoke(r#"{"stream":true,"input":"hi","input ":5}"#).await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn a_choice_of_tools_that_cannot_be_had_is_invalid() {
    for tools in
        [json!(["nope"]), json!(["echo", "nope"]), json!("echo"), json!([1]), json!(vec!["echo"; 65])]
    {
        let service = Service::with_model([Ok(says("done"))]);
        let answer = service.invoke(json!({"input": "hi", "options": {"tools": tools}}).to_string()).await;
        answer.check_at(&tools, StatusCode::BAD_REQUEST, r#"{"error":"Invalid input"}"#);
    }
}

#[tokio::test]
async fn an_output_of_the_callers_schema_is_given_beside_the_text() {
    let service = Service::with_model([Ok(says("It is 3.")), Ok(says(r#"{"sum": 3}"#))]);
    let options = json!({"outputSchema": {"type": "object", "required": ["sum"]}});
    let result = service.invoke(json!({"input": "1+2?", "options": options}).to_string()).await.json();
    assert_eq!(result["result"]["outputValue"], json!({"sum": 3}));
    assert_eq!(result["result"]["iterations"], 2, "the first reply had to be corrected");
}

#[tokio::test]
async fn a_schema_that_is_none_is_refused_with_what_is_wrong() {
    let body = json!({"input": "hi", "options": {"outputSchema": {"type": "nothing"}}}).to_string();
    let answer = Service::with_invoke(Answers).invoke(body).await;
    let error = answer.json()["error"].as_str().unwrap().to_owned();
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(error.starts_with("Invalid input: The schema is not a JSON Schema: /type is"), "{error}");
}

#[tokio::test]
async fn an_agent_that_fails_is_a_500_that_tells_nothing() {
    let provider = || "openai/gpt".to_owned();
    let detail = || "key sk-123 was refused".to_owned();
    for error in [
        ModelError::Timeout { provider: provider() },
        ModelError::Unreachable { provider: provider(), detail: detail() },
        ModelError::Unavailable { provider: provider(), detail: detail(), retry_after: None },
        ModelError::RateLimited {
            provider: provider(),
            detail: detail(),
            retry_after: None,
            quota_exhausted: false,
        },
        ModelError::Refused { provider: provider(), detail: detail() },
        ModelError::Malformed { provider: provider(), detail: detail() },
    ] {
        let answer = Service::with_model([Err(error)]).invoke(r#"{"input":"hi"}"#).await;
        assert_eq!(answer.to_string(), FAILURE);
    }
}

#[tokio::test]
async fn an_agent_that_takes_too_long_is_a_500_as_well() {
    let late = InvokeError::TimedOut { limit: Duration::from_secs(30), retry_after: None, in_tools: false };
    let service = Service::with_invoke(ScriptedInvoke::new([Err(late)]));
    let answer = service.invoke(r#"{"input":"hi"}"#).await;
    assert_eq!(answer.to_string(), FAILURE);
}

/// The agent fails, for whatever reason (host/docs/interface/errors-and-limits.md#errors).
const FAILURE: &str = r#"500 Internal Server Error
content-type: application/json; charset=utf-8
{"error":"Internal server error"}"#;
