//! `GET /metrics` shows what it is given, with the content type of the Node stack's registry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use insta::assert_snapshot;

use crate::harness::{Answers, Service};

#[tokio::test]
async fn metrics_are_rendered_anew_for_every_scrape() {
    let scrapes = AtomicU32::new(0);
    let service = Service::configured(Answers, |edge| {
        edge.metrics = Arc::new(move || format!("scrapes {}\n", scrapes.fetch_add(1, Ordering::Relaxed)));
    });
    service.get("/metrics").await;
    assert_snapshot!(service.get("/metrics").await, @r"
    200 OK
    content-type: text/plain; version=0.0.4; charset=utf-8
    scrapes 1
    ");
}
