//! When nobody waits for the answer any more, the work stops and one line says so.

use run_service::testing::ScriptedInvoke;
use serde_json::json;

use crate::harness::{Log, Service, request};

#[tokio::test]
async fn a_request_that_is_dropped_stops_its_run_and_is_logged_once() {
    let agent = ScriptedInvoke::hanging();
    let service = Service::with_invoke(agent.clone());
    let log = Log::collect();
    service.leave(request("POST", "/agent/invoke", r#"{"input":"hi"}"#), agent.until_under_way(1)).await;
    agent.until_under_way(0).await;
    let line = log.request();
    assert_eq!((&line["level"], &line["status"]), (&json!("INFO"), &json!(499)));
    assert_eq!(line["message"], "POST /agent/invoke 499 in N ms");
    assert_eq!(line["error"], "the client went away before its answer was ready");
}

#[tokio::test]
async fn a_client_that_hangs_up_stops_its_run() {
    let agent = ScriptedInvoke::hanging();
    let service = Service::with_invoke(agent.clone());
    let log = Log::collect();
    service
        .on_a_socket(async |mut client| {
            client.send("POST /agent/invoke HTTP/1.1\r\nHost: h\r\nContent-Length: 14\r\n\r\n").await;
            client.send(r#"{"input":"hi"}"#).await;
            agent.until_under_way(1).await;
            drop(client);
            // The line is written in the same breath as the run is dropped.
            agent.until_under_way(0).await;
        })
        .await;
    let line = log.request();
    assert_eq!((&line["status"], &line["client"]), (&json!(499), &json!("127.0.0.1")));
}
