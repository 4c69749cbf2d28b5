//! A run that another run began, over `kill -9` and on each queue: begun once, and told of once.

use acceptance::{Component, Model, Service, Stores, Token, User, eventually};
use serde_json::{Value, json};

use super::waits::{decide, gone_on};

/// A service whose calculator asks first.
async fn service(stores: &Stores, model: &Model) -> Service {
    let calculator = Component::shipped("calculator");
    let builder = stores.service(model).granting([(&calculator, "approve = \"always\"\n")]);
    // Looking at a job until it waits takes many requests.
    let builder = builder.without_windows();
    builder.env("WAIT_TOOLS", "on").env("NODE_WORKERS", "off").start().await
}

/// The wait of that kind, once there is one.
async fn wait_of(user: &User, kind: &str) -> Value {
    eventually("a run to wait", async || {
        let waits = user.get("/api/agent/waits").await.json();
        waits["data"].as_array()?.iter().find(|wait| wait["kind"] == kind).cloned()
    })
    .await
}

async fn check(stores: Stores) {
    let model = Model::openai().await;
    let sum = json!({ "expression": "6 * 7" });
    model.asks_for("run_agent", json!({ "task": "What is 6 * 7?" })).asks_for("calculate", sum);
    let token = Token::of("ada");
    let mut first = service(&stores, &model).await;
    let user = first.user(&token);
    let job = user.job_for("Have somebody calculate it.").await;
    let approval = wait_of(&user, "approval").await;
    let child = wait_of(&user, "child").await;
    assert_eq!((&child["jobId"], &approval["parent"]["jobId"]), (&json!(job), &json!(job)), "{approval:#}");
    assert_eq!(child["child"]["jobId"], approval["jobId"], "{child:#}");
    first.killed().await;

    let second = service(&stores, &model).await;
    let user = second.user(&token);
    assert_eq!(wait_of(&user, "approval").await["waitId"], approval["waitId"], "it is what it was");
    model.says("It is 42.").says("Somebody says 42.");
    assert_eq!(decide(&user, &approval, &json!({ "decision": "approve" })).await.status, 200);
    let done = gone_on(&user, &job).await;
    assert_eq!(done["result"]["output"], "Somebody says 42.", "{done:#}");
    let calls = model.calls();
    assert_eq!((calls.len(), calls[3].tool_results()), (4, vec!["It is 42."]));
    let listed = user.get("/api/agent/jobs").await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 2, "{listed:#}");

    // Whoever cancels a parent cancels its child.
    model
        .asks_for("run_agent", json!({ "task": "Again." }))
        .asks_for("calculate", json!({ "expression": "1" }));
    let job = user.job_for("Once more.").await;
    let child = wait_of(&user, "approval").await["jobId"].as_str().unwrap().to_owned();
    wait_of(&user, "child").await;
    assert_eq!(user.post(&format!("/api/agent/jobs/{job}/cancel"), "").await.status, 202);
    eventually("the child to be cancelled", async || {
        (user.job(&child).await.json()["status"] == "cancelled").then_some(())
    })
    .await;
}

on_each! { check:
    a_child_run_survives_with_everything_in_one_file = Stores::embedded();
    a_child_run_survives_with_jobs_on_redis = Stores::redis_and_mongo().await;
    a_child_run_survives_on_postgresql = Stores::postgres().await;
}
