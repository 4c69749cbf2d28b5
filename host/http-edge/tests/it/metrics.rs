//! `GET /metrics` shows what it is given, with the content type of the Node stack's registry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http_edge::MetricsFormat;
use insta::assert_snapshot;

use crate::harness::{Answers, Service, request, with};

#[tokio::test]
async fn metrics_are_rendered_anew_for_every_scrape() {
    let scrapes = AtomicU32::new(0);
    let service = Service::configured(Answers, |edge| {
        edge.metrics =
            Arc::new(move |_format| format!("scrapes {}\n", scrapes.fetch_add(1, Ordering::Relaxed)));
    });
    service.get("/metrics").await;
    assert_snapshot!(service.get("/metrics").await, @r"
    200 OK
    content-type: text/plain; version=0.0.4; charset=utf-8
    scrapes 1
    ");
}

#[tokio::test]
async fn openmetrics_is_for_whoever_asks_for_it() {
    let service = Service::configured(Answers, |edge| {
        edge.metrics = Arc::new(|format| match format {
            MetricsFormat::Text => "up 1\n".into(),
            MetricsFormat::OpenMetrics => "up 1.0\n# EOF\n".into(),
        });
    });
    let asked = with(request("GET", "/metrics", ""), "accept", "application/openmetrics-text; version=1.0.0");
    assert_snapshot!(service.send(asked).await, @r"
    200 OK
    content-type: application/openmetrics-text; version=1.0.0; charset=utf-8
    up 1.0
    # EOF
    ");
    assert_eq!(service.get("/metrics").await.body, "up 1\n");
}
