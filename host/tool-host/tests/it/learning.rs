//! What a tool wants that it is not granted, found out by calling it.

use agent_core::words::ToolOutcome;
use serde_json::json;
use test_servers::HttpServer;
use tool_host::Learned;

use crate::harness::{Host, built, generous, misbehaving, policy};

/// Calls a tool with that policy in force, and nothing else, and says what it wanted.
async fn learn(
    file: &str,
    bytes: &[u8],
    lines: Option<&str>,
    tool: &str,
    arguments: serde_json::Value,
) -> (Learned, ToolOutcome) {
    let policy = lines.map(policy);
    let host = Host::start_with(&[(file, bytes)], generous(), |config| {
        config.learn = true;
        if let Some((policy, _)) = &policy {
            config.policy = policy.clone();
        }
    })
    .await;
    assert_eq!(host.faults(), Vec::<String>::new());
    let returned = host.call(tool, arguments).await;
    (host.host.learned(tool).unwrap(), returned.receipt.outcome)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_happens_until_it_is_granted_and_the_lines_let_it_happen() {
    let answer =
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi";
    let server = HttpServer::answering(move |_| answer.to_owned()).await;
    let fetcher = built("tools-granted", "http-fetch");
    let url = json!({"url": format!("http://{}/docs/page?q=1", server.address())});
    let (first, outcome) = learn("http-fetch.wasm", &fetcher, None, "fetch", url.clone()).await;
    assert_eq!((outcome, server.connections()), (ToolOutcome::Failed, 0), "it is denied");
    assert!(!first.is_complete);
    for line in [
        "name = \"http-fetch\"",
        "digest = \"sha256:",
        "host = \"127.0.0.1\"",
        "path = \"/docs/page\"",
        "private = true",
    ] {
        assert!(first.lines.contains(line), "{line}: {}", first.lines);
    }
    let (second, outcome) = learn("http-fetch.wasm", &fetcher, Some(&first.lines), "fetch", url).await;
    assert_eq!((outcome, server.connections()), (ToolOutcome::Ok, 1));
    assert!(second.is_complete, "{}", second.lines);
    assert_eq!(second.lines, first.lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_imports_besides_stands_in_the_lines() {
    let keeper = misbehaving("keeps-values");
    let keep = json!({"key": "k", "value": "v"});
    let (first, outcome) = learn("keeps-values.wasm", &keeper, None, "keep", keep.clone()).await;
    assert_eq!(outcome, ToolOutcome::Failed);
    assert!(first.lines.contains("key-value = { scope = \"user\", bytes = 65536 }"), "{}", first.lines);
    let caller = misbehaving("calls-tools");
    let call = json!({"name": "calculate"});
    let (first, _) = learn("calls-tools.wasm", &caller, None, "call_tool", call.clone()).await;
    assert!(first.lines.contains("toolbox = true"), "{}", first.lines);
    let (second, _) = learn("calls-tools.wasm", &caller, Some(&first.lines), "call_tool", call).await;
    assert!(second.is_complete, "{}", second.lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_needs_nothing_is_told_so() {
    let calculator = built("tools", "calculator");
    let (learned, outcome) =
        learn("calculator.wasm", &calculator, None, "calculate", json!({"expression": "1+1"})).await;
    assert_eq!((outcome, learned.is_complete), (ToolOutcome::Ok, true), "{}", learned.lines);
}
