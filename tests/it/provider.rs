//! The model provider at its worst, as callers, logs and metrics of a service see it. What is asked again,
//! refused or given up is tested in `host/model-client`.

use acceptance::{Answer, Component, Model, Play, Service, Token, order, says};
use insta::{allow_duplicates, assert_snapshot};
use serde_json::json;

/// What every caller sees of every failure of the agent (host/docs/interface/errors-and-limits.md#errors).
fn assert_is_internal_error(answer: &Answer) {
    allow_duplicates! {
        assert_snapshot!(answer, @r#"
        500 application/json; charset=utf-8
        {"error":"Internal server error"}
        "#);
    }
}

#[tokio::test]
async fn a_tool_that_a_provider_refuses_costs_that_tool_and_not_the_service() {
    for model in [Model::openai().await, Model::anthropic().await] {
        // As llama.cpp does: whatever is asked, as long as the tool is shown.
        model.always(|request| match request.tools().contains(&"json_query") {
            true => Play::Whole {
                status: 400,
                headers: vec![],
                body: r#"{"error":{"code":400,"message":"JSON schema conversion failed:\nUnrecognized schema"}}"#.into(),
            },
            false => says("hello"),
        });
        model.expects_any_tools();
        let tools = ["calculator", "json-query", "text-stats"];
        let service = Service::variant_a().model(&model).tools(tools).start().await;
        for _ in 0..2 {
            assert_eq!(service.result_of("hi").await["output"], "hello");
        }
        let calls = model.calls();
        let last = calls.last().unwrap().tools();
        assert!(!last.contains(&"json_query") && last.contains(&"calculate"), "{last:?}");
        let entry = service
            .log()
            .entry("the tool that is refused", |entry| {
                entry["level"] == "WARN" && entry["tools"] == "json_query"
            })
            .await;
        assert!(entry["provider_said"].to_string().contains("Unrecognized schema"), "{entry}");
        let name = model.name();
        let metrics = service.metrics().await;
        assert_eq!(metrics.value("agent_model_refused_tools", &[("model", &name)]), Some(1.0));
    }
}

#[tokio::test]
async fn the_second_provider_takes_over_when_the_first_ones_retries_are_used_up() {
    let (first, second) = (Model::openai().await, Model::anthropic().await);
    for _ in 0..4 {
        first.answers(503, &[("retry-after", "0")], "");
    }
    second.asks_for("calculate", json!({ "expression": "1 + 1" }));
    first.says("It is 2, says the first.");
    let service = Service::variant_a().model(&first).second_model(&second).start().await;
    let result = service.result_of("1 + 1").await;
    // Each question goes to the first one first, and the conversation fits into either protocol.
    assert_eq!(result["output"], "It is 2, says the first.");
    assert_eq!(result["model"], first.name().as_str());
    assert_eq!((first.calls().len(), second.calls().len()), (5, 1));
    assert_eq!(first.calls()[4].tool_results().len(), 1);
    let metrics = service.metrics().await;
    assert_eq!(metrics.value("agent_model_circuit_state", &[("model", &first.name())]), Some(0.0));
    assert_eq!(metrics.value("agent_model_retries_total", &[("model", &first.name())]), Some(3.0));
    // Each attempt is a call.
    let calls = |outcome| {
        metrics.value("agent_model_calls_total", &[("model", "openai/test-model"), ("outcome", outcome)])
    };
    assert_eq!((calls("ok"), calls("unavailable"), calls("timeout")), (Some(1.0), Some(4.0), Some(0.0)));
    let tokens =
        |kind| metrics.value("agent_model_tokens_total", &[("model", "openai/test-model"), ("kind", kind)]);
    assert_eq!((tokens("input"), tokens("output")), (Some(100.0), Some(10.0)));
    service
        .log()
        .entry("a warning that the second one is asked", |entry| {
            entry["level"] == "WARN" && entry["fallback"] == second.name().as_str()
        })
        .await;
}

#[tokio::test]
async fn an_agent_whose_model_or_tool_takes_longer_than_it_may_is_a_500() {
    let model = Model::openai().await;
    model.asks_for("calculate", json!({ "expression": "1 + 1" })).hangs();
    model.obeys();
    let service = Service::variant_a()
        .model(&model)
        .tool(Component::misbehaving("misbehaving"))
        .env("AGENT_TIMEOUT_MS", "500")
        .env("TOOL_TIMEOUT_MS", "60000")
        .start()
        .await;
    assert_is_internal_error(&service.invoke("hi").await);
    assert_eq!(model.calls().len(), 2);
    let metrics = service.metrics().await;
    assert_eq!(metrics.value("agent_active_requests", &[]), Some(0.0));

    assert_is_internal_error(&service.invoke(&order("loop_forever", &json!({}))).await);
    assert_eq!(service.result_of(&order("echo", &json!({ "value": 1 }))).await["output"], r#"{"value":1}"#);
}

/// The wait is the provider's; the windows are the caller's and have room.
#[tokio::test]
async fn a_providers_429_does_not_look_like_the_callers_and_is_told_to_the_operator() {
    let model = Model::openai().await;
    model.answers(429, &[("retry-after", "3600"), ("x-ratelimit-remaining", "0")], "");
    let service = Service::variant_b().model(&model).start().await;
    let answer = service.user(Token::of("u")).agent("hi").await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, "3600"), "{answer}");
    assert_eq!((answer.header("ratelimit-remaining"), answer.header("x-ratelimit-remaining")), ("99", "9"));
    let line = service.log().entry("the failure", |entry| entry["status"] == 429).await;
    let said = line["error"].to_string();
    assert!(said.contains("the model provider openai/test-model limits our rate"), "{line}");
    let metrics = service.metrics().await;
    let limited = [("model", "openai/test-model"), ("outcome", "rate_limited")];
    assert_eq!(metrics.value("agent_model_calls_total", &limited), Some(1.0));
    assert_eq!(metrics.value("agent_rate_limited_total", &[("window", "user")]), Some(0.0));
}

#[tokio::test]
async fn keys_never_appear_in_answers_metrics_or_logs() {
    let (first, second) = (Model::openai().await, Model::anthropic().await);
    let service = Service::variant_a()
        .model(&first)
        .second_model(&second)
        .env("LOG_LEVEL", "debug")
        .env("LLM_RETRIES", "0")
        .start()
        .await;
    let mut seen = String::new();
    for model in [&first, &second] {
        // Providers do quote the key they refuse.
        let body = json!({ "error": { "message": format!("Incorrect API key provided: {}", model.key()) } });
        let header = format!("req-{}", model.key());
        model.answers(401, &[("x-request-id", &header)], &body.to_string());
        model.answers(500, &[], &format!("Internal error while checking {}", model.key()));
        model.answers(200, &[], model.key());
        model.checks_play(Play::Whole { status: 401, headers: vec![], body: body.to_string() });
    }
    for _ in 0..3 {
        seen.push_str(&service.invoke("hi").await.to_string());
    }
    seen.push_str(&service.ready().await.to_string());
    seen.push_str(&service.get("/metrics").await.to_string());
    seen.push_str(&service.log().to_string());
    assert!(seen.contains("Incorrect API key provided"), "the log quotes the provider: {seen}");
    for model in [&first, &second] {
        assert!(!seen.contains(model.key()), "a key was let out: {seen}");
    }
}
