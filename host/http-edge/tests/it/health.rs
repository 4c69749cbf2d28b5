//! Liveness asks nothing. Readiness asks everything, and says no during a shutdown.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Preparing, StoreFindings, StoreWarning, ToolFault};
use agent_core::testing::EchoTools;
use http::StatusCode;
use insta::assert_snapshot;

use crate::harness::{Answers, FixedProbe, Service, a};

#[tokio::test]
async fn liveness_is_ok_whatever_is_broken() {
    let service = Service::configured(Answers, |edge| {
        a(edge).probes = vec![FixedProbe::fails("database", "down"), FixedProbe::hangs("llm")];
    });
    assert_snapshot!(service.get("/health/live").await, @r#"
    200 OK
    content-type: application/json; charset=utf-8
    {"status":"ok"}
    "#);
}

#[tokio::test]
async fn readiness_is_healthy_when_every_check_passes() {
    let service = Service::configured(Answers, |edge| {
        a(edge).probes = vec![FixedProbe::passes("llm"), FixedProbe::passes("database")];
    });
    assert_snapshot!(service.get("/health/ready").await, @r#"
    200 OK
    content-type: application/json; charset=utf-8
    {"healthy":true,"status":"healthy","checks":{"llm":{"healthy":true,"status":"healthy"},"database":{"healthy":true,"status":"healthy"}}}
    "#);
}

#[tokio::test]
async fn a_failed_check_is_a_503_and_does_not_hide_the_others() {
    let service = Service::configured(Answers, |edge| {
        a(edge).probes =
            vec![FixedProbe::fails("llm", "the key was refused"), FixedProbe::passes("database")];
    });
    assert_snapshot!(service.get("/health/ready").await, @r#"
    503 Service Unavailable
    content-type: application/json; charset=utf-8
    {"healthy":false,"status":"unhealthy","checks":{"llm":{"healthy":false,"error":"the key was refused"},"database":{"healthy":true,"status":"healthy"}}}
    "#);
}

#[tokio::test(start_paused = true)]
async fn checks_that_hang_fail_side_by_side_after_their_time_limit() {
    let service = Service::configured(Answers, |edge| {
        a(edge).probes =
            vec![FixedProbe::hangs("llm"), FixedProbe::hangs("database"), FixedProbe::passes("redis")];
        edge.settings.probe_time_limit = Duration::from_secs(2);
    });
    let began = tokio::time::Instant::now();
    assert_snapshot!(service.get("/health/ready").await, @r#"
    503 Service Unavailable
    content-type: application/json; charset=utf-8
    {"healthy":false,"status":"unhealthy","checks":{"llm":{"healthy":false,"error":"no answer within 2000 ms"},"database":{"healthy":false,"error":"no answer within 2000 ms"},"redis":{"healthy":true,"status":"healthy"}}}
    "#);
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test]
async fn a_background_task_that_broke_off_is_named_until_it_runs_again() {
    let down = Arc::new(Mutex::new(vec!["run-writer", "worker"]));
    let service = Service::configured(Answers, |edge| {
        let down = down.clone();
        edge.readiness = edge.readiness.clone().with_tasks(Arc::new(move || down.lock().clone()));
    });
    assert_snapshot!(service.get("/health/ready").await, @r#"
    503 Service Unavailable
    content-type: application/json; charset=utf-8
    {"healthy":false,"status":"unhealthy","checks":{"tasks":{"healthy":false,"error":"begun anew after a failure: run-writer, worker"}}}
    "#);
    down.lock().clear();
    assert_eq!(service.get("/health/ready").await.status, StatusCode::OK);
}

#[tokio::test]
async fn what_a_stores_settings_cost_is_reported_and_one_that_must_not_be_used_is_not_ready() {
    let findings = StoreFindings::default();
    let service = Service::configured(Answers, |edge| {
        edge.readiness = edge.readiness.clone().with_stores(findings.clone());
    });
    let weak =
        StoreWarning { store: "redis", setting: "appendfsync", problem: "everysec: a second is lost".into() };
    findings.set("redis", Ok(vec![weak]));
    assert_snapshot!(service.get("/health/ready").await, @r#"
    200 OK
    content-type: application/json; charset=utf-8
    {"healthy":true,"status":"healthy","checks":{},"stores":[{"store":"redis","setting":"appendfsync","problem":"everysec: a second is lost"}]}
    "#);
    findings.set("redis", Err("it evicts jobs".into()));
    assert_snapshot!(service.get("/health/ready").await, @r#"
    503 Service Unavailable
    content-type: application/json; charset=utf-8
    {"healthy":false,"status":"unhealthy","checks":{"stores":{"healthy":false,"error":"it evicts jobs"}}}
    "#);
}

#[tokio::test]
async fn during_a_shutdown_readiness_says_no_and_everything_else_goes_on() {
    let mut service = Service::configured(Answers, |edge| a(edge).probes = vec![FixedProbe::passes("llm")]);
    assert_eq!(service.get("/health/ready").await.status, StatusCode::OK);
    service.shut_down();
    assert_snapshot!(service.get("/health/ready").await, @r#"
    503 Service Unavailable
    content-type: application/json; charset=utf-8
    {"healthy":false,"status":"unhealthy","checks":{"llm":{"healthy":true,"status":"healthy"},"shutdown":{"healthy":false,"error":"the service is shutting down"}}}
    "#);
    assert_eq!(service.get("/health/live").await.status, StatusCode::OK);
    assert_eq!(service.get("/metrics").await.status, StatusCode::OK);
    assert_eq!(service.invoke(r#"{"input":"hi"}"#).await.status, StatusCode::OK);
}

#[tokio::test]
async fn components_that_could_not_be_loaded_are_reported_but_make_nothing_unhealthy() {
    let fault = ToolFault {
        file: "clock.wasm".into(),
        error: "it imports wasi:clocks, which no policy grants".into(),
    };
    let service = Service::configured(Answers, |edge| {
        a(edge).toolbox = std::sync::Arc::new(EchoTools::new(&[]).with_faults(vec![fault]));
        a(edge).probes = vec![FixedProbe::passes("llm")];
    });
    assert_snapshot!(service.get("/health/ready").await, @r#"
    200 OK
    content-type: application/json; charset=utf-8
    {"healthy":true,"status":"healthy","checks":{"llm":{"healthy":true,"status":"healthy"}},"tools":{"failed":[{"file":"clock.wasm","error":"it imports wasi:clocks, which no policy grants"}]}}
    "#);
}

#[tokio::test]
async fn readiness_waits_for_the_tools_of_the_start_and_for_none_that_come_later() {
    let preparing = |files: &[&str], first| {
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        let toolbox = EchoTools::new(&[]).with_preparing(Preparing { files, first });
        Service::configured(Answers, |edge| {
            a(edge).toolbox = std::sync::Arc::new(toolbox);
            a(edge).probes = vec![FixedProbe::passes("llm")];
        })
    };
    let service = preparing(&["a.wasm", "b.wasm"], true);
    assert_snapshot!(service.get("/health/ready").await, @r#"
    503 Service Unavailable
    content-type: application/json; charset=utf-8
    {"healthy":false,"status":"unhealthy","checks":{"llm":{"healthy":true,"status":"healthy"},"tools":{"healthy":false,"error":"tools are being prepared: a.wasm, b.wasm"}},"tools":{"preparing":["a.wasm","b.wasm"]}}
    "#);
    assert_eq!(service.get("/health/live").await.status, StatusCode::OK);
    let answer = preparing(&[], true).get("/health/ready").await;
    assert_eq!(answer.json()["checks"]["tools"]["error"], "the tools folder has not been read yet");
    assert_snapshot!(preparing(&["late.wasm"], false).get("/health/ready").await, @r#"
    200 OK
    content-type: application/json; charset=utf-8
    {"healthy":true,"status":"healthy","checks":{"llm":{"healthy":true,"status":"healthy"}},"tools":{"preparing":["late.wasm"]}}
    "#);
}
