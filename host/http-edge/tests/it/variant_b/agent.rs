//! `POST /api/agent` runs the agent for its caller and answers with the bare result.

use std::sync::Arc;

use agent_core::testing::{EchoTools, TestJournal, TestRuns, asks_for, says};
use agent_core::words::{JobData, Options, Principal};
use http::StatusCode;
use insta::assert_snapshot;
use run_service::layers::{Agent, RunAnswer};
use run_service::live::LiveRuns;
use run_service::streams::RunStores;
use run_service::testing::{ScriptedInvoke, scripted_agent, streams_of};
use serde_json::json;

use super::openai::events;
use crate::harness::{Answers, Fakes, b, bearer, request, token, with, with_token};

#[tokio::test]
async fn the_body_is_the_result_itself() {
    let request = with(request("POST", "/api/agent", r#"{"query":"hi"}"#), "x-request-id", "r-1");
    let answer = Fakes::with_invoke(Answers).service.send(bearer("u1", request)).await;
    assert_snapshot!(answer, @r#"
    200 OK
    content-type: application/json; charset=utf-8
    ratelimit-policy: 100;w=900
    ratelimit-limit: 100
    ratelimit-remaining: 99
    ratelimit-reset: 900
    x-ratelimit-limit: 10
    x-ratelimit-remaining: 9
    {"id":"run_1","output":"r-1","stopReason":"completed","messages":[{"role":"user","content":"hi"}],"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0},"iterations":1,"model":"test/answers","toolCalls":[]}
    "#);
}

/// Answers as when the store of conversations cannot be written.
fn forgetful() -> ScriptedInvoke {
    ScriptedInvoke::new([Ok(RunAnswer { is_turn_lost: true, ..ScriptedInvoke::answer("hi") })])
}

#[tokio::test]
async fn an_answer_that_its_conversation_does_not_know_says_so() {
    let fakes = Fakes::with_invoke(forgetful());
    let answer = fakes.post("/api/agent", r#"{"query":"hi"}"#).await;
    assert!(answer.body.ends_with(r#","toolCalls":[],"conversationKept":false}"#), "{answer}");
    let body = r#"{"model":"agent","input":"hi","conversation":"a","store":false}"#;
    let answer = fakes.post("/v1/responses", body).await;
    assert_eq!(answer.json()["status"], "completed", "{answer}");
    assert!(answer.json()["conversation"].is_null(), "{answer}");
}

/// The response as it begins names the conversation, because only its end is known to be lost.
#[tokio::test]
async fn a_streamed_response_that_its_conversation_does_not_know_names_none_at_its_end() {
    let kept = RunStores { journal: Arc::new(TestRuns::default()), records: None, live: LiveRuns::default() };
    let streams = streams_of(forgetful(), kept);
    let fakes = Fakes::configured(forgetful(), |edge| b(edge).streams = Some(streams));
    let body = r#"{"model":"agent","input":"hi","conversation":"a","store":false,"stream":true}"#;
    let events = events(&fakes.post("/v1/responses", body).await);
    let (first, last) = (&events[0], events.last().unwrap());
    assert_eq!(first["response"]["conversation"], json!({"id": "a"}), "{first}");
    assert_eq!(last["type"], "response.completed", "{last}");
    assert!(last["response"]["conversation"].is_null(), "{last}");
}

#[tokio::test]
async fn with_a_cache_the_result_says_where_it_came_from() {
    for cached in [true, false] {
        let found = RunAnswer { cached: Some(cached), ..ScriptedInvoke::answer("hi") };
        let fakes = Fakes::with_invoke(ScriptedInvoke::new([Ok(found)]));
        let answer = fakes.post("/api/agent", r#"{"query":"hi"}"#).await;
        assert!(answer.body.ends_with(&format!(r#","toolCalls":[],"cached":{cached}}}"#)), "{answer}");
        assert_eq!(answer.json()["output"], "hi");
    }
}

#[tokio::test]
async fn the_agent_learns_who_asks_what_and_with_which_wishes() {
    let agent = ScriptedInvoke::answering("hi");
    let fakes = Fakes::with_invoke(agent.clone());
    let body = json!({"query": "Grüße 👋🏽\0", "options": {"maxTokens": 500.9, "temperature": 0.5}, "x": 1});
    let answer = fakes.post("/api/agent", body.to_string()).await;
    fakes.post("/api/agent", r#"{"query":"hi"}"#).await;

    let asked = agent.asked();
    assert_eq!(asked[0].input, "Grüße 👋🏽\0");
    assert_eq!(asked[0].principal.user_id.as_deref(), Some("u1"));
    assert_eq!(Some(asked[0].request_id.as_str()), answer.header("x-request-id"));
    assert_eq!(
        asked[0].options,
        Options { max_tokens: Some(500), temperature: Some(0.5), ..Options::default() }
    );
    assert_eq!(asked[1].options, Options::default());
}

#[tokio::test]
async fn the_agent_learns_the_tier_and_the_role_that_the_token_says() {
    let agent = ScriptedInvoke::answering("hi");
    let fakes = Fakes::with_invoke(agent.clone());
    let post = |path: &str, token: &str| with_token(token, request("POST", path, r#"{"query":"hi"}"#));
    let premium_admin = token("u1", Some("premium"), Some("admin"));
    for path in ["/api/agent", "/api/serverless", "/api/gateway", "/api/agent/async"] {
        fakes.service.send(post(path, &premium_admin)).await;
    }
    for path in ["/api/agent", "/api/agent/async"] {
        fakes.service.send(post(path, &token("u2", None, None))).await;
    }
    let known =
        Principal { user_id: Some("u1".into()), tier: Some("premium".into()), role: Some("admin".into()) };
    let asked: Vec<_> = agent.asked().iter().map(|ask| ask.principal.clone()).collect();
    let plain = Principal::user("u2");
    assert_eq!(asked, [known.clone(), known.clone(), known.clone(), plain.clone()]);
    let submitters: Vec<_> = fakes.queue.added().iter().map(JobData::principal).collect();
    assert_eq!(submitters, [known, plain]);
}

#[tokio::test]
async fn a_slash_at_the_end_of_a_path_that_clients_of_node_call_changes_nothing() {
    let fakes = Fakes::with_invoke(Answers);
    for path in ["/api/agent/", "/api/agent/async/", "/api/gateway/", "/api/serverless/"] {
        let answer = fakes.post(path, r#"{"query":"hi"}"#).await;
        assert!(answer.status.is_success(), "{path}: {answer}");
        assert_eq!(fakes.service.ask("POST", path).await.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    for path in ["/health/", "/ready/"] {
        assert_ne!(fakes.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
}

/// The agent itself, whose model wants to search. That is for one tier.
fn searching() -> Agent {
    let script = [Ok(asks_for(&[("1", "search", json!({}))])), Ok(says("done"))];
    let tools = EchoTools::new(&["add", "search"]).only_for_tier("search", "premium");
    scripted_agent(script, tools, Arc::<TestJournal>::default())
}

#[tokio::test]
async fn a_tool_of_others_and_one_that_there_is_not_are_the_same_issue() {
    let fakes = Fakes::with_invoke(searching());
    let refused = async |tools: &[&str]| {
        let body = json!({"query": "hi", "options": {"tools": tools}}).to_string();
        let answer = fakes.post("/api/agent", body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        answer.body
    };
    let theirs = refused(&["add", "search"]).await;
    assert_snapshot!(theirs, @r#"{"error":[{"code":"custom","message":"Unknown tool","path":["options","tools",1]}]}"#);
    assert_eq!(refused(&["add", "nope"]).await, theirs);
}

#[tokio::test]
async fn an_invalid_request_gets_the_list_of_its_issues() {
    let fakes = Fakes::with_invoke(Answers);
    let answer = fakes.post("/api/agent", "").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        answer.body,
        r#"{"error":[{"code":"invalid_type","expected":"string","received":"undefined","path":["query"],"message":"Required"}]}"#
    );
    let answer = fakes.post("/api/agent", r#"{"query":"","options":{"maxTokens":1}}"#).await;
    let codes =
        answer.json()["error"].as_array().unwrap().iter().map(|issue| issue["code"].clone()).collect();
    assert_eq!(serde_json::Value::Array(codes), json!(["too_small", "too_small"]));
}

#[tokio::test]
async fn a_body_that_is_not_json_or_too_large_is_said_in_one_text() {
    let fakes = Fakes::configured(Answers, |edge| edge.settings.max_body_bytes = 40);
    let answer = fakes.post("/api/agent", "{").await;
    answer.check(StatusCode::BAD_REQUEST, r#"{"error":"Invalid input"}"#);
    let answer = fakes.post("/api/agent", format!(r#"{{"query":"{}"}}"#, "x".repeat(40))).await;
    answer.check(StatusCode::PAYLOAD_TOO_LARGE, r#"{"error":"Payload too large"}"#);
}

#[tokio::test]
async fn every_content_type_is_json() {
    let fakes = Fakes::with_invoke(Answers);
    for content_type in ["text/plain", "application/json; charset=iso-8859-1", "nonsense"] {
        let request = with(request("POST", "/api/agent", r#"{"query":"hi"}"#), "content-type", content_type);
        assert_eq!(fakes.service.send(bearer("u1", request)).await.status, StatusCode::OK, "{content_type}");
    }
}
