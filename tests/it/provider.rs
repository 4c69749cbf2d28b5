//! The model provider at its worst: what the service does about it, and what callers and logs see of it.

use std::time::Duration;

use acceptance::{Answer, Component, Model, Play, Protocol, Request, ReservedPort, Service, order, says};
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

/// The line of the log about the one request that failed.
async fn failure_in_log(service: &Service) -> String {
    let entry = service.log().entry("the failure", |entry| entry["status"] == 500).await;
    entry["error"].as_str().expect("an error").to_owned()
}

#[tokio::test]
async fn a_provider_that_is_down_is_a_500_and_stands_in_the_log() {
    let nobody = ReservedPort::take();
    let service = Service::variant_a()
        .env("LLM_MODEL", "openai/test-model")
        .env("LLM_API_KEY", "sk-1")
        .env("LLM_BASE_URL", format!("http://{}", nobody.address()))
        .start()
        .await;
    assert_is_internal_error(&service.invoke("hi").await);
    let error = failure_in_log(&service).await;
    assert!(error.contains("could not be reached") && error.contains("refused"), "{error}");
    assert_eq!(service.live().await.status, 200);
}

#[tokio::test]
async fn a_provider_that_does_not_answer_in_time_is_asked_again_and_then_given_up() {
    let model = Model::openai().await;
    model.hangs().hangs();
    let service =
        Service::variant_a().model(&model).env("LLM_TIMEOUT_MS", "200").env("LLM_RETRIES", "1").start().await;
    assert_is_internal_error(&service.invoke("hi").await);
    assert_eq!(model.calls().len(), 2);
    let error = failure_in_log(&service).await;
    assert!(error.contains("did not answer in time"), "{error}");
}

#[tokio::test]
async fn a_provider_that_answers_at_the_second_try_is_no_trouble() {
    for failure in [408, 409, 429, 500, 502, 503, 504, 529] {
        let model = Model::openai().await;
        model.answers(failure, &[("retry-after", "0")], r#"{"error":{"message":"not now"}}"#).says("hello");
        let service = Service::variant_a().model(&model).start().await;
        assert_eq!(service.result_of("hi").await["output"], "hello", "{failure}");
        assert_eq!(model.calls().len(), 2, "{failure}");
    }
}

#[tokio::test]
async fn the_same_question_is_asked_again_in_the_middle_of_a_run() {
    let model = Model::anthropic().await;
    model.asks_for("calculate", json!({ "expression": "1 + 1" }));
    model.answers(529, &[("retry-after", "0")], r#"{"type":"error","error":{"type":"overloaded_error"}}"#);
    model.says("2");
    let service = Service::variant_a().model(&model).start().await;
    let result = service.result_of("1 + 1").await;
    assert_eq!((&result["output"], &result["iterations"]), (&json!("2"), &json!(2)));
    let calls = model.calls();
    assert_eq!(calls[1].body, calls[2].body);
    assert_eq!(result["toolCalls"].as_array().unwrap().len(), 1, "the tool was not called again");
}

#[tokio::test]
async fn the_time_a_provider_asks_for_is_given_to_it() {
    let model = Model::openai().await;
    model.answers(429, &[("retry-after", "1")], "").says("hello");
    let service = Service::variant_a().model(&model).start().await;
    assert_eq!(service.result_of("hi").await["output"], "hello");
    let calls = model.calls();
    let waited = calls[1].came - calls[0].came;
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
}

#[tokio::test]
async fn a_provider_that_asks_for_more_time_than_there_is_is_not_waited_for() {
    let model = Model::openai().await;
    model.answers(429, &[("retry-after", "3600")], "");
    let service = Service::variant_a().model(&model).start().await;
    assert_is_internal_error(&service.invoke("hi").await);
}

#[tokio::test]
async fn a_provider_that_fails_four_times_was_asked_four_times() {
    for failure in [429, 500, 503] {
        let model = Model::openai().await;
        for _ in 0..4 {
            model.answers(failure, &[("retry-after", "0")], r#"{"error":{"message":"out of order"}}"#);
        }
        let service = Service::variant_a().model(&model).start().await;
        assert_is_internal_error(&service.invoke("hi").await);
        // host/docs/interface/errors-and-limits.md#limits: 3 retries. A fifth call would have been one too
        // many.
        assert_eq!(model.calls().len(), 4);
        let error = failure_in_log(&service).await;
        assert!(error.contains("out of order") && error.contains(&failure.to_string()), "{error}");
    }
}

#[tokio::test]
async fn a_refusal_is_not_asked_again() {
    for status in [400, 401, 402, 403, 404, 413, 422] {
        for model in [Model::openai().await, Model::anthropic().await] {
            model.answers(status, &[], r#"{"error":{"message":"we would rather not"}}"#);
            let service = Service::variant_a().model(&model).start().await;
            assert_is_internal_error(&service.invoke("hi").await);
            assert_eq!(model.calls().len(), 1);
            let error = failure_in_log(&service).await;
            assert!(error.contains("we would rather not"), "{error}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_no_reply_is_a_500_and_was_paid_for_once() {
    let unreadable = [
        "<html><body>It works!</body></html>",
        "null",
        "[]",
        r#"{"choices":[{"message":{"content":{"a":1}}}],"content":7}"#,
        r#"{"choices":7,"content":"text"}"#,
        "\u{0}\u{1}\u{2}",
    ];
    for model in [Model::openai().await, Model::anthropic().await] {
        // So many failures in a row would open the circuit.
        let service = Service::variant_a().model(&model).env("CIRCUIT_MIN_VOLUME", "1000").start().await;
        for body in unreadable {
            model.answers(200, &[("content-type", "text/html")], body);
            assert_is_internal_error(&service.invoke("hi").await);
        }
        // A reply that comes whole is not asked for twice, readable or not.
        assert_eq!(model.calls().len(), unreadable.len());
        model.says("hello");
        assert_eq!(service.result_of("hi").await["output"], "hello");
    }
}

#[tokio::test]
async fn no_reply_half_of_one_or_an_error_in_its_place_is_asked_for_again_and_counted() {
    let passing = [
        "",
        "{}",
        r#"{"choices":[{"message":{"cont"#,
        r#"{"choices":[],"content":null}"#,
        r#"{"error":{"message":"overloaded"}}"#,
        r#"{"error":"The model is busy"}"#,
    ];
    for model in [Model::openai().await, Model::anthropic().await] {
        let service = Service::variant_a().model(&model).start().await;
        for body in passing {
            model.answers(200, &[("retry-after", "0")], body).says("hello");
            assert_eq!(service.result_of("hi").await["output"], "hello", "{body}");
        }
        let (metrics, name) = (service.metrics().await, model.name());
        let retries = metrics.value("agent_model_retries_total", &[("model", &name)]);
        assert_eq!(retries, Some(passing.len() as f64));
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
async fn a_call_that_a_model_writes_into_its_text_is_made() {
    for model in [Model::openai().await, Model::anthropic().await] {
        model.says(r#"<tool_call>{"name": "calculate", "arguments": {"expression": "1 + 1"}}</tool_call>"#);
        model.says("It is 2.");
        let service = Service::variant_a().model(&model).start().await;
        let result = service.result_of("1 + 1").await;
        assert_eq!((&result["output"], &result["stopReason"]), (&json!("It is 2."), &json!("completed")));
        assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{result}");
    }
}

#[tokio::test]
async fn half_a_reply_is_asked_for_again() {
    for model in [Model::openai().await, Model::anthropic().await] {
        model.cuts_body().says("hello");
        let service = Service::variant_a().model(&model).start().await;
        assert_eq!(service.result_of("hi").await["output"], "hello");
        assert_eq!(model.calls().len(), 2);
    }
}

#[tokio::test]
async fn a_reply_that_does_not_end_is_given_up() {
    let model = Model::openai().await;
    model.plays(Play::Endless).says("hello");
    let service = Service::variant_a().model(&model).start().await;
    assert_is_internal_error(&service.invoke("hi").await);
    assert_eq!(service.result_of("hi").await["output"], "hello");
}

#[tokio::test]
async fn a_redirect_is_not_followed_for_it_would_take_the_key_along() {
    let (model, elsewhere) = (Model::openai().await, Model::openai().await);
    for status in [301, 302, 307, 308] {
        let location = format!("{}/v1/chat/completions", elsewhere.base_url());
        model.answers(status, &[("location", &location)], "");
        let service = Service::variant_a().model(&model).start().await;
        assert_is_internal_error(&service.invoke("hi").await);
    }
    assert_eq!((model.calls().len(), elsewhere.calls().len()), (4, 0));
}

#[tokio::test]
async fn a_reply_without_usage_is_estimated() {
    let model = Model::openai().await;
    let reply = r#"{"choices":[{"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}"#;
    model.answers(200, &[], reply);
    let service = Service::variant_a().model(&model).start().await;
    let usage = &service.result_of("hi").await["usage"];
    let tokens = |kind: &str| usage[kind].as_u64().unwrap();
    assert!(tokens("inputTokens") > 0 && tokens("outputTokens") > 0, "{usage}");
    assert_eq!(tokens("totalTokens"), tokens("inputTokens") + tokens("outputTokens"));
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
    service
        .log()
        .entry("a warning that the second one is asked", |entry| {
            entry["level"] == "WARN" && entry["fallback"] == second.name().as_str()
        })
        .await;
}

#[tokio::test]
async fn the_second_provider_takes_over_from_one_that_refuses_or_is_down() {
    let (refusing, second) = (Model::anthropic().await, Model::openai().await);
    refusing.answers(401, &[], r#"{"error":{"message":"invalid x-api-key"}}"#);
    second.says("hello");
    let service = Service::variant_a().model(&refusing).second_model(&second).start().await;
    let result = service.result_of("hi").await;
    assert_eq!((&result["output"], &result["model"]), (&json!("hello"), &json!(second.name())));

    let nobody = ReservedPort::take();
    second.says("hello again");
    let service = Service::variant_a()
        .model(&refusing)
        .env("LLM_BASE_URL", format!("http://{}", nobody.address()))
        .env("LLM_RETRIES", "0")
        .second_model(&second)
        .start()
        .await;
    assert_eq!(service.result_of("hi").await["output"], "hello again");
}

#[tokio::test]
async fn a_first_provider_that_hangs_leaves_time_for_the_second() {
    let (first, second) = (Model::openai().await, Model::anthropic().await);
    first.hangs();
    second.says("hello");
    let service = Service::variant_a()
        .model(&first)
        .second_model(&second)
        .env("AGENT_TIMEOUT_MS", "3000")
        .start()
        .await;
    assert_eq!(service.result_of("hi").await["output"], "hello");
}

#[tokio::test]
async fn two_providers_that_both_fail_are_a_500() {
    let (first, second) = (Model::openai().await, Model::openai().await);
    first.answers(401, &[], "");
    second.answers(403, &[], "");
    let service = Service::variant_a().model(&first).second_model(&second).start().await;
    assert_is_internal_error(&service.invoke("hi").await);
}

#[tokio::test]
async fn an_agent_that_takes_longer_than_it_may_is_a_500() {
    let model = Model::openai().await;
    model.asks_for("calculate", json!({ "expression": "1 + 1" })).hangs();
    let service = Service::variant_a().model(&model).env("AGENT_TIMEOUT_MS", "500").start().await;
    assert_is_internal_error(&service.invoke("hi").await);
    assert_eq!(model.calls().len(), 2);
    let metrics = service.metrics().await;
    assert_eq!(metrics.value("agent_active_requests", &[]), Some(0.0));
}

#[tokio::test]
async fn an_agent_whose_tool_takes_longer_than_it_may_is_a_500() {
    let model = Model::openai().await;
    model.obeys();
    let service = Service::variant_a()
        .model(&model)
        .tools([Component::misbehaving("misbehaving")])
        .env("AGENT_TIMEOUT_MS", "500")
        .env("TOOL_TIMEOUT_MS", "60000")
        .start()
        .await;
    assert_is_internal_error(&service.invoke(&order("loop_forever", &json!({}))).await);
    assert_eq!(service.result_of(&order("echo", &json!({ "value": 1 }))).await["output"], r#"{"value":1}"#);
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

#[tokio::test]
async fn a_parameter_that_a_model_does_not_take_is_left_out_from_then_on() {
    let model = Model::openai().await;
    let message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    let body =
        json!({ "error": { "message": message, "param": "max_tokens", "code": "unsupported_parameter" } });
    model.answers(400, &[], &body.to_string()).says("one").says("two");
    let service = Service::variant_a().model(&model).start().await;
    assert_eq!(service.result_of("hi").await["output"], "one");
    assert_eq!(service.result_of("hi").await["output"], "two");
    let named = |request: &Request| request.body.get("max_completion_tokens").is_some();
    assert_eq!(model.calls().iter().map(named).collect::<Vec<_>>(), [false, true, true]);
}

#[tokio::test]
async fn a_reply_as_long_as_a_reply_can_be_is_passed_on_whole() {
    let model = Model::openai().await;
    let long = "0123456789".repeat(100_000);
    model.says(&long);
    let service = Service::variant_a().model(&model).start().await;
    assert_eq!(service.result_of("hi").await["output"].as_str().unwrap().len(), long.len());
}

#[tokio::test]
async fn a_reply_that_was_cut_off_says_so() {
    let model = Model::openai().await;
    let reply = json!({
        "choices": [{ "message": { "role": "assistant", "content": "It was a dark and" }, "finish_reason": "length" }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5 },
    });
    model.answers(200, &[], &reply.to_string());
    let service = Service::variant_a().model(&model).start().await;
    let result = service.result_of("hi").await;
    assert_eq!(
        (&result["stopReason"], &result["output"]),
        (&json!("max_tokens"), &json!("It was a dark and"))
    );
}

#[tokio::test]
async fn the_protocol_follows_from_the_models_name() {
    for (name, protocol) in [("gpt-4o-mini", Protocol::OpenAi), ("claude-sonnet-4", Protocol::Anthropic)] {
        let model = match protocol {
            Protocol::OpenAi => Model::openai().await,
            Protocol::Anthropic => Model::anthropic().await,
        };
        model.is_called(name).says("hello");
        let service = Service::variant_a().model(&model).env("LLM_MODEL", name).start().await;
        assert_eq!(service.result_of("hi").await["output"], "hello");
        assert_eq!(model.calls()[0].body["model"], name);
    }
}
