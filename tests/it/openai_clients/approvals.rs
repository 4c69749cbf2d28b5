//! Calls that wait for an approval, over a real store and with the official SDK: asked for as an item of a
//! response and gone on with behind its answer. What each answer comes to is tested in `host/http-edge`.

use acceptance::{Component, Model, Service, Token, User};
use serde_json::{Value, json};

use super::report;

/// A service whose calculator asks first.
async fn service(model: &Model) -> Service {
    let calculator = Component::shipped("calculator");
    let builder = Service::variant_b().model(model).granting([(&calculator, "approve = \"always\"\n")]);
    builder.without_windows().start().await
}

async fn ask(user: &User, body: Value) -> Value {
    user.post("/v1/responses", body.to_string()).await.json()
}

fn kinds(response: &Value) -> Vec<&str> {
    let output = response["output"].as_array().unwrap_or_else(|| panic!("{response:#}"));
    output.iter().map(|item| item["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_official_sdk_asks_its_user_and_goes_on() {
    let model = Model::openai().await;
    let service = service(&model).await;
    let user = service.user(Token::of("ada"));
    let asks = || model.asks_for("calculate", json!({ "expression": "6 * 7" }));
    asks().says("42");
    asks().says("then not");
    asks().says("42").says("you are welcome");
    let expected = json!({
        "asked": ["completed", ["mcp_approval_request"], "calculate", { "expression": "6 * 7" }, "agent"],
        "approved": [["mcp_call", "message"], "42", true],
        "again": ["ConflictError", 409, "approval_already_decided", "input[0].approval_request_id"],
        "streamed": [
            ["response.output_item.added", "response.output_item.done", "response.completed"],
            ["mcp_approval_request"], ["mcp_call", "message"], "failed", "then not",
        ],
        "whole": [["mcp_call", "message"], "42", "you are welcome"],
    });
    assert_eq!(report("openai_approvals.py", &service, &user).await, expected);
    let calls = model.calls();
    assert_eq!(calls.len(), 7);
    assert!(calls[3].tool_results()[0].contains("too dear"), "{:?}", calls[3].tool_results());
    service.stop().await;
}

/// A service whose scripts come to a calculation that asks first.
pub(super) async fn with_scripts(model: &Model) -> Service {
    let (calculator, scripts) = (Component::shipped("calculator"), Component::granted("code-eval"));
    let builder = Service::variant_b().model(model).granting([
        (&calculator, "approve = \"always\"\n"),
        (&scripts, "toolbox = true\nlimits = { timeout-ms = 20000 }"),
    ]);
    builder.without_windows().start().await
}

/// A script that makes one such calculation.
pub(super) const SCRIPT: &str = "tools.calculate({expression: '6 * 7'}).value";

#[tokio::test]
async fn a_client_of_openai_approves_what_a_script_has_come_to() {
    let model = Model::openai().await;
    let service = with_scripts(&model).await;
    let user = service.user(Token::of("ada"));
    model.asks_for("run_code", json!({ "code": SCRIPT })).says("It is 42.");
    let first = ask(&user, json!({ "model": "agent", "input": "What is 6 * 7?" })).await;
    assert_eq!(kinds(&first), ["mcp_call", "mcp_approval_request"], "{first:#}");
    let (script, asked) = (&first["output"][0], &first["output"][1]);
    assert_eq!((&script["name"], &script["status"]), (&json!("run_code"), &json!("incomplete")));
    assert_eq!(asked["name"], "calculate");
    // The id names the wait of the API.
    let waits = user.get("/api/agent/waits").await.json();
    let wait = waits["data"][0]["waitId"].as_str().unwrap();
    assert!(asked["id"].as_str().unwrap().contains(wait), "{waits:#}");
    let approval =
        json!({ "type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": true });
    let goes_on = json!({ "model": "agent", "previous_response_id": first["id"], "input": [approval] });
    let second = ask(&user, goes_on).await;
    assert_eq!(kinds(&second), ["mcp_call", "message"], "{second:#}");
    let script = &second["output"][0];
    assert_eq!((&script["name"], &script["status"]), (&json!("run_code"), &json!("completed")));
    assert_eq!(script["approval_request_id"], Value::Null, "the script was not asked for");
    assert!(script["output"].as_str().unwrap().contains("42"), "{script:#}");
}
