//! The probes of a real service. Which report says what is tested in `host/http-edge`, how long a check is
//! kept in `host/run-service/src/health`.

use acceptance::{Answer, Model, Play, Postgres, Service, eventually};
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
    assert_eq!(
        service.metrics().await.value("agent_invocations_total", &[]),
        Some(0.0),
        "it invokes no agent"
    );
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
async fn a_model_that_does_not_answer_its_check_in_time_is_a_503() {
    let model = Model::openai().await;
    model.checks_play(Play::Hang);
    let service = Service::variant_a().model(&model).env("LLM_TIMEOUT_MS", "300").start().await;
    let answer = service.ready().await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("the model provider did not answer in time"), "{answer}");
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
    let model = Model::always_saying("hello").await;
    // At this level drivers log too.
    let service =
        Service::variant_a().model(&model).postgres(&postgres).env("LOG_LEVEL", "debug").start().await;
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
