//! Kept conversations: what was said in them stands before the next run, and they are their user's alone.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{ClaimTerms, ConversationStore as _};
use agent_core::words::{ConversationKey, Message};
use axum::body::Body;
use http::StatusCode;
use insta::assert_snapshot;
use run_service::testing::ScriptedInvoke;
use serde_json::{Value, json};

use crate::harness::{Answer, Fakes, bearer, idempotency_over, request, with};

/// A service whose agent says the same to everybody.
fn service() -> (Fakes, ScriptedInvoke) {
    let agent = ScriptedInvoke::answering("Hello, Ada!");
    (Fakes::conversing(agent.clone()), agent)
}

fn asks(query: &str, id: &str) -> String {
    json!({"query": query, "options": {"conversationId": id}}).to_string()
}

async fn as_somebody_else(fakes: &Fakes, method: &str, path: &str) -> Answer {
    fakes.service.send(bearer("u2", request(method, path, Body::empty()))).await
}

fn history(agent: &ScriptedInvoke) -> Vec<Message> {
    agent.asked().pop().unwrap().options.history
}

#[tokio::test]
async fn a_conversation_goes_on_is_read_and_is_forgotten() {
    let (fakes, agent) = service();
    for _ in 0..2 {
        let answer = fakes.post("/api/agent", asks("I am Ada.", "trip")).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer}");
    }
    assert_eq!(history(&agent), [Message::Assistant { content: "Hello, Ada!".into(), tool_calls: vec![] }]);
    fakes.post("/api/agent", asks("hi", "trip.2")).await;
    assert_eq!(history(&agent), []);
    let read = fakes.get("/api/agent/conversations/trip").await.json();
    assert_eq!((&read["conversationId"], &read["isBusy"]), (&json!("trip"), &json!(false)));
    assert_eq!(read["turns"][1]["messages"], json!([{"role": "assistant", "content": "Hello, Ada!"}]));
    let of_one = |method| as_somebody_else(&fakes, method, "/api/agent/conversations/trip");
    for answer in [of_one("GET").await, of_one("DELETE").await] {
        answer.check(StatusCode::NOT_FOUND, r#"{"error":"Not found"}"#);
    }
    let theirs = as_somebody_else(&fakes, "GET", "/api/agent/conversations").await;
    assert_snapshot!(theirs.body, @r#"{"data":[],"nextCursor":null}"#);
    let deleted = fakes.ask("DELETE", "/api/agent/conversations/trip", Body::empty()).await;
    deleted.check(StatusCode::NO_CONTENT, "");
    assert_eq!(fakes.get("/api/agent/conversations/trip").await.status, StatusCode::NOT_FOUND);
    assert_eq!(fakes.get("/api/agent/conversations/a%20b").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let (fakes, _agent) = service();
    for id in ["a", "b", "c"] {
        fakes.post("/api/agent", asks("hi", id)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let ids = |page: &Value| -> Vec<String> {
        let data = page["data"].as_array().unwrap().iter();
        data.map(|kept| kept["conversationId"].as_str().unwrap().to_owned()).collect()
    };
    let first = fakes.get("/api/agent/conversations?limit=2").await.json();
    assert_eq!((ids(&first), &first["data"][0]["turns"]), (vec!["c".to_owned(), "b".to_owned()], &json!(1)));
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = fakes.get(&format!("/api/agent/conversations?limit=2&cursor={cursor}")).await.json();
    assert_eq!((ids(&second), &second["nextCursor"]), (vec!["a".to_owned()], &Value::Null));
    for wrong in ["x", "1:", ":a", "99999999999999999999:a", "1:a%20b"] {
        let answer = fakes.get(&format!("/api/agent/conversations?cursor={wrong}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test]
async fn a_conversation_that_is_busy_is_a_conflict_that_passes() {
    let keys = Arc::default();
    let agent = ScriptedInvoke::answering("Hello!");
    let fakes = Fakes::conversing_with(agent, |edge| edge.idempotency = idempotency_over(&keys));
    fakes.post("/api/agent", asks("hi", "trip")).await;
    let key = ConversationKey::conversation("u1", "trip");
    fakes.conversations.claim(key, "another run", ClaimTerms::default()).await.unwrap();
    let keyed = || {
        let request = with(request("POST", "/api/agent", asks("hi", "trip")), "idempotency-key", "\"k-1\"");
        fakes.service.send(bearer("u1", request))
    };
    let submitted = fakes.post("/api/agent/async", asks("hi", "trip")).await;
    let deleted = fakes.ask("DELETE", "/api/agent/conversations/trip", Body::empty()).await;
    for answer in [keyed().await, submitted, deleted] {
        assert_eq!(answer.status, StatusCode::CONFLICT, "{answer}");
        assert_eq!(
            (answer.header("retry-after"), answer.body.as_str()),
            (Some("1"), r#"{"error":"The conversation is busy"}"#)
        );
    }
    assert_eq!(fakes.get("/api/agent/conversations/trip").await.json()["isBusy"], json!(true));
    fakes.conversations.release(key, "another run").await.unwrap();
    // Under its key the request is carried out once it can be, and once.
    for _ in 0..2 {
        assert_eq!(keyed().await.status, StatusCode::OK);
    }
    let kept = fakes.conversations.read(key).await.unwrap().unwrap();
    assert_eq!(kept.turns.len(), 2);
    assert_ne!(kept.turns[1].id, kept.turns[1].run_id, "the turn is its key's");
}

#[tokio::test]
async fn a_job_takes_its_conversation_along() {
    let (fakes, _agent) = service();
    for body in [asks("hi", "trip"), r#"{"query":"hi"}"#.to_owned()] {
        assert_eq!(fakes.post("/api/agent/async", body).await.status, StatusCode::ACCEPTED);
    }
    let conversations: Vec<_> = fakes.queue.added().into_iter().map(|job| job.conversation_id).collect();
    assert_eq!(conversations, [Some("trip".to_owned()), None]);
    fakes.conversations.switch.fail(true);
    let answer = fakes.post("/api/agent/async", asks("hi", "trip")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    // Who names no conversation does not depend on them.
    assert_eq!(fakes.post("/api/agent", r#"{"query":"hi"}"#).await.status, StatusCode::OK);
}
