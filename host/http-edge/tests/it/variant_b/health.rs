//! `/health` asks everything, `/ready` asks what a request needs and says no during a shutdown.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Preparing, ToolFault};
use agent_core::testing::EchoTools;
use http::StatusCode;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::harness::{Answer, Answers, Fakes, FixedProbe, Log, b};

/// The report without the numbers and times in it, which are checked on the way.
fn timeless(answer: &Answer) -> String {
    let mut report = answer.json();
    for latency in
        [&["checks", "database"][..], &["checks", "redis"], &["checks", "llm"], &["database"], &["cache"]]
    {
        let pointer = format!("/{}/latency", latency.join("/"));
        if let Some(latency) = report.pointer_mut(&pointer) {
            assert!(latency.as_f64().is_some_and(|latency| latency >= 0.0), "{answer}");
            *latency = "N".into();
        }
    }
    if let Some(uptime) = report.get_mut("uptime") {
        assert!(uptime.as_f64().is_some_and(|uptime| uptime >= 0.0), "{answer}");
        *uptime = "N".into();
    }
    if let Some(timestamp) = report.get_mut("timestamp") {
        let text = timestamp.as_str().unwrap();
        assert!(text.len() == 24 && text.starts_with("20") && text.ends_with('Z'), "{text}");
        *timestamp = "T".into();
    }
    format!("{} {report}", answer.status)
}

/// Keys in the order they were written.
fn keys(answer: &Answer) -> Vec<String> {
    let mut places: Vec<_> =
        ["status", "timestamp", "uptime", "checks", "database", "redis", "llm", "initialized", "cache"]
            .iter()
            .filter_map(|key| {
                answer.body.find(&format!("\"{key}\":")).map(|place| (place, (*key).to_owned()))
            })
            .collect();
    places.sort();
    places.into_iter().map(|(_, key)| key).collect()
}

#[tokio::test]
async fn health_is_healthy_when_every_check_passes() {
    let answer = Fakes::with_invoke(Answers).service.get("/health").await;
    assert_eq!(keys(&answer), ["status", "timestamp", "uptime", "checks", "database", "redis", "llm"]);
    assert_snapshot!(timeless(&answer), @r#"200 OK {"checks":{"database":{"latency":"N","status":"ok"},"llm":{"latency":"N","status":"ok"},"redis":{"latency":"N","status":"ok"}},"status":"healthy","timestamp":"T","uptime":"N"}"#);
}

#[tokio::test]
async fn a_failed_check_is_503_without_a_reason_and_without_a_latency() {
    let fakes =
        Fakes::configured(Answers, |edge| b(edge).llm = FixedProbe::fails("llm", "the key was refused"));
    let log = Log::collect();
    let answer = fakes.service.get("/health").await;
    assert_snapshot!(timeless(&answer), @r#"503 Service Unavailable {"checks":{"database":{"latency":"N","status":"ok"},"llm":{"status":"error"},"redis":{"latency":"N","status":"ok"}},"status":"unhealthy","timestamp":"T","uptime":"N"}"#);
    let line = log.request();
    assert_eq!(
        (&line["level"], &line["error"]),
        (&json!("WARN"), &json!("not ready: llm: the key was refused"))
    );
}

#[tokio::test]
async fn readiness_asks_the_stores_and_not_the_model() {
    let fakes = Fakes::configured(Answers, |edge| b(edge).llm = FixedProbe::fails("llm", "down"));
    let answer = fakes.service.get("/ready").await;
    assert_eq!(keys(&answer), ["initialized", "database", "status", "cache"].map(str::to_owned));
    assert_snapshot!(timeless(&answer), @r#"200 OK {"cache":{"latency":"N","status":"ok"},"database":{"latency":"N","status":"ok"},"initialized":true}"#);
}

#[tokio::test]
async fn a_store_that_is_down_is_not_ready() {
    let down = || FixedProbe::fails("x", "connection refused");
    let fakes = Fakes::configured(Answers, |edge| b(edge).database = down());
    assert_snapshot!(timeless(&fakes.service.get("/ready").await), @r#"503 Service Unavailable {"cache":{"latency":"N","status":"ok"},"database":{"status":"error"},"initialized":true}"#);
    let fakes = Fakes::configured(Answers, |edge| b(edge).key_value = down());
    assert_snapshot!(timeless(&fakes.service.get("/ready").await), @r#"503 Service Unavailable {"cache":{"status":"error"},"database":{"latency":"N","status":"ok"},"initialized":true}"#);
}

#[tokio::test]
async fn a_background_task_that_broke_off_is_not_ready() {
    let fakes = Fakes::configured(Answers, |edge| {
        edge.readiness = edge.readiness.clone().with_tasks(std::sync::Arc::new(|| vec!["queue-writer"]));
    });
    assert_snapshot!(timeless(&fakes.service.get("/ready").await), @r#"503 Service Unavailable {"cache":{"latency":"N","status":"ok"},"database":{"latency":"N","status":"ok"},"initialized":true,"tasks":["queue-writer"]}"#);
}

#[tokio::test]
async fn what_a_stores_settings_cost_is_reported_and_one_that_must_not_be_used_is_not_ready() {
    let findings = agent_core::ports::StoreFindings::default();
    let fakes = Fakes::configured(Answers, |edge| {
        edge.readiness = edge.readiness.clone().with_stores(findings.clone());
    });
    let weak =
        agent_core::ports::StoreWarning { store: "redis", setting: "appendfsync", problem: "weak".into() };
    findings.set("redis", Ok(vec![weak]));
    assert_snapshot!(timeless(&fakes.service.get("/ready").await), @r#"200 OK {"cache":{"latency":"N","status":"ok"},"database":{"latency":"N","status":"ok"},"initialized":true,"stores":[{"problem":"weak","setting":"appendfsync","store":"redis"}]}"#);
    findings.set("redis", Err("it evicts jobs".into()));
    let log = Log::collect();
    assert_eq!(fakes.service.get("/ready").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(log.request()["error"], "not ready: stores: it evicts jobs");
}

#[tokio::test]
async fn during_a_shutdown_nothing_is_initialized_and_everything_else_goes_on() {
    let mut fakes = Fakes::with_invoke(Answers);
    fakes.service.shut_down();
    let log = Log::collect();
    assert_snapshot!(timeless(&fakes.service.get("/ready").await), @r#"503 Service Unavailable {"cache":{"latency":"N","status":"ok"},"database":{"latency":"N","status":"ok"},"initialized":false}"#);
    assert_eq!(log.request()["error"], "not ready: shutdown: the service is shutting down");
    assert_eq!(fakes.service.get("/health").await.status, StatusCode::OK);
    assert_eq!(fakes.post("/api/agent", r#"{"query":"hi"}"#).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn checks_that_hang_fail_side_by_side_after_their_time_limit() {
    let fakes = Fakes::configured(Answers, |edge| {
        edge.settings.probe_time_limit = Duration::from_secs(2);
        let b = b(edge);
        (b.database, b.key_value, b.llm) =
            (FixedProbe::hangs("sql"), FixedProbe::hangs("redis"), FixedProbe::hangs("llm"));
    });
    for path in ["/health", "/ready"] {
        let began = tokio::time::Instant::now();
        let answer = fakes.service.get(path).await;
        assert_eq!(
            (answer.status, began.elapsed().as_secs()),
            (StatusCode::SERVICE_UNAVAILABLE, 2),
            "{path}"
        );
        assert_ne!(answer.json(), Value::Null);
    }
}

#[tokio::test]
async fn nothing_is_initialized_before_the_tools_of_the_start_are_prepared() {
    let ready = async |first| {
        let toolbox = EchoTools::new(&[]).with_preparing(Preparing { files: vec!["a.wasm".into()], first });
        let fakes = Fakes::configured(Answers, |edge| b(edge).toolbox = Arc::new(toolbox));
        timeless(&fakes.service.get("/ready").await)
    };
    assert_snapshot!(ready(true).await, @r#"503 Service Unavailable {"cache":{"latency":"N","status":"ok"},"database":{"latency":"N","status":"ok"},"initialized":false,"tools":{"preparing":["a.wasm"]}}"#);
    assert_snapshot!(ready(false).await, @r#"200 OK {"cache":{"latency":"N","status":"ok"},"database":{"latency":"N","status":"ok"},"initialized":true,"tools":{"preparing":["a.wasm"]}}"#);
}

#[tokio::test]
async fn tools_that_were_refused_are_named_and_make_nothing_unready() {
    let fault = ToolFault { file: "big.wasm".into(), error: "adds 5000 tokens to every model call".into() };
    let fakes = Fakes::configured(Answers, |edge| {
        b(edge).toolbox = Arc::new(EchoTools::new(&[]).with_faults(vec![fault]));
    });
    assert_snapshot!(timeless(&fakes.service.get("/ready").await), @r#"200 OK {"cache":{"latency":"N","status":"ok"},"database":{"latency":"N","status":"ok"},"initialized":true,"tools":{"failed":[{"error":"adds 5000 tokens to every model call","file":"big.wasm"}]}}"#);
}
