//! Large answers are compressed for whoever asks for it.

use std::io::Read as _;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use flate2::read::GzDecoder;
use http::{HeaderMap, Request};
use tower::ServiceExt as _;

use crate::harness::{Answers, Service};

async fn get(service: &Service, path: &str, accept: Option<&str>) -> (HeaderMap, Vec<u8>) {
    let mut request = Request::get(path);
    if let Some(accept) = accept {
        request = request.header("accept-encoding", accept);
    }
    let response = service.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    (parts.headers, to_bytes(body, usize::MAX).await.unwrap().to_vec())
}

fn decoded(gzip: &[u8]) -> String {
    let mut decoded = String::new();
    GzDecoder::new(gzip).read_to_string(&mut decoded).unwrap();
    decoded
}

fn with_metrics(text: String) -> Service {
    Service::configured(Answers, |edge| edge.metrics = Arc::new(move |_| text.clone()))
}

#[tokio::test]
async fn a_scrape_is_compressed_for_a_scraper_that_asks_for_it() {
    let text = "up 1\n".repeat(1000);
    let service = with_metrics(text.clone());
    let (headers, body) = get(&service, "/metrics", Some("gzip")).await;
    assert_eq!(
        (&headers["content-encoding"], &headers["vary"]),
        (&"gzip".parse().unwrap(), &"accept-encoding".parse().unwrap())
    );
    assert_eq!(headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(headers["content-length"], body.len().to_string());
    assert!(body.len() < text.len() / 10);
    assert_eq!(decoded(&body), text);
    let (headers, _) = get(&service, "/metrics", Some("gzip, deflate, br")).await;
    assert_eq!(headers["content-encoding"], "br");
}

/// The body of an answer of known length in that coding.
async fn whole(service: &Service, path: &str, coding: &str) -> Bytes {
    let request = Request::get(path).header("accept-encoding", coding);
    let answer = service.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.headers()["content-encoding"], coding, "{path}");
    let length = answer.body().size_hint().exact();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    assert_eq!(length, Some(body.len() as u64), "{path} {coding}");
    body
}

/// So a client that reads nothing has no compressor waiting for it.
#[tokio::test]
async fn an_answer_is_compressed_before_it_is_sent_and_one_that_does_not_change_once() {
    let service = with_metrics("up 1\n".repeat(1000));
    for (path, does_not_change) in [
        ("/metrics", false),
        ("/openapi.json", true),
        ("/docs", true),
        ("/docs/api", true),
        ("/docs/api/streams.md", true),
        ("/docs/search.json", true),
        ("/llms.txt", true),
    ] {
        for coding in ["gzip", "br"] {
            let first = whole(&service, path, coding).await;
            let second = whole(&service, path, coding).await;
            assert_eq!(first, second, "{path} {coding}");
            assert_eq!(first.as_ptr() == second.as_ptr(), does_not_change, "{path} {coding}");
        }
        assert_eq!(decoded(&whole(&service, path, "gzip").await), service.get(path).await.body, "{path}");
        let (headers, _) = get(&service, path, Some("br;q=0, gzip;q=0.5")).await;
        assert_eq!(headers["content-encoding"], "gzip", "{path}");
        assert_eq!(headers.get_all("vary").iter().count(), 1, "{path}");
    }
}

#[tokio::test]
async fn who_does_not_ask_gets_plain_text_and_caches_hear_that_it_depends() {
    let text = "up 1\n".repeat(1000);
    let service = with_metrics(text.clone());
    for accept in [None, Some("identity"), Some("gzip;q=0"), Some("zstd")] {
        let (headers, body) = get(&service, "/metrics", accept).await;
        assert!(!headers.contains_key("content-encoding"), "{accept:?}");
        assert_eq!(
            (&headers["vary"], body.as_slice()),
            (&"accept-encoding".parse().unwrap(), text.as_bytes())
        );
        assert_eq!(headers["content-length"], text.len().to_string());
    }
}

#[tokio::test]
async fn small_answers_stay_as_they_are() {
    let service = with_metrics("up 1\n".into());
    for path in ["/metrics", "/health/live", "/nowhere", "/docs/icon.svg"] {
        let (headers, _) = get(&service, path, Some("gzip, br")).await;
        assert!(!headers.contains_key("content-encoding") && !headers.contains_key("vary"), "{path}");
    }
}
