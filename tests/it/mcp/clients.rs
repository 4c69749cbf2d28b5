//! Starts the programs of tests/mcp/ and holds what they print against what any client is to find.

use std::path::PathBuf;

use acceptance::{Component, Process, Startable, Token, repository};
use serde_json::{Value, json};
use tokio::process::Command;

/// Where `cargo xtask test` puts the Python SDK.
const PYTHON: &str = "target/test-servers/mcp/bin/python3";

/// The tools of every server that clients are held against: two of everyday, and those that misbehave.
pub(super) fn components() -> [Component; 2] {
    [Component::shipped("calculator"), Component::misbehaving("misbehaving")]
}

/// The interpreter with the Python SDK.
pub(super) fn python() -> PathBuf {
    repository().join(PYTHON)
}

/// A program of tests/mcp/.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sdk {
    Python,
    TypeScript,
}

/// One that has been started.
pub(super) struct Client {
    process: Process,
    sdk: Sdk,
}

/// Where a server is.
pub(super) fn over_http(url: &str, token: Option<&Token>) -> Value {
    match token {
        Some(token) => json!({ "url": url, "token": token.to_string() }),
        None => json!({ "url": url }),
    }
}

/// How a server is started.
pub(super) fn over_stdio(server: &Startable) -> Value {
    json!({ "command": server.program, "args": server.arguments, "env": server.variables })
}

impl Client {
    /// Starts it. `mode` is of the Python SDK: `legacy` for the versions with a handshake.
    pub(super) fn start(sdk: Sdk, mut server: Value, mode: &str) -> Self {
        server["mode"] = mode.into();
        let folder = repository().join("tests/mcp");
        let (program, file) = match sdk {
            Sdk::Python => (python(), "client.py"),
            Sdk::TypeScript => ("node".into(), "client.mjs"),
        };
        let mut command = Command::new(&program);
        command.arg(folder.join(file)).arg(server.to_string()).current_dir(&folder);
        Self { process: Process::spawn(&mut command), sdk }
    }

    /// What it prints for a step.
    pub(super) async fn step(&self, step: &str) -> Value {
        let of_step = |line: &str| serde_json::from_str::<Value>(line).ok()?.get(step).cloned();
        self.process.log().find(&format!("{step:?} of {:?}", self.sdk), of_step).await
    }

    /// Waits for a line with these texts: the server's standard error is the client's.
    pub(super) async fn says(&self, texts: &[&str]) {
        self.process.log().line_with(texts).await;
    }

    /// Everything up to the wait for a swap.
    pub(super) async fn finds_the_tools(&self) {
        let tools = self.step("tools").await;
        let calculate = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "calculate");
        let calculate = calculate.unwrap_or_else(|| panic!("{tools:#}"));
        assert_eq!(calculate["title"], "Calculate");
        assert_eq!(calculate["inputSchema"]["required"], json!(["expression"]));
        assert!(calculate["description"].as_str().unwrap().starts_with("Works out"), "{calculate:#}");
        let annotations = json!({
            "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
        });
        assert_eq!(calculate["annotations"], annotations);
        let answer = self.step("answer").await;
        assert_eq!(answer["isError"], false, "{answer}");
        assert!(answer["text"].as_str().unwrap().contains("42"), "{answer}");
        for (step, text) in [("failure", "no luck"), ("misfit", "expression")] {
            let answer = self.step(step).await;
            assert_eq!(answer["isError"], true, "{step}: {answer}");
            assert!(answer["text"].as_str().unwrap().contains(text), "{step}: {answer}");
        }
        assert_eq!(self.step("unknown").await, -32602);
        assert_eq!(self.step("cancelled").await, true);
        self.step("listening").await;
    }

    /// The client has heard of a swap, and has ended well.
    pub(super) async fn finds_the_swap(&mut self, tool: &str) {
        let tools = self.step("changed").await;
        assert!(tools.as_array().unwrap().contains(&tool.into()), "{tools:#}");
        self.step("done").await;
        let ended = self.process.ended().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}
