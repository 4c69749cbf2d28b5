//! Calls that wait for an approval, over a real store and with the official SDK: asked for as an item of a
//! response and gone on with behind its answer.

use acceptance::{Answer, Component, Model, Service, Token, User};
use serde_json::{Value, json};

use super::report;
use crate::bad_days::waits::decide;

/// A service whose calculator asks first.
async fn service(model: &Model) -> Service {
    let calculator = Component::shipped("calculator");
    let builder = Service::variant_b().model(model).granting([(&calculator, "approve = \"always\"\n")]);
    builder.without_windows().start().await
}

async fn ask(user: &User, more: Value) -> Answer {
    let mut body = json!({ "model": "agent", "input": "What is 6 * 7?" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    user.post("/v1/responses", body.to_string()).await
}

fn answer(request: &Value, approve: bool) -> Value {
    json!({ "type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve })
}

fn kinds(response: &Value) -> Vec<&str> {
    let output = response["output"].as_array().unwrap_or_else(|| panic!("{response:#}"));
    output.iter().map(|item| item["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_client_of_openai_approves_a_call_and_reads_what_came_of_it() {
    let model = Model::openai().await;
    let service = service(&model).await;
    let (user, stranger) = (service.user(Token::of("ada")), service.user(Token::of("bob")));
    model.asks_for("calculate", json!({ "expression": "6 * 7" })).says("42").says("you are welcome");
    let first = ask(&user, json!({})).await.json();
    assert_eq!(
        (&first["status"], kinds(&first)),
        (&json!("completed"), vec!["mcp_approval_request"]),
        "{first:#}"
    );
    let asked = &first["output"][0];
    assert_eq!(asked["arguments"], json!({ "expression": "6 * 7" }).to_string());
    // The id names the wait of the API.
    let waits = user.get("/api/agent/waits").await.json();
    assert!(
        asked["id"].as_str().unwrap().contains(waits["data"][0]["waitId"].as_str().unwrap()),
        "{waits:#}"
    );

    let goes_on = json!({ "input": [answer(asked, true)], "store": false });
    let theirs = ask(&stranger, goes_on).await;
    assert_eq!((theirs.status, &theirs.json()["error"]["code"]), (404, &json!("item_not_found")), "{theirs}");
    let goes_on = json!({ "previous_response_id": first["id"], "input": [answer(asked, true)] });
    let second = ask(&user, goes_on.clone()).await.json();
    assert_eq!(kinds(&second), ["mcp_call", "message"], "{second:#}");
    assert_eq!(second["output"][0]["approval_request_id"], asked["id"]);
    assert_eq!(second["output"][1]["content"][0]["text"], "42");
    assert_eq!(
        kinds(&ask(&user, goes_on).await.json()),
        ["mcp_call", "message"],
        "sent again, it is the same"
    );
    let other = json!({ "previous_response_id": first["id"], "input": [answer(asked, false)] });
    let again = ask(&user, other).await;
    assert_eq!(
        (again.status, &again.json()["error"]["code"]),
        (409, &json!("approval_already_decided")),
        "{again}"
    );

    let thanks = json!({ "previous_response_id": second["id"], "input": "thanks" });
    assert_eq!(ask(&user, thanks).await.json()["output"][0]["content"][0]["text"], "you are welcome");
    let calls = model.calls();
    assert_eq!((calls.len(), calls[2].tool_results().len()), (3, 1), "the call is known once");
    let roles: Vec<_> =
        calls[2].body["messages"].as_array().unwrap().iter().map(|it| it["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
}

#[tokio::test]
async fn what_was_decided_elsewhere_meanwhile_is_said() {
    let model = Model::openai().await;
    let service = service(&model).await;
    let user = service.user(Token::of("ada"));
    model.asks_for("calculate", json!({ "expression": "6 * 7" })).says("then not");
    let first = ask(&user, json!({ "stream": true })).await;
    let last = first.body.lines().filter_map(|line| line.strip_prefix("data: {")).next_back().unwrap();
    let first = serde_json::from_str::<Value>(&format!("{{{last}")).unwrap()["response"].take();
    let wait = user.get("/api/agent/waits").await.json()["data"][0].take();
    let decided = decide(&user, &wait, &json!({ "decision": "reject" })).await;
    assert_eq!(decided.status, 200, "{decided}");
    user.ended_job(wait["jobId"].as_str().unwrap()).await;
    let goes_on =
        json!({ "previous_response_id": first["id"], "input": [answer(&first["output"][0], true)] });
    let late = ask(&user, goes_on).await;
    assert_eq!(
        (late.status, &late.json()["error"]["code"]),
        (409, &json!("approval_already_decided")),
        "{late}"
    );
    assert!(late.body.contains("decided by ada"), "{late}");
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
    let first = ask(&user, json!({})).await.json();
    assert_eq!(kinds(&first), ["mcp_call", "mcp_approval_request"], "{first:#}");
    let (script, asked) = (&first["output"][0], &first["output"][1]);
    assert_eq!((&script["name"], &script["status"]), (&json!("run_code"), &json!("incomplete")));
    assert_eq!(asked["name"], "calculate");
    let goes_on = json!({ "previous_response_id": first["id"], "input": [answer(asked, true)] });
    let second = ask(&user, goes_on).await.json();
    assert_eq!(kinds(&second), ["mcp_call", "message"], "{second:#}");
    let script = &second["output"][0];
    assert_eq!((&script["name"], &script["status"]), (&json!("run_code"), &json!("completed")));
    assert_eq!(script["approval_request_id"], Value::Null, "the script was not asked for");
    assert!(script["output"].as_str().unwrap().contains("42"), "{script:#}");
}
