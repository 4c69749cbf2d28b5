//! A panic is a bug of ours: the client gets a 500, the log gets one line, the service goes on.

use insta::assert_snapshot;

use crate::harness::{Log, Panics, Service};

#[tokio::test]
async fn a_panic_is_a_500_that_tells_nothing_and_one_log_line_that_tells_what() {
    let service = Service::with_invoke(Panics);
    let log = Log::collect();
    let answer = service.invoke(r#"{"input":"why"}"#).await;
    assert_snapshot!(answer, @r#"
    500 Internal Server Error
    content-type: application/json; charset=utf-8
    {"error":"Internal server error"}
    "#);
    let line = log.request();
    assert_eq!(line["error"], "the handler panicked: cannot answer: why");
    assert_eq!(line["request_id"], answer.header("x-request-id").unwrap());
    assert_eq!(service.get("/health/live").await.status, 200);
}

#[tokio::test]
async fn a_panic_before_the_first_await_is_caught_as_well() {
    let service = Service::configured(Panics, |edge| {
        edge.metrics = std::sync::Arc::new(|_| panic!("no metrics today"));
    });
    assert_eq!(service.get("/metrics").await.status, 500);
}
