//! Large answers are compressed for whoever asks for it.

use std::io::Read as _;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
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
    assert!(!headers.contains_key("content-length") && body.len() < text.len() / 10);
    let mut decoded = String::new();
    GzDecoder::new(&*body).read_to_string(&mut decoded).unwrap();
    assert_eq!(decoded, text);
    let (headers, _) = get(&service, "/metrics", Some("gzip, deflate, br")).await;
    assert_eq!(headers["content-encoding"], "br");
}

/// What Prometheus prefers.
#[tokio::test]
async fn a_scrape_in_openmetrics_is_compressed_too() {
    let service = with_metrics("up 1\n".repeat(1000));
    let request = Request::get("/metrics")
        .header("accept", "application/openmetrics-text; version=1.0.0")
        .header("accept-encoding", "gzip");
    let answer = service.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let content_type = answer.headers()["content-type"].to_str().unwrap();
    assert!(content_type.starts_with("application/openmetrics-text"), "{content_type}");
    assert_eq!(answer.headers()["content-encoding"], "gzip");
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
    for path in ["/metrics", "/health/live", "/nowhere"] {
        let (headers, _) = get(&service, path, Some("gzip, br")).await;
        assert!(!headers.contains_key("content-encoding") && !headers.contains_key("vary"), "{path}");
    }
}
