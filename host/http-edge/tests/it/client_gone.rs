//! When nobody waits for the answer any more, the work stops and one line says so.

use serde_json::json;

use crate::harness::{Hangs, Log, Service, request};

#[tokio::test]
async fn a_request_that_is_dropped_stops_its_run_and_is_logged_once() {
    let agent = Hangs::default();
    let service = Service::with_invoke(agent.clone());
    let log = Log::collect();
    service.leave(request("POST", "/agent/invoke", r#"{"input":"hi"}"#), agent.asked.notified()).await;
    agent.stopped.notified().await;
    let line = log.request();
    assert_eq!((&line["level"], &line["status"]), (&json!("INFO"), &json!(499)));
    assert_eq!(line["message"], "POST /agent/invoke 499 in N ms");
    assert_eq!(line["error"], "the client went away before its answer was ready");
}

#[tokio::test]
async fn a_client_that_hangs_up_stops_its_run() {
    let agent = Hangs::default();
    let service = Service::with_invoke(agent.clone());
    let log = Log::collect();
    service
        .on_a_socket(async |mut client| {
            client.send("POST /agent/invoke HTTP/1.1\r\nHost: h\r\nContent-Length: 14\r\n\r\n").await;
            client.send(r#"{"input":"hi"}"#).await;
            agent.asked.notified().await;
            drop(client);
            // The line is written in the same breath as the run is dropped.
            agent.stopped.notified().await;
        })
        .await;
    let line = log.request();
    assert_eq!((&line["status"], &line["client"]), (&json!(499), &json!("127.0.0.1")));
}
