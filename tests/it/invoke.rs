//! `POST /agent/invoke`: how a run goes on, and what ends it.

use acceptance::{
    Component, Model, Play, Request, Service, Socket, Task, asks_for, asks_for_all, order, says,
};
use serde_json::{Value, json};

#[tokio::test]
async fn a_service_without_tools_answers_all_the_same() {
    let model = Model::openai().await;
    model.expects_no_tools().says("hello");
    let service = Service::variant_a().model(&model).tools([] as [&str; 0]).start().await;
    let result = service.result_of("hi").await;
    assert_eq!((&result["output"], &result["toolCalls"]), (&json!("hello"), &json!([])));
}

/// One call that cannot be made: what the model is told, and how the receipt ends.
async fn check_refusal(model: &Model, service: &Service, outcome: &str, told: &str) -> Value {
    model.says("I see.");
    let result = service.result_of("go").await;
    assert_eq!(result["toolCalls"][0]["outcome"], outcome, "{result:#}");
    assert_eq!((&result["stopReason"], &result["output"]), (&json!("completed"), &json!("I see.")));
    let content = result["messages"][2]["content"].as_str().unwrap();
    assert!(content.starts_with("Error: ") && content.contains(told), "{content}");
    assert_eq!(model.calls().last().unwrap().tool_results(), [content]);
    result["toolCalls"][0].clone()
}

#[tokio::test]
async fn an_unknown_tool_is_an_answer_to_the_model_and_no_error() {
    for model in [Model::openai().await, Model::anthropic().await] {
        let service = Service::variant_a().model(&model).start().await;
        model.asks_for("fly_to_the_moon", json!({ "speed": 11 }));
        let receipt = check_refusal(&model, &service, "unknown_tool", "calculate").await;
        assert_eq!(
            receipt,
            json!({ "name": "fly_to_the_moon", "durationMs": 0.0, "outcome": "unknown_tool" })
        );
    }
}

#[tokio::test]
async fn a_tool_name_that_no_provider_would_take_back_does_not_end_the_conversation() {
    for model in [Model::openai().await, Model::anthropic().await] {
        let service = Service::variant_a().model(&model).start().await;
        model.asks_for("functions.calculate: 1 + 1", json!({}));
        check_refusal(&model, &service, "unknown_tool", "calculate").await;
    }
}

#[tokio::test]
async fn arguments_that_are_not_json_are_an_answer_to_the_model() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).start().await;
    for arguments in [r#"{"expression": "1 +"#, "1 + 1", "[1]", "\"text\"", "null"] {
        // OpenAI's arguments travel as text, and a model can write anything.
        model.asks_for("calculate", json!(arguments));
        check_refusal(&model, &service, "invalid_arguments", "not a JSON object").await;
    }
}

#[tokio::test]
async fn arguments_that_do_not_match_the_schema_never_reach_the_tool() {
    for model in [Model::openai().await, Model::anthropic().await] {
        let service = Service::variant_a().model(&model).start().await;
        for arguments in [json!({}), json!({ "expression": 5 }), json!({ "expression": "1", "precision": 3 })]
        {
            model.asks_for("calculate", arguments);
            check_refusal(&model, &service, "invalid_arguments", "invalid arguments").await;
        }
    }
}

#[tokio::test]
async fn a_tools_own_failure_is_an_answer_to_the_model() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).start().await;
    model.asks_for("calculate", json!({ "expression": "1 / 0" }));
    check_refusal(&model, &service, "failed", "at character").await;
}

/// Asks for another sum every time.
fn another_sum(request: &Request) -> Play {
    asks_for("calculate", json!({ "expression": format!("1 + {}", request.tool_results().len()) }))
}

#[tokio::test]
async fn eleven_tool_calls_in_a_row_stop_after_ten_model_calls_with_what_there_is() {
    let model = Model::openai().await;
    model.always(another_sum);
    let service = Service::variant_a().model(&model).start().await;
    let result = service.result_of("count for ever").await;
    assert_eq!(model.calls().len(), 10);
    assert_eq!((&result["iterations"], &result["stopReason"]), (&json!(10), &json!("max_iterations")));
    assert_eq!(result["usage"]["totalTokens"], 1100);
    let outcomes: Vec<_> =
        result["toolCalls"].as_array().unwrap().iter().map(|call| call["outcome"].clone()).collect();
    assert_eq!(outcomes[..9], ["ok"; 9]);
    // Nobody would read what the tenth returns, and the transcript is whole all the same.
    assert_eq!(outcomes[9..], ["not_run"]);
    let messages = result["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 1 + 10 + 10);
    assert_eq!(messages.last().unwrap()["role"], "tool");
}

/// host/docs/interface/decisions-runs.md#how-a-run-ends.
async fn check_last_call_by_iterations(model: Model) {
    for n in 0..9 {
        model.asks_for("calculate", json!({ "expression": format!("1 + {n}") }));
    }
    model.says("done");
    let service = Service::variant_a().model(&model).start().await;
    let result = service.result_of("count to ten").await;
    assert_eq!((&result["iterations"], &result["stopReason"]), (&json!(10), &json!("max_iterations")));
    assert_eq!(result["output"], "done");
    let calls = model.calls();
    for call in &calls[..9] {
        assert_ne!(call.tool_choice(), Some("none"));
    }
    assert_eq!((calls[9].tool_choice(), calls[9].tools()), (Some("none"), calls[0].tools()));
}

#[tokio::test]
async fn the_tenth_openai_call_is_asked_for_words_only() {
    check_last_call_by_iterations(Model::openai().await).await;
}

#[tokio::test]
async fn the_tenth_anthropic_call_is_asked_for_words_only() {
    check_last_call_by_iterations(Model::anthropic().await).await;
}

#[tokio::test]
async fn a_run_whose_budget_allows_for_one_more_call_ends_in_words() {
    let model = Model::openai().await;
    // 3,200 of 8,000 are used, and the next call reads those 3,200 again: a third one would not fit.
    model.plays(asks_for("calculate", json!({ "expression": "1 + 1" })).using(3_000, 200)).says("It is 2.");
    let service = Service::variant_a().model(&model).env("TOKEN_BUDGET_PER_REQUEST", "8000").start().await;
    let result = service.result_of("1 + 1").await;
    assert_eq!((&result["stopReason"], &result["output"]), (&json!("token_budget"), &json!("It is 2.")));
    let calls = model.calls();
    assert_eq!((calls[0].tool_choice(), calls[1].tool_choice()), (None, Some("none")));
    assert_eq!(calls[1].tools(), calls[0].tools());
}

/// host/docs/interface/decisions-runs.md#how-a-run-ends.
#[tokio::test]
async fn a_reply_without_words_is_asked_for_once_more() {
    for model in [Model::openai().await, Model::anthropic().await] {
        let service = Service::variant_a().model(&model).start().await;
        model.says("").says("hello");
        let result = service.result_of("hi").await;
        assert_eq!((&result["output"], &result["stopReason"]), (&json!("hello"), &json!("completed")));
        assert_eq!((&result["iterations"], &result["usage"]["totalTokens"]), (&json!(2), &json!(220)));
        let calls = model.calls();
        assert_eq!(calls[0].body["messages"], calls[1].body["messages"]);
        model.says("").says("");
        let result = service.result_of("hi").await;
        assert_eq!((&result["output"], &result["stopReason"]), (&json!(""), &json!("empty_reply")));
        assert_eq!(model.calls().len(), 4);
    }
}

#[tokio::test]
async fn a_model_that_repeats_a_call_for_the_same_answer_is_told_so() {
    let model = Model::openai().await;
    for _ in 0..4 {
        model.asks_for("calculate", json!({ "expression": "1 + 1" }));
    }
    model.says("Two, then.");
    let service = Service::variant_a().model(&model).start().await;
    let result = service.result_of("1 + 1").await;
    assert_eq!((&result["output"], &result["stopReason"]), (&json!("Two, then."), &json!("completed")));
    let outcomes: Vec<_> =
        result["toolCalls"].as_array().unwrap().iter().map(|call| text(&call["outcome"])).collect();
    assert_eq!(outcomes, ["ok", "ok", "not_run", "not_run"]);
    let told = model.calls();
    let told = told.last().unwrap().tool_results();
    assert!(told[2].contains("got the same answer both times"), "{told:?}");
    let ran = [("tool", "calculate"), ("outcome", "ok")];
    assert_eq!(service.metrics().await.value("agent_tool_calls_total", &ran), Some(2.0));
}

#[tokio::test]
async fn an_answer_that_the_budget_has_no_room_for_is_an_answer_that_says_so() {
    let model = Model::openai().await;
    let service =
        Service::variant_a().model(&model).tool(Component::misbehaving("misbehaving")).start().await;
    model.asks_for("echo", json!({ "value": "x".repeat(60_000) }));
    model.asks_for("echo", json!({ "value": "less" })).says("done");
    let result = service.result_of("echo").await;
    assert_eq!((&result["output"], &result["stopReason"]), (&json!("done"), &json!("completed")));
    let (long, short) = (&result["toolCalls"][0], &result["toolCalls"][1]);
    assert_eq!((&long["outcome"], &short["outcome"]), (&json!("output_limit"), &json!("ok")));
    let told = text(&result["messages"][2]["content"]);
    assert!(
        told.starts_with("Error: the answer had about 20010 tokens and there is room for about"),
        "{told}"
    );
}

#[tokio::test]
async fn more_calls_than_anybody_needs_are_not_made() {
    let model = Model::openai().await;
    let sum = |n: u32| ("calculate", json!({ "expression": format!("1 + {n}") }));
    model.plays(asks_for_all((0..40).map(sum))).says("done");
    let service = Service::variant_a().model(&model).env("TOKEN_BUDGET_PER_REQUEST", "100000").start().await;
    let result = service.result_of("forty sums").await;
    let calls = result["toolCalls"].as_array().unwrap();
    let count = |outcome: &str| calls.iter().filter(|call| call["outcome"] == outcome).count();
    assert_eq!((calls.len(), count("ok"), count("not_run")), (40, 32, 8));
    assert!(text(&result["messages"][41]["content"]).contains("too many calls in one reply"));
}

#[tokio::test]
async fn a_model_call_that_does_not_fit_into_the_token_budget_is_not_made() {
    let model = Model::openai().await;
    model.plays(asks_for("calculate", json!({ "expression": "1 + 1" })).using(5_000, 300));
    let service = Service::variant_a().model(&model).start().await;
    let result = service.result_of("spend it all").await;
    // 5300 of 10000 are used, and the next call would read 5300 more.
    assert_eq!((&result["iterations"], &result["stopReason"]), (&json!(1), &json!("token_budget")));
    assert_eq!(result["usage"]["totalTokens"], 5_300);
    // Nobody would read what the tool says.
    assert_eq!(result["toolCalls"][0]["outcome"], "not_run");
    assert_eq!(model.calls().len(), 1);
}

#[tokio::test]
async fn max_tokens_is_clamped_to_what_is_left_of_the_budget() {
    let model = Model::openai().await;
    model.plays(asks_for("calculate", json!({ "expression": "1 + 1" })).using(1_000, 200)).says("2");
    let service = Service::variant_a().model(&model).env("TOKEN_BUDGET_PER_REQUEST", "4000").start().await;
    service.result_of("1 + 1").await;
    let allowed: Vec<_> = model.calls().iter().map(Request::max_tokens).collect();
    assert!((1..4_000).contains(&allowed[0]), "{allowed:?}");
    // 1200 are used and at least 1200 are going to be read.
    assert!((1..=1_600).contains(&allowed[1]), "{allowed:?}");
}

#[tokio::test]
async fn a_budget_too_small_for_any_call_is_no_error() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).env("TOKEN_BUDGET_PER_REQUEST", "1").start().await;
    let result = service.result_of("hi").await;
    assert_eq!((&result["iterations"], &result["stopReason"]), (&json!(0), &json!("token_budget")));
    assert_eq!(result["output"], "");
    assert_eq!(result["messages"], json!([{ "role": "user", "content": "hi" }]));
}

#[tokio::test]
async fn variant_a_has_no_options() {
    let model = Model::openai().await;
    model.says("one").says("two");
    let service = Service::variant_a().model(&model).start().await;
    service.result_of("hi").await;
    let body =
        json!({ "input": "hi", "options": { "maxTokens": 100, "temperature": 1.5 }, "temperature": 2 });
    assert_eq!(service.post("/agent/invoke", body.to_string()).await.status, 200);
    // The temperature of 0 is a rule of the model's.
    let calls = model.calls();
    assert_eq!(calls[0].max_tokens(), calls[1].max_tokens());
}

#[tokio::test]
async fn requests_at_the_same_time_do_not_wait_for_one_another() {
    let model = Model::openai().await;
    let gate = model.holds(says("late"));
    model.says("early");
    let service = Service::variant_a().model(&model).start().await;
    let caller = service.caller();
    let slow = Task::begin(async move { caller.result_of("slow").await });
    model.was_asked(1).await;
    assert_eq!(service.result_of("quick").await["output"], "early");
    gate.open();
    assert_eq!(slow.ended().await["output"], "late");
}

#[tokio::test]
async fn a_hundred_runs_at_once_get_each_their_own_result() {
    let model = Model::openai().await;
    model.obeys();
    let service = Service::variant_a().model(&model).start().await;
    let runs = (0..100).map(|n| {
        let caller = service.caller();
        let call = order("calculate", &json!({ "expression": format!("{n} * 7") }));
        (n, Task::begin(async move { caller.result_of(&call).await }))
    });
    for (n, run) in runs.collect::<Vec<_>>() {
        let result = run.ended().await;
        let output: Value = serde_json::from_str(result["output"].as_str().unwrap()).unwrap();
        assert_eq!(output["value"], (n * 7).to_string());
    }
}

#[tokio::test]
async fn a_caller_who_goes_away_stops_the_run() {
    let model = Model::openai().await;
    let gate = model.holds(asks_for("calculate", json!({ "expression": "1 + 1" })));
    let service = Service::variant_a().model(&model).start().await;
    let mut socket = Socket::connect(service.address()).await;
    let body = r#"{"input":"hi"}"#;
    socket
        .send(format!(
            "POST /agent/invoke HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    model.was_asked(1).await;
    drop(socket);
    service.log().entry("the line of the request", |entry| entry["status"] == 499).await;
    // The model would now be asked again, and has no answer for that.
    gate.open();
    assert_eq!(service.metrics().await.value("agent_active_requests", &[]), Some(0.0));
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
