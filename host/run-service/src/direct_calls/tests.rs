//! Calls outside of runs.

mod waiting;

use agent_core::ports::{Question, WaitTerms};
use agent_core::testing::{EchoTools, SwappedTools};
use agent_core::words::{ToolOutcome, ToolReceipt, ToolSpec};
use boxed_async::boxed_async;
use futures::FutureExt as _;
use serde_json::json;

use super::*;

fn premium() -> Principal {
    Principal { tier: Some("premium".into()), ..Principal::user("u1") }
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(object) = value else { panic!("{value}") };
    object
}

async fn call(calls: &DirectCalls, caller: &Principal, name: &str, arguments: Value) -> ToolReturn {
    let arguments = object(arguments);
    let wanted = DirectCall { request_id: "r", caller, name, arguments: &arguments, progress: None };
    match calls.call(wanted).await {
        Called::Answered(answer) => answer,
        waits @ Called::Waits { .. } => panic!("{waits:?}"),
    }
}

#[tokio::test]
async fn a_caller_has_the_tools_that_a_run_of_theirs_would_have() {
    let tools = EchoTools::new(&["add", "search"]).only_for_tier("search", "premium");
    let calls = DirectCalls::new(Arc::new(tools), Duration::from_secs(30));
    let too_deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    for (caller, name, arguments, outcome) in [
        (premium(), "search", json!({"a": 1}), ToolOutcome::Ok),
        (Principal::user("u1"), "search", json!({}), ToolOutcome::UnknownTool),
        (Principal::user("u1"), "add", json!({}), ToolOutcome::Ok),
        (Principal::default(), "add", json!({}), ToolOutcome::Ok),
        (premium(), "nope", json!({}), ToolOutcome::UnknownTool),
        (premium(), "add", json!({ "a": too_deep }), ToolOutcome::InvalidArguments),
    ] {
        let answer = call(&calls, &caller, name, arguments.clone()).await;
        assert_eq!(answer.receipt.outcome, outcome, "{caller:?} {name}");
        if outcome == ToolOutcome::Ok {
            assert_eq!(answer.content, arguments.to_string());
        }
        let names: Vec<_> = calls.catalog(&caller).tools().iter().map(|tool| tool.name.clone()).collect();
        assert_eq!(names.contains(&"search".to_owned()), caller.tier.is_some(), "{caller:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_are_told_once_and_to_whoever_missed_them() {
    let toolbox = Arc::new(SwappedTools::new(EchoTools::new(&["add"])));
    let calls = DirectCalls::new(toolbox.clone(), Duration::from_secs(30));
    let user = Principal::user("u1");
    let mut of_user = calls.changes(&user, None);
    let before = of_user.digest().to_owned();
    assert!(of_user.next().now_or_never().is_none());
    toolbox.swap(EchoTools::of_digest("sha256:another"));
    let now = of_user.next().await.unwrap().to_owned();
    assert_ne!(now, before);
    assert_eq!(now, calls.catalog(&user).digest());
    assert!(of_user.next().now_or_never().is_none(), "each change is told once");
    // Whoever returns hears at once of what they missed, and of nothing else.
    assert_eq!(calls.changes(&user, Some(&before)).next().await, Some(now.as_str()));
    assert!(calls.changes(&user, Some(&now)).next().now_or_never().is_none());
    let stopping = CancellationToken::new();
    let calls = calls.until(stopping.clone());
    stopping.cancel();
    assert_eq!(calls.changes(&user, None).next().await, None);
}

#[tokio::test]
async fn a_call_that_is_dropped_gives_its_permit_back() {
    let calls = DirectCalls::new(Arc::new(EchoTools::new(&["add"]).hanging()), Duration::from_secs(30));
    let user = Principal::user("u1");
    let hang = || Box::pin(call(&calls, &user, "add", json!({})));
    let mut held: Vec<_> = (0..MOST_AT_ONCE).map(|_| hang()).collect();
    assert!(held.iter_mut().all(|call| call.as_mut().now_or_never().is_none()));
    let refused = hang().await;
    assert_eq!(refused.receipt.outcome, ToolOutcome::NotRun);
    assert!(refused.content.contains("32 calls under way"), "{}", refused.content);
    held.pop();
    assert!(hang().now_or_never().is_none(), "it is made again");
}

/// `script` calls what its arguments name, asks for `?`, and returns how each ended.
struct Scripts(Arc<Catalog>);

impl Scripts {
    fn new() -> Self {
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            calls_tools: name.starts_with("script"),
            ..ToolSpec::default()
        };
        let tools = ["add", "script", "script_2"].map(tool).into();
        Self(Arc::new(Catalog::new(tools, "sha256:scripts".into())))
    }
}

#[boxed_async]
impl ToolSet for Scripts {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.0
    }

    fn approval(&self, _call: &ToolCall, _caller: &Principal) -> Option<WaitTerms> {
        None
    }

    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn {
        let mut ends = vec![];
        if let Some(nested) = request.nested {
            assert_eq!(nested.names(), ["add"]);
            for name in request.call.arguments["calls"].as_array().unwrap() {
                let answer = match name.as_str().unwrap() {
                    "?" => nested.ask(Question { component: "c", text: "Which?", schema: None }).await,
                    name => nested.call(name, "{}").await,
                };
                let answer = answer.unwrap();
                ends.push(answer.receipt.code().unwrap_or(answer.receipt.outcome.as_str()).to_owned());
            }
        }
        let receipt = ToolReceipt::new(&request.call.name, ToolOutcome::Ok);
        ToolReturn { content: json!(ends).to_string(), receipt }
    }
}

struct Scripted;

impl Toolbox for Scripted {
    fn current_for(&self, _caller: &Principal) -> Arc<dyn ToolSet> {
        Arc::new(Scripts::new())
    }

    fn everything(&self) -> Arc<dyn ToolSet> {
        Arc::new(Scripts::new())
    }
}

#[tokio::test]
async fn a_tool_may_call_the_callers_other_tools_within_bounds() {
    let calls = DirectCalls::new(Arc::new(Scripted), Duration::from_secs(30));
    let ended = async |names: Vec<&str>| {
        let answer = call(&calls, &premium(), "script", json!({ "calls": names })).await;
        let ends: Vec<String> = serde_json::from_str(&answer.content).unwrap();
        (ends, answer.receipt.nested)
    };
    let (ends, made) = ended(vec!["add", "script_2", "nope"]).await;
    assert_eq!((ends.as_slice(), made), (&["ok", "denied", "unknown_tool"].map(String::from)[..], 3));
    assert_eq!(ended(vec!["?"]).await.0, ["denied"], "nobody can be asked");
    let (ends, made) = ended(vec!["add"; 66]).await;
    assert_eq!((ends[63].as_str(), ends[64].as_str(), made), ("ok", "limit-exceeded", 64));
}
