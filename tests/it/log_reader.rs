//! Who reads the log cannot hold the service up: a reader that stalls costs log lines and nothing else. One
//! that goes away is tested in `host/agent-host/src/telemetry`.

use acceptance::{Model, ReservedPort, Service, Signal, eventually};

/// More lines than the pipe and the queue can hold, each as long as a line may be because of its path.
const LINES: usize = 2000;

async fn start_unread(model: &Model, drain_ms: &str) -> Service {
    // The line that says where it listens is not read, so the address has to be known beforehand.
    let port = ReservedPort::take().address();
    let builder = Service::variant_a().model(model).env("PORT", port.port().to_string());
    builder.env("SHUTDOWN_DRAIN_MS", drain_ms).unread().start_at(port).await
}

async fn fill_the_log(service: &Service) {
    let path = format!("/nowhere/{}", "x".repeat(500));
    for _ in 0..LINES {
        assert_eq!(service.get(&path).await.status, 404);
    }
}

async fn dropped(service: &Service) -> u64 {
    service.metrics().await.value("agent_log_lines_dropped_total", &[]).unwrap() as u64
}

#[tokio::test]
async fn a_reader_of_the_log_that_stalls_takes_neither_liveness_nor_the_shutdown() {
    let model = Model::openai().await;
    let mut service = start_unread(&model, "0").await;
    fill_the_log(&service).await;
    assert_eq!(service.live().await.status, 200);
    assert!(dropped(&service).await > 0);
    service.signal(Signal::TERM);
    assert_eq!(service.ended().await.code, Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_a_service_whose_log_is_not_read() {
    let model = Model::openai().await;
    let mut service = start_unread(&model, "20000").await;
    fill_the_log(&service).await;
    service.signal(Signal::TERM);
    let is_denied = async || Some(service.ready().await).filter(|report| report.status == 503);
    let report = eventually("readiness to be denied", is_denied).await;
    assert_eq!(report.json()["healthy"], false);
    service.signal(Signal::TERM);
    assert_eq!(service.ended().await.code, Some(1));
}

#[tokio::test]
async fn lines_that_were_dropped_are_told_of_once_the_reader_goes_on() {
    let model = Model::openai().await;
    let service = start_unread(&model, "0").await;
    fill_the_log(&service).await;
    let dropped = dropped(&service).await;
    service.read_log();
    let told = service.log().entry("what was dropped", |entry| entry["dropped"].is_u64()).await;
    assert_eq!((&told["level"], told["dropped"].as_u64()), (&"WARN".into(), Some(dropped)));
    assert!(told["message"].as_str().unwrap().starts_with(&format!("{dropped} log lines were dropped")));
    service.get("/after").await;
    service.log().entry("the next line", |entry| entry["path"] == "/after").await;
    // Every line is whole, and every request is either in the log or among those that were dropped.
    let lines = service.log().entries().iter().filter(|entry| entry["status"] == 404).count();
    assert_eq!(lines as u64 + dropped, LINES as u64 + 1);
    service.stop().await;
}
