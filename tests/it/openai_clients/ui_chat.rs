//! The chat of the Vercel AI SDK, as `useChat` has it.

use acceptance::{Component, Model, Service, Token, asks_for, says};
use serde_json::{Value, json};

use super::approvals::{SCRIPT, with_scripts};
use super::report;

#[tokio::test]
async fn a_page_with_the_sdks_chat_reads_what_it_is_answered() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).tools(["calculator"]).start().await;
    model.plays(asks_for("calculate", json!({ "expression": "6 * 7" }))).plays(says("It is 42."));
    model.plays(says("You are welcome."));
    let report = report("ai_sdk_chat.mjs", &service, &service.user(Token::of("ada"))).await;
    let call = json!([
        "dynamic-tool", "calculate", "output-available", { "expression": "6 * 7" }, { "exact": true, "value": "42" },
    ]);
    assert_eq!(report["first"], json!(["ready", [call, ["text", "It is 42."]], true]), "{report:#}");
    assert_eq!(report["second"], json!([4, [["text", "You are welcome."]]]));
    // The second message comes with the call and its answer.
    let calls = model.calls();
    let roles: Vec<_> =
        calls[2].body["messages"].as_array().unwrap().iter().map(|it| it["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
    service.stop().await;
}

#[tokio::test]
async fn a_page_with_the_sdks_chat_asks_its_user_before_a_call_is_made() {
    let model = Model::openai().await;
    let calculator = Component::shipped("calculator");
    let builder = Service::variant_b().model(&model).granting([(&calculator, "approve = \"always\"\n")]);
    let service = builder.without_windows().start().await;
    for said in ["It is 42.", "Then not."] {
        model.plays(asks_for("calculate", json!({ "expression": "6 * 7" }))).plays(says(said));
    }
    let report = report("ai_sdk_approvals.mjs", &service, &service.user(Token::of("ada"))).await;
    let call =
        |state: &str, answer| json!(["dynamic-tool", "calculate", state, { "expression": "6 * 7" }, answer]);
    let seen = json!([call("approval-requested", json!(null))]);
    let answered =
        json!([call("output-available", json!({ "exact": true, "value": "42" })), ["text", "It is 42."]]);
    assert_eq!(report["approved"], json!([seen, 2, answered, null]), "{report:#}");
    let denied = json!([call("output-denied", json!(null)), ["text", "Then not."]]);
    assert_eq!(report["rejected"], json!([seen, 2, denied, null]), "{report:#}");
    // The model is told why.
    let told = model.calls()[3].tool_results().concat();
    assert!(told.contains("so be it"), "{told}");
    service.stop().await;
}

#[tokio::test]
async fn a_page_with_the_sdks_chat_asks_its_user_for_what_a_script_has_come_to() {
    let model = Model::openai().await;
    let service = with_scripts(&model).await;
    for said in ["It is 42.", "Then not."] {
        model.plays(asks_for("run_code", json!({ "code": SCRIPT }))).plays(says(said));
    }
    let report = report("ai_sdk_approvals.mjs", &service, &service.user(Token::of("ada"))).await;
    for (name, state, said) in
        [("approved", "output-available", "It is 42."), ("rejected", "output-denied", "Then not.")]
    {
        let [seen, count, after, error] =
            <[Value; 4]>::try_from(report[name].as_array().unwrap().clone()).unwrap();
        assert_eq!((&count, &error), (&json!(2), &Value::Null), "{report:#}");
        let states = |parts: &Value| -> Vec<Value> {
            let tools = parts.as_array().unwrap().iter().filter(|part| part[0] == "dynamic-tool");
            tools.map(|part| json!([part[1], part[2]])).collect()
        };
        assert_eq!(
            states(&seen),
            [json!(["run_code", "input-available"]), json!(["calculate", "approval-requested"])],
            "{seen:#}"
        );
        let after_states = states(&after);
        assert_eq!(after_states[1], json!(["calculate", state]), "{after:#}");
        assert_ne!(after_states[0][1], "input-available", "{after:#}");
        assert_eq!(after.as_array().unwrap().last().unwrap(), &json!(["text", said]));
    }
    service.stop().await;
}
