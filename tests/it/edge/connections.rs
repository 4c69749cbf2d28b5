//! How many connections there may be, and how their requests are counted.

use acceptance::{Model, Service, Socket};

#[tokio::test]
async fn the_limit_on_open_files_is_raised_and_leaves_something_for_stores_and_providers() {
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").start().await;
    let entry = service.log().entry("where it serves", |entry| entry["message"] == "serving").await;
    let most = entry["most_connections"].as_u64().unwrap();
    let limit = service.metrics().await.value("agent_process_max_fds", &[]).unwrap();
    assert!(most >= 1 && (most as f64) < limit, "{most} of {limit}");
}

/// Which route and status are told of a request is tested in `host/http-edge`.
#[tokio::test]
async fn requests_are_counted_whoever_answers_them() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).start().await;
    service.post("/agent/invoke", "{").await;
    let mut socket = Socket::connect(service.address()).await;
    socket.send("\0\0\0\0\r\n\r\n").await;
    assert!(socket.read_to_end().await.starts_with("HTTP/1.1 400 "));
    let refused = service
        .log()
        .entry("the refused request", |entry| entry["message"] == "a request that is no HTTP was refused");
    let refused = refused.await;
    assert_eq!((&refused["status"], &refused["client"]), (&400.into(), &"127.0.0.1".into()));
    let metrics = service.metrics().await;
    for (route, method) in [("/agent/invoke", "POST"), ("unmatched", "unknown")] {
        let labels = [("route", route), ("method", method), ("status", "400")];
        assert_eq!(metrics.value("agent_http_requests_total", &labels), Some(1.0), "{labels:?}");
    }
    assert_eq!(
        metrics.value("agent_http_request_duration_seconds_count", &[("route", "/agent/invoke")]),
        Some(1.0)
    );
}
