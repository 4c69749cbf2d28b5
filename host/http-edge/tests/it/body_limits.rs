//! A body may have so many bytes and take so long, however it is sent.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::{StreamExt, stream};
use http::StatusCode;
use insta::assert_snapshot;

use crate::harness::{Answers, Service, request};

/// host/docs/interface/decisions-http.md#bodies.
const DEFAULT_LIMIT: usize = 102_400;

/// A valid request of exactly that many bytes.
fn body_of(bytes: usize) -> String {
    let empty = r#"{"input":""}"#;
    format!(r#"{{"input":"{}"}}"#, "x".repeat(bytes - empty.len()))
}

/// A body that never ends, a byte at a time.
fn drops_of(interval: Duration) -> Body {
    Body::from_stream(Box::pin(stream::repeat(()).then(move |()| async move {
        tokio::time::sleep(interval).await;
        Ok::<_, Infallible>(Bytes::from_static(b" "))
    })))
}

#[tokio::test]
async fn a_body_at_the_limit_is_served() {
    let answer = Service::with_invoke(Answers).invoke(body_of(DEFAULT_LIMIT)).await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413() {
    let answer = Service::with_invoke(Answers).invoke(body_of(DEFAULT_LIMIT + 1)).await;
    assert_snapshot!(answer, @r#"
    413 Payload Too Large
    content-type: application/json; charset=utf-8
    {"error":"Payload too large"}
    "#);
}

/// Where larger bodies are let in: a text of ten megabytes can be a gigabyte of values.
#[tokio::test]
async fn a_body_whose_values_would_take_too_much_memory_is_a_413() {
    let service = Service::configured(Answers, |edge| edge.settings.max_body_bytes = 10 << 20);
    let dense = format!(r#"{{"input":"a","more":[{}0]}}"#, r#"{"":0},"#.repeat(1 << 20));
    assert_snapshot!(service.invoke(dense).await, @r#"
    413 Payload Too Large
    content-type: application/json; charset=utf-8
    {"error":"Payload too large"}
    "#);
    let long = format!(r#"{{"input":"a","image":"{}"}}"#, "a".repeat(9 << 20));
    assert_eq!(service.invoke(long).await.status, StatusCode::OK, "a long text is no such body");
}

#[tokio::test]
async fn a_chunked_body_is_served_at_the_limit_and_a_413_over_it() {
    let invoke = async |bytes| {
        let chunks: Vec<_> = body_of(bytes).into_bytes().chunks(7).map(Bytes::copy_from_slice).collect();
        let chunks = stream::iter(chunks).map(Ok::<_, Infallible>);
        Service::with_invoke(Answers).invoke(Body::from_stream(chunks)).await
    };
    assert_eq!(invoke(DEFAULT_LIMIT).await.status, StatusCode::OK);
    let over = invoke(DEFAULT_LIMIT + 1).await;
    over.check(StatusCode::PAYLOAD_TOO_LARGE, r#"{"error":"Payload too large"}"#);
}

#[tokio::test]
async fn a_body_that_declares_more_than_the_limit_is_refused_before_it_is_sent() {
    let service = Service::with_invoke(Answers);
    let answer = service.on_a_socket(async |mut client| {
        client.send("POST /agent/invoke HTTP/1.1\r\nHost: h\r\nX-Request-Id: r\r\n").await;
        client.send("Expect: 100-continue\r\nContent-Length: 102401\r\n\r\n").await;
        client.receive_all().await
    });
    assert_snapshot!(answer.await, @r#"
    HTTP/1.1 413 Payload Too Large
    content-type: application/json; charset=utf-8
    x-request-id: r
    content-length: 29

    {"error":"Payload too large"}
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_in_time_is_a_408() {
    let service =
        Service::configured(Answers, |edge| edge.settings.body_time_limit = Duration::from_secs(30));
    let began = tokio::time::Instant::now();
    let answer = service.invoke(drops_of(Duration::from_secs(1))).await;
    assert_snapshot!(answer, @r#"
    408 Request Timeout
    content-type: application/json; charset=utf-8
    {"error":"Request timeout"}
    "#);
    assert_eq!(began.elapsed().as_secs(), 30);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_400() {
    let broken = stream::iter([Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("reset"))]);
    let answer = Service::with_invoke(Answers).invoke(Body::from_stream(broken)).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_body_that_nobody_wants_is_not_limited() {
    let service = Service::configured(Answers, |edge| edge.settings.max_body_bytes = 1);
    for (method, path, status) in [
        ("POST", "/nowhere", StatusCode::NOT_FOUND),
        ("PUT", "/agent/invoke", StatusCode::METHOD_NOT_ALLOWED),
        ("GET", "/health/live", StatusCode::OK),
    ] {
        let answer = service.send(request(method, path, "too large")).await;
        assert_eq!(answer.status, status, "{method} {path}");
    }
}
