//! Components that call the run's other tools.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{
    CallEnds, LIMIT_EXCEEDED, NestedTools, Question, ToolRequest, ToolSet, Toolbox as _,
};
use agent_core::words::{Principal, ReceiptDetail, ToolCall, ToolOutcome, ToolReceipt, ToolReturn};
use boxed_async::boxed_async;
use serde_json::{Value, json};

use crate::harness::{WithPolicy, built, entry, misbehaving, ok};

/// The tools of a set, as a run offers them: a few calls at most.
struct Nested {
    tools: Arc<dyn ToolSet>,
    left: std::sync::atomic::AtomicI32,
}

#[boxed_async]
impl NestedTools for Nested {
    fn names(&self) -> Vec<String> {
        self.tools.catalog().nestable().map(|tool| tool.name.clone()).collect()
    }

    async fn call(&self, name: &str, arguments: &str) -> Result<ToolReturn, CallEnds> {
        if self.left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) <= 0 {
            let detail = ReceiptDetail { code: Some(LIMIT_EXCEEDED.into()), ..ReceiptDetail::default() };
            let receipt =
                ToolReceipt { detail: Some(Box::new(detail)), ..ToolReceipt::new(name, ToolOutcome::NotRun) };
            return Ok(ToolReturn { content: "Error: no further calls.".into(), receipt });
        }
        let arguments = serde_json::from_str(arguments).unwrap();
        let call = ToolCall { id: "1".into(), name: name.into(), arguments };
        Ok(self.tools.call(ToolRequest::outside_of_runs("req-1", &call, deadline())).await)
    }

    /// Answers a question about colours, and has others wait.
    async fn ask(&self, question: Question<'_>) -> Result<ToolReturn, CallEnds> {
        if !question.text.contains("colour") {
            return Err(CallEnds);
        }
        let receipt = ToolReceipt::new("ask", ToolOutcome::Ok);
        let said = json!({ "component": question.component, "schema": question.schema }).to_string();
        Ok(ToolReturn { content: json!(said).to_string(), receipt })
    }
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// Calls a tool that may call others, which may make so many calls.
async fn call(tools: &Arc<dyn ToolSet>, name: &str, arguments: Value, left: i32) -> ToolReturn {
    let nested = Nested { tools: tools.clone(), left: left.into() };
    let call = ToolCall { id: "1".into(), name: name.into(), arguments };
    let request = ToolRequest::outside_of_runs("req-1", &call, deadline());
    tools.call(ToolRequest { nested: Some(&nested), ..request }).await
}

/// What it calls may not bear being called twice, whatever it says of itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_calls_others_is_not_called_again_by_the_host() {
    let (caller, keeper) = (misbehaving("calls-tools"), misbehaving("keeps-values"));
    let policy = entry("calls-tools", &caller, "toolbox = true")
        + &entry("keeps-values", &keeper, "key-value = { scope = \"component\" }");
    let files: &[(&str, &[u8])] = &[("calls-tools.wasm", &caller), ("keeps-values.wasm", &keeper)];
    let host = WithPolicy::start(files, &policy).await;
    let tools = host.host.host.current_for(Principal::nobody());
    let pay = json!({"name": "fail_first_destructive", "arguments": {"key": "k", "first": 9}});
    let failed = call(&tools, "call_tool_or_fail", pay.clone(), 9).await;
    assert_eq!((failed.receipt.outcome, failed.receipt.code()), (ToolOutcome::Failed, Some("unavailable")));
    assert_eq!(failed.receipt.detail.unwrap().attempts, 1);
    let count = json!({"name": "keep", "arguments": {"key": "k", "value": null}});
    assert_eq!(ok(&call(&tools, "call_tool", count, 9).await)["answer"]["value"], "1");
}

async fn host() -> WithPolicy {
    let (caller, calculator) = (misbehaving("calls-tools"), built("tools", "calculator"));
    let policy = entry("calls-tools", &caller, "toolbox = true");
    let files: &[(&str, &[u8])] = &[("calls-tools.wasm", &caller), ("calculator.wasm", &calculator)];
    let host = WithPolicy::start(files, &policy).await;
    assert_eq!(host.host.faults(), Vec::<String>::new());
    host
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_calls_another_and_is_told_what_went_wrong() {
    let host = host().await;
    let tools = host.host.host.current_for(Principal::nobody());
    let spec = tools.catalog().get("call_tool").unwrap();
    assert!(spec.calls_tools && !spec.is_repeatable);
    let sum = json!({"name": "calculate", "arguments": {"expression": "6*7"}});
    let called = ok(&call(&tools, "call_tool", sum.clone(), 9).await);
    assert_eq!(called["names"], json!(["calculate"]), "those that call tools cannot be called");
    assert_eq!(called["answer"]["value"], "42");
    for (arguments, code) in [
        (json!({"name": "nope"}), "unknown-tool"),
        (json!({"name": "calculate", "arguments": {}}), "invalid-arguments"),
        (json!({"name": "calculate", "arguments": {"expression": "1/0"}}), "invalid-arguments"),
    ] {
        let called = ok(&call(&tools, "call_tool", arguments.clone(), 9).await);
        assert_eq!(called["code"], code, "{arguments} {called}");
    }
    // Outside of a run there is nothing to call.
    let alone = ok(&host.host.call("call_tool", sum).await);
    assert_eq!((&alone["code"], &alone["names"]), (&json!("denied"), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_calls_for_ever_is_refused_in_the_end() {
    let host = host().await;
    let tools = host.host.host.current_for(Principal::nobody());
    let sum = json!({"name": "calculate", "arguments": {"expression": "6*7"}});
    let called = ok(&call(&tools, "call_tool_until_refused", sum, 50).await);
    assert_eq!((&called["code"], &called["calls"]), (&json!("limit-exceeded"), &json!(51)));
}

/// Each of them waits for a call that needs a slot: they hold none of those.
#[tokio::test(flavor = "multi_thread")]
async fn tools_that_call_never_hold_what_their_calls_wait_for() {
    let host = host().await;
    let tools = host.host.host.current_for(Principal::nobody());
    let sum = json!({"name": "calculate", "arguments": {"expression": "6*7"}});
    let calls = (0..64).map(|_| call(&tools, "call_tool", sum.clone(), 9));
    for returned in futures::future::join_all(calls).await {
        assert_eq!(ok(&returned)["answer"]["value"], "42");
    }
}

/// What asks is granted, answered with what it asks for, and ended where nobody answers yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_asks_in_the_middle_of_its_call() {
    let asks = misbehaving("asks");
    let files: &[(&str, &[u8])] = &[("asks.wasm", &asks)];
    let refused = WithPolicy::start(files, "# nothing").await.host.faults();
    assert!(
        refused[0].contains("imports agent:tool/ask, and the policy (TOOLS_POLICY) does not grant"),
        "{refused:?}"
    );

    let host = WithPolicy::start(files, &entry("asks", &asks, "ask = true")).await;
    assert_eq!(host.host.faults(), Vec::<String>::new());
    let tools = host.host.host.current_for(Principal::nobody());
    let spec = tools.catalog().get("order").unwrap();
    assert!(spec.may_ask && spec.is_replayable && !spec.calls_tools && tools.may_wait());
    assert!(!tools.may_wait_for("order"), "only calls of it do, and it ends itself");
    let listed = host.host.host.list();
    let order = listed.iter().find(|tool| tool.tool == "order").unwrap();
    assert_eq!(order.hints, [("asks".to_owned(), "true".to_owned())], "operators see that it may");
    // The first question is answered; at the second one the call ends, and is no failure of the tool.
    let ended = call(&tools, "order", json!({ "thing": "shoes" }), 9).await;
    assert_eq!(ended.receipt.outcome, ToolOutcome::Cancelled, "{}", ended.content);
    assert_eq!(ended.receipt.detail.unwrap().attempts, 1);
    // Outside of a run there is nobody.
    let alone = host.host.call("order", json!({ "thing": "shoes" })).await;
    assert_eq!(alone.receipt.code(), Some("denied"));
    assert!(alone.content.contains("nobody can be asked here"), "{}", alone.content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_is_taken_away_ends_the_calls() {
    let host = host().await;
    let tools = host.host.host.current_for(Principal::nobody());
    host.change("# nothing").await;
    let sum = json!({"name": "calculate", "arguments": {"expression": "6*7"}});
    let denied = call(&tools, "call_tool", sum, 9).await;
    assert!(denied.content.starts_with("Error: denied: the operator"), "{}", denied.content);
}
