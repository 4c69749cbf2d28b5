//! A script that calls the run's other tools: one model call does what took ten.

use acceptance::{Component, Model, Service, count_tokens, order};
use serde_json::{Value, json};

const TOOLBOX: &str = "toolbox = true";

async fn start(model: &Model) -> Service {
    Service::variant_a()
        .model(model)
        .tools(["calculator", "text-stats"])
        .granting([(&Component::granted("code-eval"), TOOLBOX)])
        .start()
        .await
}

/// What the tool answered, of a run whose model obeyed.
async fn run_code(service: &Service, code: &str) -> (Value, Value) {
    let result = service.result_of(&order("run_code", &json!({ "code": code }))).await;
    let output = result["output"].as_str().unwrap();
    (result["toolCalls"][0]["outcome"].clone(), serde_json::from_str(output).unwrap_or(json!(output)))
}

#[tokio::test]
async fn a_script_has_the_runs_other_tools() {
    let model = Model::obeying().await;
    let service = start(&model).await;
    let sum = "let sum = 0; for (const n of [1, 2, 3]) sum += Number(tools.calculate({expression: `${n}^2`}).value); sum";
    assert_eq!(run_code(&service, sum).await, (json!("ok"), json!({"result": 14})));
    let names = "Object.keys(tools)";
    assert_eq!(run_code(&service, names).await.1["result"], json!(["calculate", "text_stats"]));
    // Itself it cannot call, in no way.
    let (outcome, answer) = run_code(&service, "tools.run_code({code: '1'})").await;
    assert_eq!(outcome, "failed", "{answer}");
    let caught = "try { tools.calculate({expression: '1/0'}) } catch (error) { [error.tool, error.code] }";
    assert_eq!(run_code(&service, caught).await.1["result"], json!(["calculate", "invalid-arguments"]));
}

/// The task of host/docs/tools/scripts.md: one by one, nine steps and an answer take all model calls that a
/// run has; in a script, two, and far fewer tokens.
#[tokio::test]
async fn steps_in_one_script_cost_two_model_calls() {
    let model = Model::openai().await;
    let expressions = (1..=9).map(|n| format!("{n} * 17"));
    for expression in expressions {
        model.asks_for("calculate", json!({ "expression": expression }));
    }
    model.says("done");
    let code = "let all = []; for (let n = 1; n <= 9; n++) all.push(tools.calculate({expression: `${n} * 17`}).value); all";
    let service = start(&model).await;
    let without = service.result_of("multiply").await;
    let calls = model.calls().len();
    assert_eq!((&without["iterations"], calls), (&json!(10), 10), "{without:#}");
    model.asks_for("run_code", json!({ "code": code })).says("done");
    let with = service.result_of("multiply").await;
    assert_eq!((&with["stopReason"], model.calls().len() - calls), (&json!("completed"), 2), "{with:#}");
    let tokens = |bodies: &[acceptance::Request]| -> usize {
        let bodies: Vec<_> = bodies.iter().map(|request| request.body.to_string()).collect();
        count_tokens(&bodies).iter().map(|counts| *counts.values().max().unwrap()).sum()
    };
    let all = model.calls();
    let (before, after) = all.split_at(calls);
    let (one_by_one, in_a_script) = (tokens(before), tokens(after));
    println!("one by one: {} model calls read {one_by_one} tokens", before.len());
    println!("in a script: {} model calls read {in_a_script} tokens", after.len());
    assert!(in_a_script * 3 < one_by_one, "{in_a_script} and {one_by_one}");
}
