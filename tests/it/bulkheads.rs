//! The circuit breaker and the places for agents, which all variants share.

use acceptance::{Model, Play, Service, Task, Token, says};
use reqwest::Method;

const INTERNAL_ERROR: &str = r#"{"error":"Internal server error"}"#;

/// host/docs/interface/decisions-http.md#capacity-and-time: Variant A stands behind the circuit, and answers
/// 500 as its table says.
#[tokio::test]
async fn after_failures_the_circuit_opens_and_the_model_is_left_alone() {
    let model = Model::openai().await;
    model.always(|_| Play::Whole { status: 500, headers: vec![], body: String::new() });
    let service = Service::variant_a().model(&model).env("LLM_RETRIES", "0").start().await;
    let closed = service.metrics().await;
    assert_eq!(closed.value("agent_circuit_state", &[]), Some(0.0));
    for _ in 0..8 {
        assert_eq!(service.invoke("hi").await.body, INTERNAL_ERROR);
    }
    assert_eq!(model.calls().len(), 5);
    let metrics = service.metrics().await;
    let runs =
        |outcome, reason| metrics.value("agent_runs_total", &[("outcome", outcome), ("reason", reason)]);
    assert_eq!(runs("failed", "model_unavailable"), Some(5.0));
    assert_eq!(runs("rejected", "circuit_open"), Some(3.0));
    assert_eq!(metrics.value("agent_circuit_state", &[]), Some(2.0));
    assert_eq!(metrics.value("agent_circuit_opened_total", &[]), Some(1.0));
    // host/docs/interface/errors-and-limits.md#metrics: rejected ones invoke no agent.
    assert_eq!(metrics.value("agent_invocations_total", &[]), Some(5.0));
}

/// host/docs/interface/decisions-http.md#capacity-and-time: the same places, and each variant's own answer.
#[tokio::test]
async fn both_variants_share_their_agents() {
    let model = Model::openai().await;
    let gate = model.holds(says("held"));
    let service = Service::both_variants()
        .model(&model)
        .env("MAX_CONCURRENT_AGENTS", "1")
        .env("ADMISSION_WAIT_MS", "50")
        .start()
        .await;
    let caller = service.caller();
    let held = Task::begin(async move { caller.invoke("held").await.status });
    model.was_asked(1).await;
    let a = service.invoke("turned away").await;
    assert_eq!((a.status, a.body.as_str()), (500, INTERNAL_ERROR));
    let b = service.user(Token::of("u")).agent("turned away").await;
    assert_eq!((b.status, b.body.as_str()), (503, r#"{"error":"Service temporarily unavailable"}"#));
    let metrics = service.metrics().await;
    assert_eq!(metrics.value("agent_admission_in_use", &[]), Some(1.0));
    assert_eq!(metrics.value("agent_runs_total", &[("reason", "busy")]), Some(2.0));
    // Who asked for events has them only of a run that began.
    let streamed = service.request(Method::POST, "/agent/invoke").header("accept", "text/event-stream");
    let streamed = service.send(streamed.body(r#"{"input":"turned away"}"#)).await;
    assert_eq!((streamed.status, streamed.body.as_str()), (500, INTERNAL_ERROR));
    gate.open();
    assert_eq!(held.ended().await, 200);
}
