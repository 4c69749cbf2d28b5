//! Tools that loop, trap, devour and lie: each is an answer to the model, and nobody else notices. What the
//! sandbox does about each, and about many at once, is tested in `host/tool-host`.

use acceptance::{Component, Model, Service, Task, order};
use futures::future::join_all;
use serde_json::{Value, json};

/// One behaviour: the tool, its arguments, how the call ends, and what the model is told.
type Behaviour = (&'static str, Value, &'static str, &'static str);

/// All that `guest-tools/misbehaving` does, the well-behaved controls included.
fn behaviours() -> Vec<Behaviour> {
    let crashed = "Error: the tool crashed.";
    let late = "Error: the tool did not finish within 1000 ms and was stopped.";
    let greedy = "Error: the tool needed more memory than it may have (64 MiB) and was stopped.";
    let long = "Error: the tool returned more than 1048576 bytes. Ask it for less.";
    let lie = "Error: the tool returned something that does not match its own description.";
    vec![
        ("loop_forever", json!({}), "timed_out", late),
        (
            "loop_past_its_timeout",
            json!({}),
            "timed_out",
            "Error: the tool did not finish within 50 ms and was stopped.",
        ),
        ("allocate_forever", json!({}), "memory_limit", greedy),
        ("recurse_forever", json!({}), "trapped", crashed),
        ("trap", json!({}), "trapped", crashed),
        ("trap", json!({ "by": "panic" }), "trapped", crashed),
        ("trap", json!({ "by": "out-of-bounds" }), "trapped", crashed),
        ("return_100_mb", json!({}), "memory_limit", greedy),
        ("return_100_mb", json!({ "mb": 20 }), "output_limit", long),
        ("return_bad_json", json!({}), "invalid_output", lie),
        ("return_wrong_shape", json!({}), "invalid_output", lie),
        ("fail", json!({ "message": "no\nsuch thing" }), "failed", "Error: unavailable: no\\nsuch thing"),
        ("flood_log", json!({ "lines": 500, "bytes": 5000 }), "ok", r#"{"lines":500,"bytes":5000}"#),
        ("count_calls", json!({}), "ok", r#"{"calls":1}"#),
        ("echo", json!({ "value": [1, "two"] }), "ok", r#"{"value":[1,"two"]}"#),
    ]
}

async fn start(model: &Model) -> Service {
    model.obeys();
    Service::variant_a()
        .model(model)
        .tool(Component::misbehaving("misbehaving"))
        .env("TOOL_TIMEOUT_MS", "1000")
        .start()
        .await
}

/// The run is whole, and the model was told what it should be.
fn check(result: &Value, (tool, arguments, outcome, told): &Behaviour) {
    let what = format!("{tool} {arguments}: {result:#}");
    assert_eq!(result["toolCalls"][0]["outcome"], *outcome, "{what}");
    assert_eq!(result["output"], *told, "{what}");
    assert_eq!((&result["stopReason"], &result["iterations"]), (&json!("completed"), &json!(2)), "{what}");
}

#[tokio::test]
async fn nine_healthy_requests_beside_any_misbehaviour_succeed() {
    let model = Model::openai().await;
    let service = start(&model).await;
    for behaviour in behaviours() {
        let caller = service.caller();
        let bad_order = order(behaviour.0, &behaviour.1);
        let bad = Task::begin(async move { caller.result_of(&bad_order).await });
        let healthy = (0..9).map(|n| check_health(&service, n));
        tokio::join!(join_all(healthy), async { assert_eq!(service.live().await.status, 200) });
        check(&bad.ended().await, &behaviour);
    }
}

/// A request that has nothing to do with the trouble.
async fn check_health(service: &Service, n: u64) {
    let arguments = json!({ "expression": format!("{n} * 1000") });
    let result = service.result_of(&order("calculate", &arguments)).await;
    assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{result:#}");
    let value: Value = serde_json::from_str(result["output"].as_str().unwrap()).unwrap();
    assert_eq!(value["value"], (n * 1000).to_string());
}

#[tokio::test]
async fn memory_and_output_limits_can_be_set() {
    let model = Model::obeying().await;
    let service = Service::variant_a()
        .model(&model)
        .tools([Component::misbehaving("misbehaving")])
        .env("TOOL_MEMORY_BYTES", "4194304")
        .env("TOOL_OUTPUT_BYTES", "1000")
        .env("TOOL_FUEL_METERING", "on")
        .start()
        .await;
    let told =
        async |tool, arguments: Value| service.result_of(&order(tool, &arguments)).await["output"].clone();
    let answer = told("allocate_forever", json!({})).await;
    assert_eq!(answer, "Error: the tool needed more memory than it may have (4 MiB) and was stopped.");
    let answer = told("echo", json!({ "value": "x".repeat(1000) })).await;
    assert_eq!(answer, "Error: the tool returned more than 1000 bytes. Ask it for less.");
    assert_eq!(told("echo", json!({ "value": 1 })).await, r#"{"value":1}"#);
}
