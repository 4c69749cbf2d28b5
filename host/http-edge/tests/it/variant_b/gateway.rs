//! `POST /api/gateway` forwards what is urgent and answers everything else itself.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::harness::{Answers, FakeCluster, Fakes, b, request, token, with, with_token};

const URGENT: &str = r#"{"query":"hi","priority":"high","secret":"x"}"#;

fn with_cluster(cluster: &Arc<FakeCluster>) -> Fakes {
    let cluster = Arc::clone(cluster);
    Fakes::configured(Answers, |edge| b(edge).cluster = Some(cluster))
}

#[tokio::test]
async fn what_is_urgent_is_forwarded_with_the_callers_name() {
    let cluster = Arc::new(FakeCluster::answering(200, Some("application/json"), "{}"));
    let token = token("u1", None, None);
    let request = with(with_token(&token, request("POST", "/api/gateway", URGENT)), "x-request-id", "r-1");
    with_cluster(&cluster).service.send(request).await;
    assert_eq!(cluster.asked(), [("hi".into(), format!("Bearer {token}"), "r-1".into())]);
}

#[tokio::test]
async fn the_clusters_answer_comes_back_unchanged() {
    for (status, content_type, body) in [
        (200, Some("application/json"), r#"{"output":"3"}"#),
        (418, Some("text/plain; charset=latin1"), "short and stout"),
        (503, None, "down"),
    ] {
        let fakes = with_cluster(&Arc::new(FakeCluster::answering(status, content_type, body)));
        let answer = fakes.post("/api/gateway", URGENT).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (status, body));
        assert_eq!(answer.header("content-type"), content_type);
        assert_eq!(answer.header("ratelimit-remaining"), Some("99"));
    }
}

#[tokio::test]
async fn a_cluster_that_says_when_to_come_again_is_heard() {
    for retry_after in ["7", "Fri, 31 Dec 1999 23:59:59 GMT"] {
        let cluster = FakeCluster::answering(429, Some("application/json"), "{}")
            .but(|answer| answer.retry_after = Some(retry_after.into()));
        let answer = with_cluster(&Arc::new(cluster)).post("/api/gateway", URGENT).await;
        assert_eq!(answer.header("retry-after"), Some(retry_after));
    }
}

#[tokio::test]
async fn the_coding_of_the_clusters_body_is_named() {
    let cluster = FakeCluster::answering(200, Some("application/json"), "coded")
        .but(|answer| answer.content_encoding = Some("br".into()));
    let answer = with_cluster(&Arc::new(cluster)).post("/api/gateway", URGENT).await;
    assert_eq!((answer.header("content-encoding"), answer.body.as_str()), (Some("br"), "coded"));
}

#[tokio::test]
async fn a_cluster_that_gives_no_answer_is_503() {
    for cluster in [
        FakeCluster::unreachable(),
        FakeCluster::answering(100, None, ""),
        FakeCluster::answering(1_000, None, ""),
    ] {
        let answer = with_cluster(&Arc::new(cluster)).post("/api/gateway", URGENT).await;
        answer.check(StatusCode::SERVICE_UNAVAILABLE, r#"{"error":"Service temporarily unavailable"}"#);
    }
}

#[tokio::test]
async fn everything_else_is_answered_here() {
    let cluster = Arc::new(FakeCluster::unreachable());
    let fakes = with_cluster(&cluster);
    for priority in [json!("low"), json!("HIGH"), json!(null), json!(1)] {
        let body = json!({"query": "hi", "priority": priority, "options": {"unheardOf": 1}});
        let answer = fakes.post("/api/gateway", body.to_string()).await;
        assert_eq!(answer.status, StatusCode::OK, "{priority}");
        assert_eq!(answer.json()["model"], "test/answers", "{priority}");
    }
    assert_eq!(fakes.post("/api/gateway", r#"{"query":"hi"}"#).await.status, StatusCode::OK);
    assert_eq!(cluster.asked(), []);
}

#[tokio::test]
async fn without_a_cluster_what_is_urgent_is_answered_here_as_well() {
    let answer = Fakes::with_invoke(Answers).post("/api/gateway", URGENT).await;
    assert_eq!((answer.status, answer.json()["model"].clone()), (StatusCode::OK, json!("test/answers")));
}

#[tokio::test]
async fn what_is_invalid_goes_nowhere() {
    let cluster = Arc::new(FakeCluster::unreachable());
    let answer = with_cluster(&cluster).post("/api/gateway", r#"{"query":"","priority":"high"}"#).await;
    assert_eq!((answer.status, cluster.asked()), (StatusCode::BAD_REQUEST, vec![]));
}
