//! Calls that wait in their middle, over `kill -9`: a script whose nested call somebody has to approve, and a
//! component that asks (`agent:tool/ask`). They are made again with what they were told before.

use acceptance::{Component, Model, Service, Stores, Token, User, eventually};
use serde_json::{Value, json};

use super::waits::{decide, start_at, wait_of};

/// A sum that is made unasked, and then one that is another one whenever the clock or a random number is:
/// whoever makes the script again without those it had would ask for something else.
const SCRIPT: &str = "const one = tools.calculate({expression: '1 + 1'}).value; const at = Date.now(); const drawn = \
                      Math.random(); const two = tools.calculate({expression: `6 * 7 + 0 * ${at} + 0 * ${drawn}`}).value; \
                      ({one, two, told: at <= Date.now()})";

const ASKS_FIRST: &str =
    "approve = { when = \"always\", pass = '{\"properties\":{\"expression\":{\"const\":\"1 + 1\"}}}' }";

async fn service(stores: &Stores, model: &Model, port: Option<u16>) -> Service {
    let (calculator, scripts) = (Component::shipped("calculator"), Component::granted("code-eval"));
    let asks = Component::misbehaving("asks");
    let builder = stores.service(model).granting([
        (&calculator, ASKS_FIRST),
        (&scripts, "toolbox = true\nlimits = { timeout-ms = 20000 }"),
        (&asks, "ask = true"),
    ]);
    start_at(builder, port).await
}

/// Kills the service, and starts one that has all that the first one left.
async fn again(stores: &Stores, model: &Model, mut service: Service) -> Service {
    let port = service.address().port();
    service.killed().await;
    self::service(stores, model, Some(port)).await
}

async fn decided(user: &User, wait: &Value, decision: Value) {
    let answer = decide(user, wait, &decision).await;
    assert_eq!(answer.status, 200, "{answer}");
}

#[tokio::test]
async fn a_script_waits_for_an_approval_and_goes_on_whoever_is_killed() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
    let token = Token::of("ada");
    model.asks_for("run_code", json!({ "code": SCRIPT })).says("done");
    let first = service(&stores, &model, None).await;
    let job = first.user(&token).job_for("compute").await;
    let wait = wait_of(&first.user(&token), &job).await;
    assert_eq!(wait["within"], json!({ "tool": "run_code", "number": 1 }), "{wait:#}");
    assert_eq!((&wait["kind"], &wait["shown"]["tool"]), (&json!("approval"), &json!("calculate")));
    let shown = wait["shown"]["arguments"]["expression"].as_str().unwrap();
    assert!(shown.starts_with("6 * 7 + 0 * 1"), "{shown}");

    let second = again(&stores, &model, first).await;
    decided(&second.user(&token), &wait, json!({ "decision": "approve" })).await;
    let third = again(&stores, &model, second).await;
    let done = third.user(&token).ended_job(&job).await;
    let call = &done["result"]["toolCalls"][0];
    assert_eq!((&call["outcome"], &done["result"]["output"]), (&json!("ok"), &json!("done")), "{done:#}");
    let told: Value = serde_json::from_str(model.calls()[1].tool_results()[0]).unwrap();
    assert_eq!(told["result"], json!({ "one": "2", "two": "42", "told": true }));
}

#[tokio::test]
async fn a_component_asks_twice_in_one_call_whoever_is_killed() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
    let token = Token::of("ada");
    model.asks_for("order", json!({ "thing": "shoes" })).says("ordered");
    let first = service(&stores, &model, None).await;
    let job = first.user(&token).job_for("order shoes").await;
    let wait = wait_of(&first.user(&token), &job).await;
    assert_eq!(wait["kind"], "question", "{wait:#}");
    assert_eq!(wait["shown"]["arguments"]["question"], "Which colour of shoes?", "{wait:#}");
    assert_eq!((&wait["shown"]["tool"], &wait["answerSchema"]["type"]), (&json!("order"), &json!("string")));
    let unfit = decide(&first.user(&token), &wait, &json!({ "decision": "answer", "answer": 7 })).await;
    assert_eq!(unfit.status, 400, "{unfit}");

    let second = again(&stores, &model, first).await;
    decided(&second.user(&token), &wait, json!({ "decision": "answer", "answer": "blue" })).await;
    let third = again(&stores, &model, second).await;
    let user = third.user(&token);
    let wait = eventually("the second question", async || {
        let job = user.job(&job).await.json();
        let waits = job["waits"].as_array().cloned().unwrap_or_default();
        waits.into_iter().find(|wait| wait["within"]["number"] == 1)
    })
    .await;
    assert_eq!(wait["shown"]["arguments"]["question"], "How many of the blue ones?", "{wait:#}");
    decided(&user, &wait, json!({ "decision": "answer", "answer": 3 })).await;
    user.completed_job(&job, "ordered").await;
    let told: Value = serde_json::from_str(model.calls()[1].tool_results()[0]).unwrap();
    assert_eq!((&told["colour"], &told["count"]), (&json!("blue"), &json!(3)), "{told}");
}

#[tokio::test]
async fn a_component_that_asks_something_else_is_stopped_and_one_nobody_can_answer_refused() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
    model.asks_for("order_something_else", json!({ "thing": "shoes" })).says("not ordered");
    let service = service(&stores, &model, None).await;
    let user = service.user(Token::of("ada"));
    let job = user.job_for("order shoes").await;
    let wait = wait_of(&user, &job).await;
    decided(&user, &wait, json!({ "decision": "answer", "answer": "blue" })).await;
    assert_eq!(user.ended_job(&job).await["result"]["output"], "not ordered");
    let calls = model.calls();
    let told = calls[1].tool_results()[0];
    let expected = "its nested call 0 was another one than before: expected `order_something_else` with \
                    {\"question\":\"Attempt 1: which colour of shoes?\"";
    assert!(told.contains(expected) && told.contains("Attempt 2: which colour"), "{told}");

    let alone = Service::command(&["tools", "call", "order", r#"{"thing": "shoes"}"#]);
    let alone = alone.granting([(&Component::misbehaving("asks"), "ask = true")]).run().await;
    assert_eq!(alone.code, Some(1), "{alone:?}");
    assert!(alone.stdout.contains("denied: this tool asks somebody"), "{alone:?}");
}
