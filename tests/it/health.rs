//! The probes: liveness that consults nothing, and readiness that says what is wrong.

use std::net::SocketAddr;

use acceptance::{Answer, Component, Model, Play, Postgres, ReservedPort, Service, Task, eventually, says};
use insta::{allow_duplicates, assert_snapshot};
use serde_json::{Value, json};

#[tokio::test]
async fn a_service_whose_model_answers_is_live_and_ready() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).start().await;
    assert_snapshot!(service.live().await, @r#"
    200 application/json; charset=utf-8
    {"status":"ok"}
    "#);
    assert_snapshot!(service.ready().await, @r#"
    200 application/json; charset=utf-8
    {"healthy":true,"status":"healthy","checks":{"llm":{"healthy":true,"status":"healthy"}}}
    "#);
    let checks = model.checks();
    assert_eq!((checks.len(), checks[0].user_text().as_str()), (1, "ping"));
    assert_eq!(checks[0].max_tokens(), 1, "a check is to be cheap");
}

#[tokio::test]
async fn liveness_asks_nobody() {
    let model = Model::openai().await;
    let service =
        Service::variant_a().model(&model).env("DATABASE_URL", nowhere(&ReservedPort::take())).start().await;
    for _ in 0..3 {
        assert_eq!(service.live().await.status, 200);
    }
    assert_eq!(model.checks().len(), 0);
}

/// The address of a database that is not there.
fn nowhere(port: &ReservedPort) -> String {
    format!("postgres://postgres:hunter2@{}/postgres", port.address())
}

#[tokio::test]
async fn a_model_that_fails_its_check_is_a_503_with_the_reason_and_no_secret() {
    for model in [Model::openai().await, Model::anthropic().await] {
        let body = json!({ "error": { "message": format!("Incorrect API key provided: {}", model.key()) } });
        model.checks_play(Play::Whole { status: 401, headers: vec![], body: body.to_string() });
        let service = Service::variant_a().model(&model).start().await;
        let answer = service.ready().await;
        allow_duplicates! {
            assert_snapshot!(answer, @r#"
            503 application/json; charset=utf-8
            {"healthy":false,"status":"unhealthy","checks":{"llm":{"healthy":false,"error":"the model provider refused the request"}}}
            "#);
        }
        assert_eq!(service.live().await.status, 200);
        // What the provider said is for the operator, and the key is for nobody.
        let said = |entry: &Value| entry["error"].to_string().contains("Incorrect API key provided: [key]");
        assert_eq!(service.log().entry("the provider's words", said).await["level"], "WARN");
        let line = service.log().entry("the failed check", |entry| entry["status"] == 503).await;
        assert_eq!((&line["level"], &line["path"]), (&json!("WARN"), &json!("/health/ready")));
        assert!(!service.log().to_string().contains(model.key()));
    }
}

#[tokio::test]
async fn a_check_is_not_tried_again_within_one_report() {
    let model = Model::openai().await;
    model.checks_play(Play::Whole {
        status: 503,
        headers: vec![("retry-after", "0".into())],
        body: String::new(),
    });
    let service = Service::variant_a().model(&model).start().await;
    assert_eq!(service.ready().await.status, 503);
    assert_eq!(model.checks().len(), 1);
}

#[tokio::test]
async fn a_model_that_does_not_answer_its_check_is_a_503_before_the_next_probe() {
    let model = Model::openai().await;
    model.checks_play(Play::Hang);
    let service = Service::variant_a().model(&model).env("LLM_TIMEOUT_MS", "300").start().await;
    let answer = service.ready().await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("did not answer in time"), "{answer}");
}

#[tokio::test]
async fn the_second_provider_makes_up_for_the_first_ones_check() {
    let (first, second) = (Model::openai().await, Model::anthropic().await);
    first.checks_play(Play::Whole { status: 500, headers: vec![], body: String::new() });
    let service = Service::variant_a().model(&first).second_model(&second).start().await;
    assert_eq!(service.ready().await.status, 200);
    assert_eq!((first.checks().len(), second.checks().len()), (1, 1));
}

#[tokio::test]
async fn the_models_check_is_kept_for_its_time_to_live_good_or_bad() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).env("LLM_HEALTH_TTL_MS", "3600000").start().await;
    for _ in 0..5 {
        assert_eq!(service.ready().await.status, 200);
    }
    assert_eq!(model.checks().len(), 1);

    let failing = Model::openai().await;
    failing.checks_play(Play::Whole { status: 500, headers: vec![], body: String::new() });
    let service = Service::variant_a().model(&failing).env("LLM_HEALTH_TTL_MS", "3600000").start().await;
    for _ in 0..5 {
        assert_eq!(service.ready().await.status, 503);
    }
    assert_eq!(failing.checks().len(), 1);
}

#[tokio::test]
async fn the_models_check_is_made_anew_when_its_time_is_over() {
    let model = Model::openai().await;
    model.checks_play(Play::Whole { status: 500, headers: vec![], body: String::new() });
    let service = Service::variant_a().model(&model).env("LLM_HEALTH_TTL_MS", "100").start().await;
    assert_eq!(service.ready().await.status, 503);
    eventually("readiness to be back", async || (service.ready().await.status == 200).then_some(())).await;
}

#[tokio::test]
async fn without_a_time_to_live_every_report_makes_a_check() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).env("LLM_HEALTH_TTL_MS", "0").start().await;
    for _ in 0..3 {
        assert_eq!(service.ready().await.status, 200);
    }
    assert_eq!(model.checks().len(), 3);
}

#[tokio::test]
async fn the_models_check_is_never_made_twice_at_once() {
    // Without a time to live callers of one moment may share a check or make one after the other.
    for (time_to_live, checks) in [("0", 1..=5), ("30000", 1..=1)] {
        let model = Model::openai().await;
        let gate = model.check_holds(says("pong"));
        let service = Service::variant_a().model(&model).env("LLM_HEALTH_TTL_MS", time_to_live).start().await;
        let reports: Vec<_> = (0..5)
            .map(|_| {
                let caller = service.caller();
                Task::begin(async move { caller.ready().await.status })
            })
            .collect();
        model.was_checked(1).await;
        // As many round trips as it would take the others to come through.
        for _ in 0..10 {
            assert_eq!(service.live().await.status, 200);
        }
        assert_eq!(model.checks().len(), 1);
        gate.open();
        for report in reports {
            assert_eq!(report.ended().await, 200);
        }
        assert!(checks.contains(&model.checks().len()), "{}", model.checks().len());
    }
}

/// A probe of Kubernetes hangs up after a second by default.
#[tokio::test]
async fn a_prober_with_less_patience_than_the_provider_needs_sees_the_truth() {
    let model = Model::openai().await;
    let gate = model.check_holds(says("pong"));
    let service = Service::variant_a().model(&model).env("LLM_TIMEOUT_MS", "1000").start().await;
    let caller = service.caller();
    let impatient = Task::begin(async move { caller.ready().await.status });
    model.was_checked(1).await;
    drop(impatient);
    gate.open();
    // Longer than a check may take, and nobody waits for it.
    tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
    assert_eq!(service.ready().await.status, 200);
    assert_eq!(model.checks().len(), 1);
}

#[tokio::test]
async fn a_run_that_succeeds_is_as_good_as_a_check() {
    let model = Model::openai().await;
    model.checks_play(Play::Whole { status: 500, headers: vec![], body: String::new() });
    let service = Service::variant_a().model(&model).start().await;
    assert_eq!(service.ready().await.status, 503);
    model.says("hello");
    assert_eq!(service.result_of("hi").await["output"], "hello");
    assert_eq!(service.ready().await.status, 200);
    assert_eq!(model.checks().len(), 1);
}

#[tokio::test]
async fn a_model_that_is_busy_with_a_run_is_ready() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).env("LLM_HEALTH_TTL_MS", "100").start().await;
    model.says("hello");
    service.result_of("hi").await;
    // The check after that waits behind somebody's run.
    let gate = model.check_holds(says("pong"));
    let asked = eventually("a check", async || {
        let status = service.ready().await.status;
        (!model.checks().is_empty()).then_some(status)
    });
    assert_eq!(asked.await, 200);
    gate.open();
}

#[tokio::test]
async fn checks_are_no_invocations() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).start().await;
    service.ready().await;
    assert_eq!(service.metrics().await.value("agent_invocations_total", &[]), Some(0.0));
}

#[tokio::test]
async fn a_sqlite_database_is_created_and_checked() {
    let model = Model::openai().await;
    let builder = Service::variant_a().model(&model);
    let file = builder.home().join("agent.db");
    let service = builder.env("DATABASE_URL", format!("sqlite://{}", file.display())).start().await;
    // The tables are made while the tools are prepared: until both are there, files may be proposed again.
    let settled = eventually("the tools to be written down", async || {
        Some(service.ready().await).filter(|answer| answer.json().get("tools").is_none())
    });
    assert_snapshot!(settled.await, @r#"
    200 application/json; charset=utf-8
    {"healthy":true,"status":"healthy","checks":{"llm":{"healthy":true,"status":"healthy"},"database":{"healthy":true,"status":"healthy"}}}
    "#);
    assert!(file.is_file());
    service.stop().await;
}

/// Waits for a report with that status.
async fn report(service: &Service, status: u16) -> Answer {
    eventually(&format!("a report with status {status}"), async || {
        Some(service.ready().await).filter(|answer| answer.status == status)
    })
    .await
}

#[tokio::test]
async fn a_postgresql_database_is_missed_when_it_stops_and_found_when_it_is_back() {
    let mut postgres = Postgres::start().await;
    let model = Model::openai().await;
    model.always(|_| says("hello"));
    let service = Service::variant_a().model(&model).env("DATABASE_URL", postgres.url()).start().await;
    // Which versions serve is agreed on once the database has its tables: until then tools may be prepared
    // again.
    let settled = eventually("the tools to be agreed on", async || {
        Some(service.ready().await).filter(|answer| answer.json().get("tools").is_none())
    });
    assert_snapshot!(settled.await, @r#"
    200 application/json; charset=utf-8
    {"healthy":true,"status":"healthy","checks":{"llm":{"healthy":true,"status":"healthy"},"database":{"healthy":true,"status":"healthy"}}}
    "#);

    postgres.pause().await;
    let answer = report(&service, 503).await;
    let check = answer.json()["checks"]["database"].take();
    assert_eq!(check["healthy"], false);
    assert!(check["error"].as_str().is_some_and(|error| !error.is_empty()), "{answer}");
    assert!(!answer.body.contains("hunter2") && !service.log().to_string().contains("hunter2"), "{answer}");
    // Liveness and the agent do without it.
    assert_eq!(service.live().await.status, 200);
    assert_eq!(service.result_of("hi").await["output"], "hello");

    postgres.resume().await;
    report(&service, 200).await;
    service.stop().await;
}

#[tokio::test]
async fn a_database_that_was_never_there_does_not_keep_the_service_from_starting() {
    let port = ReservedPort::take();
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).env("DATABASE_URL", nowhere(&port)).start().await;
    let answer = service.ready().await;
    assert_eq!(answer.status, 503);
    let address: SocketAddr = port.address();
    assert!(!answer.body.contains("hunter2") && !answer.body.contains(&address.to_string()), "{answer}");
    service.stop().await;
}

#[tokio::test]
async fn a_tool_that_cannot_be_loaded_is_a_detail_of_the_report_and_not_unhealthy() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).tool(Component::core_module("core")).start().await;
    let answer = service.ready().await;
    assert_eq!(answer.status, 200, "{answer}");
    let failed = answer.json()["tools"]["failed"].take();
    assert_eq!((failed.as_array().map(Vec::len), &failed[0]["file"]), (Some(1), &json!("core.wasm")));
}
