//! `agent-host doctor`: what it finds, and what it says to do about it.

use acceptance::{Builder, Component, Ended, Model, Redis, SECRET, Service};
use serde_json::{Value, json};

/// Examines what `change` makes of a Variant B without a model.
async fn examine(change: impl FnOnce(Builder) -> Builder) -> (Option<i32>, Value) {
    let builder = Service::command(&["doctor", "--json"])
        .env("NODE_ENV", "production")
        .env("SERVICE_VARIANT", "b")
        .env("JWT_SECRET", SECRET)
        .env("HOST", "127.0.0.1")
        .env("PORT", "0")
        .env("REDIS_URL", "memory://")
        .tools(["calculator"]);
    let database = format!("sqlite://{}", builder.home().join("agent.db").display());
    let Ended { code, stdout, stderr, .. } = change(builder.env("DATABASE_URL", database)).run().await;
    (code, serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}\n{stderr}")))
}

/// The state of the checks of that name, and what was found.
fn found(report: &Value, check: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let checks = report["checks"].as_array().unwrap().iter().filter(|found| found["check"] == check);
    checks
        .map(|found| (text(&found["state"]), format!("{} | {}", text(&found["found"]), text(&found["todo"]))))
        .collect()
}

#[tokio::test]
async fn where_all_is_well_nothing_is_to_do() {
    let (model, redis) = (Model::openai().await, Redis::start().await);
    let cluster = model.base_url();
    let (code, report) = examine(|builder| {
        let builder = builder.model(&model).redis(&redis).env("TOOLS_APPROVAL", "off");
        builder.env("AGENT_CLUSTER_URL", cluster)
    })
    .await;
    assert_eq!((code, &report["state"]), (Some(0), &json!("ok")), "{report:#}");
    for check in ["settings", "address", "database", "redis", "model", "cluster", "tools"] {
        let found = found(&report, check);
        assert!(found.len() == 1 && found[0].0 == "ok", "{check}: {report:#}");
    }
    assert!(found(&report, "tools")[0].1.contains("calculate"), "{report:#}");
    // The database is examined, not begun.
    assert!(found(&report, "database")[0].1.contains("will be made at the first start"), "{report:#}");
    model.was_checked(1).await;
}

#[tokio::test]
async fn each_thing_that_is_wrong_is_named_with_what_to_do_and_without_a_secret() {
    let (code, report) = examine(|builder| {
        std::fs::create_dir_all(builder.home().join("tools")).unwrap();
        std::fs::write(builder.home().join("tools").join("broken.wasm"), "no component").unwrap();
        builder
            .env("LLM_API_KEY", "sk-hunter2")
            .env("LLM_BASE_URL", "http://127.0.0.1:1/v1")
            .env("REDIS_URL", "redis://:hunter2@127.0.0.1:1")
            .env("DATABASE_URL", "postgres://u:hunter2@127.0.0.1:1/db")
            .env("AGENT_INSTRUCTIONS", "nowhere.md")
    })
    .await;
    assert_eq!((code, &report["state"]), (Some(1), &json!("failed")), "{report:#}");
    for (check, setting) in [
        ("database", "DATABASE_URL"),
        ("redis", "REDIS_URL"),
        ("model", "LLM_BASE_URL"),
        ("instructions", "AGENT_INSTRUCTIONS"),
    ] {
        let found = found(&report, check);
        assert!(
            found.len() == 1 && found[0].0 == "failed" && found[0].1.contains(setting),
            "{check}: {report:#}"
        );
    }
    let tools = found(&report, "tools");
    assert!(
        tools.iter().any(|(state, text)| state == "warning" && text.contains("broken.wasm")),
        "{report:#}"
    );
    assert!(!report.to_string().contains("hunter2"), "{report:#}");
}

/// What answers is not yet what a service starts on, and a second provider does not hide that the first one
/// fails.
#[tokio::test]
async fn a_redis_that_evicts_jobs_and_a_provider_behind_another_one_are_found() {
    let (model, redis) =
        tokio::join!(Model::openai(), Redis::start_with(&["--maxmemory-policy", "allkeys-lru"]));
    let (code, report) = examine(|builder| {
        builder
            .redis(&redis)
            .env("LLM_API_KEY", "sk-1")
            .env("LLM_BASE_URL", "http://127.0.0.1:1/v1")
            .second_model(&model)
    })
    .await;
    assert_eq!(code, Some(1), "{report:#}");
    let models = found(&report, "model");
    assert!(models.len() == 2 && models[0].0 == "warning" && models[1].0 == "ok", "{report:#}");
    assert!(models[0].1.contains("see LLM_MODEL") && models[1].1.contains(&model.name()), "{report:#}");
    let redis = found(&report, "redis");
    assert!(
        redis.iter().any(|(state, text)| state == "failed" && text.contains("maxmemory-policy")),
        "{report:#}"
    );
}

#[tokio::test]
async fn a_tool_that_may_keep_values_is_loaded_where_there_is_a_store_for_them() {
    let notes = Component::granted("notes");
    let (_, report) = examine(|builder| {
        let builder = builder.granting([(&notes, "key-value = { scope = \"user\", bytes = 10000 }")]);
        builder.env("LLM_API_KEY", "sk-1").env("LLM_BASE_URL", "http://127.0.0.1:1/v1")
    })
    .await;
    let tools = found(&report, "tools");
    assert!(tools.len() == 1 && tools[0].0 == "ok" && tools[0].1.contains("read_notes"), "{report:#}");
    assert!(found(&report, "database")[0].1.contains("will be made"), "it made none: {report:#}");
}

#[tokio::test]
async fn settings_that_cannot_be_are_all_named() {
    let (code, report) = examine(|builder| builder.env("PORT", "many").env("SERVICE_VARIANT", "c")).await;
    assert_eq!(code, Some(1), "{report:#}");
    let settings = found(&report, "settings");
    for variable in ["PORT", "SERVICE_VARIANT"] {
        let is_named = |(state, text): &(String, String)| state == "failed" && text.starts_with(variable);
        assert!(settings.iter().any(is_named), "{variable}: {report:#}");
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_a_warning() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (model, without) = (Model::openai().await, ["doctor", "--json", "--without-model"]);
    let builder = Service::command(&without).env("HOST", "127.0.0.1").env("PORT", port).model(&model);
    let Ended { stdout, .. } = builder.tools(["calculator"]).run().await;
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(found(&report, "address")[0].0, "warning", "{report:#}");
    assert_eq!(found(&report, "model"), [], "{report:#}");
}
