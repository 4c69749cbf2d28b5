//! Tools under grants, as callers and operators see them: who may use them, what they keep, and what is written down.

use std::fs;

use acceptance::{Component, Model, Service, order, within};
use serde_json::{Value, json};

fn premium(service: &Service, id: &str) -> acceptance::User {
    service.user(acceptance::Token::of(id).premium())
}

#[tokio::test]
async fn a_tool_for_one_tier_is_not_even_named_to_others() {
    let model = Model::openai().await;
    model.says("one").says("two").says("three");
    let calculator = Component::shipped("calculator");
    let service = Service::variant_b()
        .model(&model)
        .tool("text-stats")
        .granting([(&calculator, "tiers = [\"premium\"]")])
        .start()
        .await;
    // Equal questions: callers who may not use the same tools share no answer.
    let (rich, poor) = (premium(&service, "rich"), service.user(acceptance::Token::of("poor")));
    assert_eq!(rich.result_of("hello").await["output"], "one");
    assert_eq!(poor.result_of("hello").await["output"], "two");
    assert_eq!(premium(&service, "richer").result_of("hello").await["output"], "one", "shared");
    assert_eq!(service.user(acceptance::Token::of("poorer")).result_of("hello").await["output"], "two");
    let calls = model.calls();
    assert_eq!(calls[0].tools(), ["calculate", "text_stats"]);
    assert_eq!(calls[1].tools(), ["text_stats"]);
    // A job is its submitter's.
    let job = rich.job_for("a job").await;
    assert_eq!(rich.ended_job(&job).await["status"], "completed");
    assert_eq!(model.calls()[2].tools(), ["calculate", "text_stats"]);
}

#[tokio::test]
async fn notes_are_each_users_own_and_no_answer_with_them_is_shared() {
    let model = Model::openai().await;
    model.obeys();
    let notes = Component::granted("notes");
    let service = Service::variant_b()
        .model(&model)
        .granting([(&notes, "key-value = { scope = \"user\", bytes = 10000 }")])
        .start()
        .await;
    let (alice, bob) =
        (service.user(acceptance::Token::of("alice")), service.user(acceptance::Token::of("bob")));
    let tool = model_tool(&service).await;
    let save = order(&tool, &json!({ "action": "save", "name": "colour", "text": "red" }));
    let list = order(&tool, &json!({ "action": "list" }));
    assert!(alice.result_of(&save).await["toolCalls"][0]["outcome"] == "ok");
    let hers = alice.result_of(&list).await;
    assert!(hers["output"].as_str().unwrap().contains("colour"), "{hers:#}");
    let his = bob.result_of(&list).await;
    assert!(!his["output"].as_str().unwrap().contains("colour"), "the same question of another user: {his:#}");
}

async fn model_tool(service: &Service) -> String {
    let listed = service.get("/").await;
    let _ = listed;
    "notes".to_owned()
}

/// A run is printed by its id, with what its tools reached.
#[tokio::test]
async fn a_run_is_shown_with_its_receipts() {
    let model = Model::openai().await;
    model.asks_for("calculate", json!({ "expression": "6*7" })).says("42");
    let folder = tempfile::tempdir().unwrap();
    let service =
        Service::variant_a().model(&model).tool("calculator").sqlite_in(folder.path()).start().await;
    let result = service.result_of("what is it?").await;
    let id = result["id"].as_str().unwrap().to_owned();
    service.stop().await;
    let show = |id: &str| Service::command(&["runs", "show", id]).sqlite_in(folder.path()).run();
    let shown = show(&id).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for part in [id.as_str(), "calculate", "ok", &Component::shipped("calculator").id(), "2 model calls"] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let unknown = show("run_00000000000000000000000000000000").await;
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    let _ = fs::metadata(folder.path());
    let _: Option<Value> = None;
    let _ = within;
}

#[tokio::test]
async fn a_caller_chooses_tools_by_name() {
    let model = Model::openai().await;
    model.says("one").says("two");
    let service = Service::variant_a().model(&model).tools(["calculator", "text-stats"]).start().await;
    let ask = async |tools: Value| {
        let body = json!({ "input": "hello", "options": { "tools": tools } });
        service.post("/agent/invoke", body.to_string()).await
    };
    ask(json!(["calculate"])).await.expect_status(200);
    ask(json!([])).await.expect_status(200);
    let calls = model.calls();
    assert_eq!(calls[0].tools(), ["calculate"]);
    assert_eq!(calls[1].tools(), Vec::<&str>::new());
    let refused = ask(json!(["calculate", "nope"])).await;
    assert_eq!(refused.status(), 400, "{refused}");
}
