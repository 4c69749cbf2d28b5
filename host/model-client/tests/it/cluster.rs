//! Queries on their way to the dedicated cluster, and whatever it answers on its way back.

use std::time::Duration;

use agent_core::ports::{Cluster, ClusterAnswer, ClusterError, Forwarded};
use model_client::HttpCluster;
use serde_json::json;
use test_servers::HttpServer;
use tokio::net::TcpListener;
use url::Url;

use crate::provider::{Answer, Request};

const QUERY: Forwarded<'static> =
    Forwarded { query: "What is \"1+2\"?", authorization: b"Bearer a-very-secret-token", request_id: "r-1" };

fn cluster(address: &str, time_limit: Duration) -> HttpCluster {
    let url = Url::parse(&format!("http://{address}/api/agent")).unwrap();
    HttpCluster::new(url, time_limit).unwrap()
}

/// What comes back from a cluster that answers so, and what it was asked.
async fn forward(answer: Answer) -> (Result<ClusterAnswer, ClusterError>, Request) {
    let (answer, request) = forward_within(Duration::from_secs(30), answer).await;
    (answer, request.unwrap())
}

async fn forward_within(
    time_limit: Duration,
    answer: Answer,
) -> (Result<ClusterAnswer, ClusterError>, Option<Request>) {
    let server = HttpServer::start(move |mut connection| {
        let answer = answer.clone();
        async move {
            connection.read_request().await;
            answer.send(&mut connection).await;
        }
    })
    .await;
    let answer = cluster(&server.address().to_string(), time_limit).forward(QUERY).await;
    assert_eq!(server.connections(), 1, "it is not asked again");
    (answer, server.requests().pop().map(Request::of))
}

#[tokio::test]
async fn a_query_goes_out_alone_with_the_callers_name_and_the_requests() {
    let (answer, request) = forward(Answer::json(&json!({"output": "3"}))).await;
    assert!(answer.is_ok());
    assert_eq!(request.line(), "POST /api/agent");
    assert_eq!(request.body, json!({"query": "What is \"1+2\"?"}));
    assert_eq!(request.header("authorization"), Some("Bearer a-very-secret-token"));
    assert_eq!(request.header("x-request-id"), Some("r-1"));
    assert_eq!(request.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn every_answer_comes_back_as_it_is() {
    for (status, content_type, body) in [
        (200, Some("application/json; charset=utf-8"), r#"{"output":"3"}"#),
        (400, Some("application/json"), r#"{"error":[]}"#),
        (401, None, ""),
        (429, Some("text/html; charset=utf-8"), "Too many requests from this IP"),
        (500, Some("text/plain"), "no\nJSON"),
        (503, None, "x"),
    ] {
        let mut answer = Answer::text(status, body);
        if let Some(content_type) = content_type {
            answer = answer.with("content-type", content_type);
        }
        let content_type = content_type.map(|text| text.as_bytes().to_vec());
        let body = body.into();
        let expected =
            ClusterAnswer { status, content_type, content_encoding: None, retry_after: None, body };
        assert_eq!(forward(answer).await.0, Ok(expected));
    }
}

/// A coding that nobody asked for: without its name nobody could read the body.
#[tokio::test]
async fn the_coding_of_a_body_comes_back_with_it() {
    let answer = forward(Answer::text(200, "coded").with("content-encoding", "gzip")).await.0.unwrap();
    assert_eq!(
        (answer.content_encoding.as_deref(), answer.body.as_slice()),
        (Some(&b"gzip"[..]), &b"coded"[..])
    );
}

/// Whoever has to wait for the cluster is told for how long: seconds or a date, as the cluster wrote it.
#[tokio::test]
async fn when_to_come_back_comes_back_with_the_answer() {
    for (status, again) in [(429, "3"), (503, "Fri, 27 Nov 2026 12:00:00 GMT")] {
        let answer = forward(Answer::text(status, "later").with("retry-after", again)).await.0.unwrap();
        assert_eq!((answer.status, answer.retry_after.as_deref()), (status, Some(again.as_bytes())));
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (answer, _) = forward(Answer::status(307).with("location", "http://127.0.0.1:9/")).await;
    assert_eq!(answer.unwrap().status, 307);
}

#[tokio::test]
async fn a_cluster_that_is_not_there_is_unreachable() {
    // Nobody listens on a port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = cluster(&address.to_string(), Duration::from_secs(30)).forward(QUERY).await.unwrap_err();
    assert!(error.0.contains("refused"), "{error}");
    assert!(!error.0.contains("127.0.0.1"), "{error}");
}

#[tokio::test]
async fn a_cluster_that_hangs_up_is_unreachable() {
    for answer in [Answer::HangUp, Answer::Raw("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".into())] {
        let error = forward(answer).await.0.unwrap_err().to_string();
        assert!(error.starts_with("the agent cluster could not be reached: "), "{error}");
        assert!(!error.contains("127.0.0.1") && !error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn a_cluster_that_falls_silent_is_given_up() {
    let silent = Answer::Stalled("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".into());
    let (answer, _) = forward_within(Duration::from_millis(200), silent).await;
    assert_eq!(answer, Err(ClusterError("no whole answer within 200 ms".into())));
}

#[tokio::test]
async fn an_answer_without_end_is_given_up() {
    let promised = "HTTP/1.1 200 OK\r\ncontent-length: 1099511627776\r\n\r\n{";
    for answer in [Answer::Stalled(promised.into()), Answer::Endless] {
        let error = forward(answer).await.0.unwrap_err();
        assert_eq!(error, ClusterError("its answer is larger than 8388608 bytes".into()));
    }
}
