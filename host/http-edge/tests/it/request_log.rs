//! One line per request that can be read alone, and nothing in it that is the caller's business.

use agent_core::ports::ModelError;
use axum::extract::ConnectInfo;
use insta::assert_snapshot;
use serde_json::json;

use crate::harness::{Answers, FixedProbe, Log, Service, a, request};

#[tokio::test]
async fn a_request_is_one_line_that_can_be_read_alone() {
    let service = Service::with_invoke(Answers);
    let mut request = request("POST", "/agent/invoke?token=secret-1", r#"{"input":"secret-2"}"#);
    request.headers_mut().insert("authorization", "Bearer secret-3".parse().unwrap());
    request.headers_mut().insert("x-request-id", "r-1".parse().unwrap());
    request.extensions_mut().insert(ConnectInfo(std::net::SocketAddr::from(([10, 0, 0, 1], 4711))));
    let log = Log::collect();
    service.send(request).await;
    assert_eq!(
        log.request(),
        json!({
            "level": "INFO",
            "target": "http_edge::request",
            "message": "POST /agent/invoke 200 in N ms",
            "method": "POST",
            "path": "/agent/invoke",
            "status": 200,
            "duration_ms": "N",
            "request_id": "r-1",
            "client": "10.0.0.1",
        })
    );
    assert!(!log.text().contains("secret"), "{}", log.text());
}

#[tokio::test]
async fn a_failure_is_logged_with_every_source_of_its_error() {
    let error = ModelError::Refused { provider: "openai/gpt".into(), detail: "401\nno such key".into() };
    let service = Service::with_model([Err(error)]);
    let log = Log::collect();
    service.invoke(r#"{"input":"hi"}"#).await;
    let line = log.request();
    assert_eq!((&line["level"], &line["status"]), (&json!("ERROR"), &json!(500)));
    assert_snapshot!(line["error"].as_str().unwrap(), @r"the agent run failed: the model call failed: the model provider openai/gpt refused the request: 401\nno such key");
}

#[tokio::test]
async fn a_mistake_of_the_client_is_logged_without_quoting_its_body() {
    let service = Service::configured(Answers, |edge| edge.settings.max_body_bytes = 30);
    for (body, error) in [
        (r#"{"input":["zebra"]}"#, "`input` is not a string"),
        (r#"{"input":"" }"#, "`input` is empty"),
        (r#"{"zebra":"x"}"#, "`input` is missing"),
        (r#"["zebra"]"#, "the body is not a JSON object"),
        ("{\nzebra}", "the body is not JSON at line 2, column 1"),
        (r#"{"input":"zebra","x":"and more"}"#, "the body is larger than 30 bytes"),
    ] {
        let log = Log::collect();
        service.invoke(body).await;
        let line = log.request();
        assert_eq!((&line["level"], &line["error"]), (&json!("INFO"), &json!(error)));
        assert!(!log.text().contains("zebra"), "{}", log.text());
    }
}

#[tokio::test]
async fn a_coding_that_only_a_client_knows_is_no_trouble_of_ours() {
    let mut request = request("POST", "/agent/invoke", r#"{"input":"hi"}"#);
    request.headers_mut().insert("transfer-encoding", "gzip, chunked".parse().unwrap());
    let log = Log::collect();
    Service::with_invoke(Answers).send(request).await;
    let line = log.request();
    assert_eq!((&line["level"], &line["status"]), (&json!("INFO"), &json!(501)));
}

#[tokio::test]
async fn probes_and_scrapes_are_not_worth_a_line_until_they_fail() {
    let service = Service::configured(Answers, |edge| {
        a(edge).probes = vec![FixedProbe::fails("llm", "down"), FixedProbe::passes("database")];
    });
    for (path, level, error) in [
        ("/health/live", "DEBUG", json!(null)),
        ("/metrics", "DEBUG", json!(null)),
        ("/health/ready", "WARN", json!("not ready: llm: down")),
    ] {
        let log = Log::collect();
        service.get(path).await;
        let line = log.request();
        assert_eq!((&line["level"], &line["error"]), (&json!(level), &error), "{path}");
    }
}

#[tokio::test]
async fn requests_that_no_route_answers_are_logged_too() {
    let service = Service::with_invoke(Answers);
    for (path, status) in [("/nowhere", 404), ("/agent/invoke", 405)] {
        let log = Log::collect();
        service.get(path).await;
        let line = log.request();
        assert_eq!((&line["level"], &line["status"]), (&json!("INFO"), &json!(status)));
    }
}

#[tokio::test]
async fn a_path_cannot_break_the_line_or_flood_the_log() {
    let service = Service::with_invoke(Answers);
    for (path, logged) in [
        ("/a%0Ab", "/a%0Ab".to_owned()),
        ("/a\u{2028}\u{202e}b", r"/a\u{2028}\u{202e}b".to_owned()),
        (&format!("/{}", "x".repeat(600)), format!("/{}…", "x".repeat(511))),
    ] {
        let log = Log::collect();
        service.get(path).await;
        assert_eq!(log.request()["path"], logged);
    }
}

#[tokio::test]
async fn what_is_logged_on_behalf_of_a_request_carries_its_id() {
    struct Logs;
    #[boxed_async::boxed_async]
    impl agent_core::ports::Probe for Logs {
        fn name(&self) -> &'static str {
            "logs"
        }

        async fn check(&self) -> Result<Option<std::time::Duration>, agent_core::ports::ProbeError> {
            tokio::task::yield_now().await;
            tracing::info!(target: "elsewhere", "checking");
            Ok(None)
        }
    }
    let service = Service::configured(Answers, |edge| a(edge).probes = vec![std::sync::Arc::new(Logs)]);
    let log = Log::collect();
    let answer = service.get("/health/ready").await;
    let line = log.lines_of("elsewhere").remove(0);
    assert_eq!(line["span"]["request_id"], answer.header("x-request-id").unwrap());
}
