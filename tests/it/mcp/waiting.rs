//! Calls that wait for somebody, by official clients: the SDKs ask their user and repeat the call, their
//! package for tasks follows a task, and clients of before are told where it is decided.

use acceptance::{Component, Ended, Model, Process, Service, Token, User, repository};
use serde_json::{Value, json};
use tokio::process::Command;

use super::clients::{over_http, python};

/// A service whose calculator needs an approval, and another tool of which asks in the middle of its calls.
/// Its model is never asked.
async fn service(model: &Model) -> Service {
    let (calculator, asks) = (Component::shipped("calculator"), Component::misbehaving("asks"));
    let granted = [(&calculator, "approve = \"always\"\n"), (&asks, "ask = true")];
    let builder = Service::variant_b().model(model).granting(granted);
    builder.without_windows().start().await
}

/// What a program of tests/mcp/ reports, by step.
async fn report(program: &str, service: &Service, token: &Token) -> Value {
    let folder = repository().join("tests/mcp");
    let mut command = if program.ends_with(".py") { Command::new(python()) } else { Command::new("node") };
    let server = over_http(&format!("http://{}/mcp", service.address()), Some(token));
    command.arg(folder.join(program)).arg(server.to_string()).current_dir(&folder);
    let Ended { code, stdout, stderr } = Process::spawn(&mut command).ended().await;
    assert_eq!(code, Some(0), "{program}: {stdout}{stderr}");
    let mut steps = json!({});
    for line in stdout.lines() {
        let step: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        steps.as_object_mut().unwrap().extend(step.as_object().unwrap().clone());
    }
    assert_eq!(steps["done"], true, "{steps:#}");
    steps
}

async fn waits(user: &User) -> Vec<Value> {
    user.get("/api/agent/waits").await.json()["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn the_typescript_sdk_asks_its_user_and_its_package_for_tasks_follows_one() {
    let model = Model::openai().await;
    let service = service(&model).await;
    let token = Token::of("ada");
    let steps = report("waiting.mjs", &service, &token).await;
    assert_eq!((&steps["era"], &steps["asked"]["isError"]), (&json!("modern"), &json!(false)), "{steps:#}");
    assert!(steps["asked"]["text"].as_str().unwrap().contains("42"), "{steps:#}");
    assert!(steps["asked"]["question"].as_str().unwrap().contains("6 * 7"), "{steps:#}");
    for (step, is_error, said) in [("approved", false, "42"), ("rejected", true, "too dear")] {
        let ended = &steps[step];
        assert_eq!((&ended["kind"], &ended["status"]), (&json!("task"), &json!("completed")), "{ended:#}");
        assert_eq!(
            (&ended["first"], &ended["isError"]),
            (&json!("input_required"), &json!(is_error)),
            "{ended:#}"
        );
        assert!(ended["text"].as_str().unwrap().contains(said), "{ended:#}");
    }
    assert_eq!(steps["cancelled"], "cancelled", "{steps:#}");
    let user = service.user(&token);
    assert_eq!(waits(&user).await, Vec::<Value>::new());
    // The task is a job, whose run is journaled.
    let job = user.job(steps["approved"]["taskId"].as_str().unwrap()).await.json();
    assert_eq!((&job["status"], &job["result"]["iterations"]), (&json!("completed"), &json!(0)), "{job:#}");
    assert_eq!(model.calls().len(), 0);
    service.stop().await;
}

#[tokio::test]
async fn the_python_sdk_asks_its_user_and_others_are_told_what_the_call_waits_for() {
    let model = Model::openai().await;
    let service = service(&model).await;
    let token = Token::of("ada");
    let steps = report("waiting.py", &service, &token).await;
    for (step, version, is_error, said, asked) in [
        ("approved", "2026-07-28", false, "42", 1),
        ("rejected", "2026-07-28", true, "rejected it", 1),
        ("open", "2026-07-28", true, "not made yet", 1),
        ("silent", "2026-07-28", true, "not made yet", 0),
        ("legacy", "2025-11-25", true, "not made yet", 0),
        ("answered", "2026-07-28", false, r#""colour":"red","count":3"#, 2),
        ("unanswered", "2026-07-28", true, "rejected it", 1),
        ("unasked", "2025-11-25", true, "an answer to a question of order", 0),
    ] {
        let answer = &steps[step];
        assert_eq!(
            (&answer["version"], &answer["isError"]),
            (&json!(version), &json!(is_error)),
            "{steps:#}"
        );
        assert!(answer["text"].as_str().unwrap().contains(said), "{steps:#}");
        assert_eq!(answer["asked"].as_array().unwrap().len(), asked, "{steps:#}");
    }
    let waiting: Vec<_> =
        waits(&service.user(&token)).await.iter().map(|wait| wait["jobId"].clone()).collect();
    let asked = &steps["answered"]["asked"];
    assert_eq!(asked, &json!(["order asks: Which colour of hat?", "order asks: How many of the red ones?"]));
    let told =
        ["unasked", "legacy", "silent", "open"].map(|step| steps[step]["meta"]["agent-host/jobId"].clone());
    assert_eq!(waiting, told, "the newest first");
    service.stop().await;
}
