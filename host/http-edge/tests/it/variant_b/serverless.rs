//! `POST /api/serverless` answers as `/api/agent` does, and every failure of the agent with 500 and a
//! message.

use http::StatusCode;
use serde_json::json;

use super::errors::failing;
use crate::harness::{Answers, Fakes, b};

#[tokio::test]
async fn a_query_is_answered_with_the_bare_result() {
    let fakes = Fakes::with_invoke(Answers);
    let answer = fakes.post("/api/serverless", r#"{"query":"hi","options":{"unheardOf":1}}"#).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(answer.json()["messages"], json!([{"role": "user", "content": "hi"}]));
}

#[tokio::test]
async fn a_failure_is_500_with_its_message_in_production_too() {
    for production in [true, false] {
        let fakes = Fakes::configured(failing(), |edge| b(edge).production = production);
        let answer = fakes.post("/api/serverless", r#"{"query":"hi"}"#).await;
        answer.check(StatusCode::INTERNAL_SERVER_ERROR, r#"{"error":"the agent run failed"}"#);
    }
}
