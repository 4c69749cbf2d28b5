//! `/health` and `/ready` (host/docs/interface/endpoints.md#readiness-of-variant-b).

use std::time::Instant;

use acceptance::{Answer, Model, Play, Postgres, Redis, Service, Signal, Token, eventually};
use futures::future::join_all;
use serde_json::{Value, json};

/// One check that passed: a status and the milliseconds it took.
fn check_passed(check: &Value) {
    assert_eq!(check["status"], "ok", "{check}");
    let latency = check["latency"].as_f64().unwrap_or_else(|| panic!("a latency: {check}"));
    assert!((0.0..60_000.0).contains(&latency), "{check}");
    assert_eq!(check.as_object().unwrap().len(), 2, "{check}");
}

/// One check that failed: a status and nothing else.
fn check_failed(check: &Value) {
    assert_eq!(check, &json!({ "status": "error" }));
}

/// The names of an object's members.
fn names(object: &Value) -> Vec<&str> {
    let mut names: Vec<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn report(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status, status, "{answer}");
    assert_eq!(answer.header("content-type"), "application/json; charset=utf-8");
    answer.json()
}

#[tokio::test]
async fn however_many_ask_a_store_is_asked_once_a_second() {
    const PROBERS: usize = 100;
    let (model, redis) = (Model::openai().await, Redis::start().await);
    let service = Service::variant_b().model(&model).redis(&redis).start().await;
    let mut monitor = redis.monitor().await;
    let began = Instant::now();
    let probers = (0..PROBERS).map(|_| {
        let caller = service.caller();
        async move { caller.readiness().await }
    });
    for answer in join_all(probers).await {
        report(&answer, 200);
    }
    let seconds = began.elapsed().as_secs() as usize;
    let pings = monitor.commands().await.of_clients.iter().filter(|command| *command == "PING").count();
    assert!(pings > 0 && pings <= seconds + 2, "{pings} pings in {seconds} s");
}

#[tokio::test]
async fn a_healthy_service_says_so_with_what_each_check_took() {
    let model = Model::openai().await;
    let (redis, postgres) = tokio::join!(Redis::start(), Postgres::start());
    let embedded = Service::variant_b().model(&model);
    let real = Service::variant_b().model(&model).redis(&redis).postgres(&postgres);
    for builder in [embedded, real] {
        let service = builder.start().await;
        let health = report(&service.health().await, 200);
        assert_eq!(names(&health), ["checks", "status", "timestamp", "uptime"]);
        assert_eq!(health["status"], "healthy");
        assert_eq!(names(&health["checks"]), ["database", "llm", "redis"]);
        health["checks"].as_object().unwrap().values().for_each(check_passed);
        let time = health["timestamp"].as_str().unwrap();
        // As JavaScript writes it: `2026-01-02T03:04:05.678Z`.
        let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{time}");
        let uptime = health["uptime"].as_f64().unwrap();
        assert!(uptime > 0.0 && uptime < 600.0, "{uptime}");

        // Which versions serve is agreed on once the database has its tables: until then tools may be
        // prepared again.
        let ready = eventually("the tools to be agreed on", async || {
            Some(report(&service.readiness().await, 200)).filter(|ready| ready.get("tools").is_none())
        });
        let ready = ready.await;
        assert_eq!(names(&ready), ["cache", "database", "initialized"]);
        assert_eq!(ready["initialized"], true);
        check_passed(&ready["database"]);
        check_passed(&ready["cache"]);
    }
}

#[tokio::test]
async fn the_models_check_is_one_short_message_now_and_then() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).env("LLM_HEALTH_TTL_MS", "3600000").start().await;
    let mut latencies = Vec::new();
    for _ in 0..5 {
        latencies.push(report(&service.health().await, 200)["checks"]["llm"]["latency"].clone());
        // Readiness does not speak of the model and does not ask it.
        service.readiness().await;
    }
    let checks = model.checks();
    assert_eq!((checks.len(), checks[0].user_text().as_str()), (1, "ping"));
    // The latency is that of the check that was made.
    assert!(latencies.iter().all(|latency| *latency == latencies[0]), "{latencies:?}");
}

#[tokio::test]
async fn a_model_that_fails_is_unhealthy_and_the_service_still_ready() {
    let model = Model::openai().await;
    model.checks_play(Play::Whole { status: 401, headers: vec![], body: model.key().to_owned() });
    let service = Service::variant_b().model(&model).start().await;
    let answer = service.health().await;
    let health = report(&answer, 503);
    check_failed(&health["checks"]["llm"]);
    check_passed(&health["checks"]["database"]);
    check_passed(&health["checks"]["redis"]);
    assert_ne!(health["status"], "healthy");
    assert!(!answer.body.contains(model.key()));
    report(&service.readiness().await, 200);
}

/// Waits until a store that is gone is noticed.
async fn unhealthy(service: &Service) -> Answer {
    eventually("a report of 503", async || Some(service.health().await).filter(|answer| answer.status == 503))
        .await
}

#[tokio::test]
async fn a_database_that_is_gone_is_a_503_until_it_is_back() {
    let model = Model::openai().await;
    let mut postgres = Postgres::start().await;
    let service = Service::variant_b().model(&model).postgres(&postgres).start().await;
    report(&service.health().await, 200);
    postgres.pause().await;
    // What the store answered is kept for a second.
    let health = report(&unhealthy(&service).await, 503);
    check_failed(&health["checks"]["database"]);
    check_passed(&health["checks"]["redis"]);
    let ready = report(&service.readiness().await, 503);
    check_failed(&ready["database"]);
    check_passed(&ready["cache"]);
    assert_eq!(ready["initialized"], true);
    assert!(!service.log().to_string().contains("hunter2"), "{}", service.log());
    postgres.resume().await;
    eventually("the database to be back", async || (service.readiness().await.status == 200).then_some(()))
        .await;
    report(&service.health().await, 200);
}

#[tokio::test]
async fn a_redis_that_is_gone_is_a_503_until_it_is_back() {
    let model = Model::openai().await;
    let mut redis = Redis::start().await;
    let service = Service::variant_b().model(&model).redis(&redis).start().await;
    report(&service.readiness().await, 200);
    redis.pause().await;
    let health = report(&unhealthy(&service).await, 503);
    check_failed(&health["checks"]["redis"]);
    check_passed(&health["checks"]["database"]);
    check_failed(&report(&service.readiness().await, 503)["cache"]);
    redis.resume().await;
    eventually("Redis to be back", async || (service.readiness().await.status == 200).then_some(())).await;
    report(&service.health().await, 200);
}

#[tokio::test]
async fn a_redis_that_hangs_fails_its_check_in_time() {
    let model = Model::openai().await;
    let redis = Redis::start().await;
    let service = Service::variant_b().model(&model).redis(&redis).start().await;
    redis.freeze();
    check_failed(&report(&service.readiness().await, 503)["cache"]);
    redis.thaw();
}

#[tokio::test]
async fn probes_need_no_token_and_are_not_limited() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).start().await;
    for _ in 0..120 {
        assert_eq!(service.readiness().await.status, 200);
    }
    assert_eq!(service.health().await.status, 200);
    assert_eq!(
        service.get("/metrics").await.header("content-type"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
}

#[tokio::test]
async fn while_it_drains_the_service_is_not_ready_and_still_serves() {
    let model = Model::openai().await;
    model.always(|_| acceptance::says("hello"));
    let mut service = Service::variant_b().model(&model).env("SHUTDOWN_DRAIN_MS", "2000").start().await;
    service.signal(Signal::TERM);
    eventually("readiness to be denied", async || (service.readiness().await.status == 503).then_some(()))
        .await;
    assert_eq!(service.user(Token::of("u")).result_of("hi").await["output"], "hello");
    assert_eq!(service.ended().await.code, Some(0));
}
