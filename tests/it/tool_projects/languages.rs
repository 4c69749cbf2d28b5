//! From nothing to an answer in each language.

use std::fs;
use std::path::Path;
use std::process::Command;

use acceptance::Upstream;

use super::{Desk, run};

/// Makes both examples, runs their own tests, builds and calls them.
async fn every_step(language: &str, test: impl Fn(&Path) -> Command) {
    let desk = Desk::new();
    greets_without_a_grant(&desk, language, &test);
    looks_up_with_a_secret(&desk, language, &test).await;
}

fn greets_without_a_grant(desk: &Desk, language: &str, test: impl Fn(&Path) -> Command) {
    let folder = desk.new_project("my-greeter", language, "greeting");
    let built = run(&mut desk.command(&["tool", "build", "my-greeter"]));
    assert!(built.succeeded && built.stdout.contains("my-greeter.wasm"), "{built:?}");
    assert!(built.stdout.contains("sha256:") && !built.stdout.contains("needs "), "{built:?}");
    let tested = run(&mut test(&folder));
    assert!(tested.succeeded, "{tested:?}");
    let called = run(&mut desk.call(&folder, "my_greeter", r#"{"name": "Ada"}"#));
    assert!(called.succeeded, "{called:?}");
    let answer: serde_json::Value = serde_json::from_str(&called.stdout).unwrap();
    assert_eq!(answer, serde_json::json!({ "text": "Hello, Ada!" }));
    let refused = run(&mut desk.call(&folder, "my_greeter", r#"{"name": " "}"#));
    assert!(
        !refused.succeeded && refused.stdout.starts_with("Error: invalid-arguments: `name` is blank"),
        "{refused:?}"
    );
}

async fn looks_up_with_a_secret(desk: &Desk, language: &str, test: impl Fn(&Path) -> Command) {
    let server =
        Upstream::answering(200, "application/json", r#"{"name": "hinge", "in_stock": 7, "shelf": 3}"#).await;
    let folder = desk.new_project("parts", language, "http");
    let out = desk.path().join("built/");
    let built = run(&mut desk.command(&["tool", "build", "parts", "--out", out.to_str().unwrap()]));
    assert!(built.succeeded && built.stdout.contains("needs      http"), "{built:?}");
    let tested = run(&mut test(&folder));
    assert!(tested.succeeded, "{tested:?}");
    // The project's own example of a policy, with the digest that the build printed and the address of this server.
    let digest = built.stdout.lines().find_map(|line| line.strip_prefix("digest")).unwrap().trim();
    let port = server.url("").rsplit(':').next().unwrap().to_owned();
    let host = format!("host = \"127.0.0.1\"\nscheme = \"http\"\nprivate = true\nport = {port}");
    let policy = fs::read_to_string(folder.join("policy.toml")).unwrap();
    let policy = policy
        .replace(&format!("sha256:{}", "0".repeat(64)), digest)
        .replace("https://parts.example.org", &server.url(""))
        .replace("host = \"parts.example.org\"", &host)
        .replace("hosts = [\"parts.example.org\"]", "hosts = [\"127.0.0.1\"]");
    let policy_file = desk.path().join("policy.toml");
    fs::write(&policy_file, policy).unwrap();
    let mut call = desk.call(&out, "parts", r#"{"part": "A 12"}"#);
    call.env("TOOLS_POLICY", policy_file).env("PARTS_KEY", "never-seen-by-the-tool");
    // Elsewhere, because this server answers in the meantime.
    let called = tokio::task::spawn_blocking(move || run(&mut call)).await.unwrap();
    assert!(called.succeeded, "{called:?}");
    let answer: serde_json::Value = serde_json::from_str(&called.stdout).unwrap();
    assert_eq!(answer, serde_json::json!({ "name": "hinge", "in_stock": 7 }));
    let received = server.received();
    assert_eq!(received[0].line, "GET /parts/A%2012");
    assert_eq!(received[0].header("x-api-key"), "never-seen-by-the-tool");
}

#[tokio::test]
async fn a_tool_in_rust_goes_from_nothing_to_an_answer() {
    every_step("rust", |folder| {
        let mut cargo = Command::new("cargo");
        let target = acceptance::repository().join("target/tmp/tool-projects");
        cargo.args(["test", "--quiet"]).current_dir(folder).env("CARGO_TARGET_DIR", target);
        cargo
    })
    .await;
}

#[tokio::test]
async fn a_tool_in_python_goes_from_nothing_to_an_answer() {
    every_step("python", |folder| {
        let mut python = Command::new(folder.join(".venv/bin/python"));
        python.args(["-B", "-m", "unittest"]).current_dir(folder);
        python
    })
    .await;
}

#[tokio::test]
async fn a_tool_in_javascript_goes_from_nothing_to_an_answer() {
    every_step("js", |folder| {
        let mut npm = Command::new("npm");
        npm.arg("test").current_dir(folder);
        npm
    })
    .await;
}
