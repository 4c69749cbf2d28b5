//! The misbehaving component: alone, and beside nine healthy calls that must not notice.

use std::time::{Duration, Instant};

use agent_core::ports::{ToolRequest, Toolbox};
use agent_core::words::{ToolCall, ToolOutcome};
use futures::future::join_all;
use serde_json::{Value, json};
use tool_host::ToolLimits;

use crate::harness::{Host, call_on, call_until, limits, logged, misbehaving};

async fn start(limits: ToolLimits) -> Host {
    let host = Host::start(&[("misbehaving.wasm", &misbehaving("misbehaving"))], limits).await;
    assert_eq!(host.faults(), Vec::<String>::new());
    host
}

const SLOW: &str = "Error: the tool did not finish within 400 ms and was stopped.";
const SLOWER_THAN_IT_SAYS: &str = "Error: the tool did not finish within 50 ms and was stopped.";
const LARGE: &str = "Error: the tool needed more memory than it may have (64 MiB) and was stopped.";
const LONG: &str = "Error: the tool returned more than 1048576 bytes. Ask it for less.";
const CRASHED: &str = "Error: the tool crashed.";
const UNFIT: &str = "Error: the tool returned something that does not match its own description.";

/// What is called with what, how that ends, and what the model is told.
const ENDS: [(&str, &str, ToolOutcome, &str); 13] = [
    ("loop_forever", "{}", ToolOutcome::TimedOut, SLOW),
    ("loop_past_its_timeout", "{}", ToolOutcome::TimedOut, SLOWER_THAN_IT_SAYS),
    ("allocate_forever", "{}", ToolOutcome::MemoryLimit, LARGE),
    ("return_100_mb", "{}", ToolOutcome::MemoryLimit, LARGE),
    ("return_100_mb", r#"{"mb":20}"#, ToolOutcome::OutputLimit, LONG),
    // Just over the limit, where the copy is made and then thrown away.
    ("return_100_mb", r#"{"mb":1}"#, ToolOutcome::OutputLimit, LONG),
    ("trap", r#"{"by":"unreachable"}"#, ToolOutcome::Trapped, CRASHED),
    ("trap", r#"{"by":"panic"}"#, ToolOutcome::Trapped, CRASHED),
    ("trap", r#"{"by":"out-of-bounds"}"#, ToolOutcome::Trapped, CRASHED),
    ("recurse_forever", "{}", ToolOutcome::Trapped, CRASHED),
    ("return_bad_json", "{}", ToolOutcome::InvalidOutput, UNFIT),
    ("return_wrong_shape", "{}", ToolOutcome::InvalidOutput, UNFIT),
    (
        "fail",
        r#"{"message":"no\nsuch \u001b[31mthing"}"#,
        ToolOutcome::Failed,
        "Error: unavailable: no\\nsuch \\u{1b}[31mthing",
    ),
];

/// Alone, and then beside nine healthy calls, which are well.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_misbehaves_is_stopped_and_the_model_is_told() {
    let host = start(limits()).await;
    for (tool, arguments, outcome, answer) in ENDS {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let alone = host.call(tool, arguments.clone()).await;
        assert_eq!((alone.receipt.outcome, alone.content.as_str()), (outcome, answer), "{tool} alone");

        let bad = host.call(tool, arguments);
        let good = join_all((0..9).map(|n| host.call("echo", json!({"value": n}))));
        let (bad, good) = tokio::join!(bad, good);
        assert_eq!((bad.receipt.outcome, bad.content.as_str()), (outcome, answer), "{tool} in company");
        for (n, good) in good.into_iter().enumerate() {
            assert_eq!(good.content, format!(r#"{{"value":{n}}}"#), "echo beside {tool}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_megabytes_are_refused_even_where_memory_allows_them() {
    let host =
        start(ToolLimits { memory_bytes: 512 << 20, timeout: Duration::from_secs(20), ..limits() }).await;
    let returned = host.call("return_100_mb", json!({})).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::OutputLimit);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_failure_is_told_to_the_model_in_part() {
    let host = start(limits()).await;
    let long = host.call("fail", json!({"message": "x".repeat(100_000)})).await;
    assert!(long.content.len() < 5_000, "{}", long.content.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_match_the_schema_never_reach_the_tool() {
    let host = start(limits()).await;
    let returned = host.call("trap", json!({"by": "surprise", "hard": true})).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::InvalidArguments);
    assert!(returned.content.starts_with("Error: invalid arguments: "), "{}", returned.content);
    assert_eq!(host.last_cost(), tool_host::Cost::default(), "nothing ran");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_knows_its_context_and_keeps_nothing() {
    let host = start(limits()).await;
    let call = ToolCall { id: "1".into(), name: "look_around".into(), arguments: json!({}) };
    let of_a_run = ToolRequest {
        run_id: "run_1",
        call_id: "run_1.2",
        attempt: 3,
        ..ToolRequest::outside_of_runs("req-1", &call, Instant::now() + Duration::from_secs(60))
    };
    let text = host.host.everything().call(of_a_run).await.content;
    let around: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(around["request_id"], "req-1");
    assert_eq!(around["cancelled"], false);
    assert_eq!(
        (&around["run_id"], &around["call_id"], &around["attempt"]),
        (&json!("run_1"), &json!("run_1.2"), &json!(3))
    );
    assert_eq!((&around["traceparent"], &around["somebody_waits"]), (&Value::Null, &json!(true)));
    assert!((1..=400).contains(&around["remaining_ms"].as_u64().unwrap()), "{around}");
    assert!(around["now_ms"].as_u64().unwrap() > 1_700_000_000_000, "{around}");
    for _ in 0..3 {
        assert_eq!(host.call("count_calls", json!({})).await.content, r#"{"calls":1}"#);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_callers_deadline_ends_a_call_earlier_than_the_tools_limit() {
    let host = start(ToolLimits { timeout: Duration::from_secs(60), ..limits() }).await;
    let deadline = Instant::now() + Duration::from_millis(100);
    let returned = call_until(&*host.host.everything(), "loop_forever", json!({}), deadline).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::TimedOut);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_call_interrupts_the_guest() {
    // One slot: the second call gets it only when the first guest is really gone.
    let host = start(ToolLimits { timeout: Duration::from_secs(60), concurrency: 1, ..limits() }).await;
    let tools = host.host.everything();
    let endless = call_on(&*tools, "loop_forever", json!({}));
    let dropped = tokio::time::timeout(Duration::from_millis(100), endless).await;
    assert!(dropped.is_err(), "it loops for ever");
    let next = host.call("echo", json!({"value": 1})).await;
    assert_eq!(next.content, r#"{"value":1}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_over_the_concurrency_limit_wait_their_turn_within_their_deadline() {
    let host = start(ToolLimits { concurrency: 1, ..limits() }).await;
    // Both want 400 ms of the one slot: the second has none of its own left when its turn comes.
    let calls = join_all((0..2).map(|_| host.call("loop_forever", json!({})))).await;
    assert!(calls.iter().all(|call| call.receipt.outcome == ToolOutcome::TimedOut), "{calls:?}");
    assert_eq!(host.call("echo", json!({"value": 1})).await.receipt.outcome, ToolOutcome::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_that_compute_for_long_do_not_hold_up_the_threads_that_serve() {
    // As in the binary: guests go on on a runtime of their own once they took longer than a tick.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let limits = ToolLimits { timeout: Duration::from_secs(2), ..limits() };
    let host = Host::start_with(&[("misbehaving.wasm", &misbehaving("misbehaving"))], limits, |config| {
        config.guest_runtime = runtime.handle().clone();
    })
    .await;
    let tools = host.host.everything();
    let hogs: Vec<_> = (0..8)
        .map(|_| {
            let tools = tools.clone();
            let call = async move { call_on(&*tools, "loop_forever", json!({})).await };
            #[expect(clippy::disallowed_methods, reason = "a test may spawn")]
            tokio::spawn(call)
        })
        .collect();
    // While eight guests loop, healthy calls are answered: more of them than ticks would allow on one thread.
    let mut answered = 0;
    while hogs.iter().any(|hog| !hog.is_finished()) {
        assert_eq!(host.call("echo", json!({"value": 1})).await.receipt.outcome, ToolOutcome::Ok);
        answered += 1;
    }
    assert!(answered > 8, "only {answered} healthy calls beside the hogs");
    for hog in hogs {
        assert_eq!(hog.await.unwrap().receipt.outcome, ToolOutcome::TimedOut);
    }
    runtime.shutdown_background();
}

#[test]
fn a_flooded_log_is_bounded_and_says_so() {
    let text = logged(|_| async {
        let limits = ToolLimits { timeout: Duration::from_secs(20), log_lines: 5, ..limits() };
        let host = start(limits).await;
        let flood = json!({"lines": 1000, "bytes": 10_000});
        let returned = host.call("flood_log", flood).await;
        assert_eq!(returned.receipt.outcome, ToolOutcome::Ok, "{returned:?}");
    });
    let flood: Vec<_> = text.lines().filter(|line| line.contains("flood flood")).collect();
    assert_eq!(flood.len(), 5);
    assert!(flood.iter().all(|line| line.len() < 1_500), "{}", flood[0].len());
    assert!(text.contains("the tool wrote more log lines than it may") && text.contains("dropped=995"));
    assert_eq!(ToolLimits::default().log_lines, 100, "what a call may write when nobody says another number");
}

#[test]
fn log_lines_are_bounded_over_all_calls_of_a_component() {
    let text = logged(|_| async {
        let host = start(ToolLimits { timeout: Duration::from_secs(20), ..limits() }).await;
        for _ in 0..15 {
            let returned = host.call("flood_log", json!({"lines": 100, "bytes": 10})).await;
            assert_eq!(returned.receipt.outcome, ToolOutcome::Ok, "{returned:?}");
        }
    });
    let (said, flood): (Vec<_>, Vec<_>) =
        text.lines().partition(|line| line.contains("the tool wrote more log lines than it may"));
    // A thousand at once and fifty a second.
    let flood = flood.iter().filter(|line| line.contains("flood")).count();
    assert!((1_000..1_500).contains(&flood), "{flood}");
    assert!((1..5).contains(&said.len()), "not for every call: {said:?}");
}

/// Built against agent:tool@0.1.0, when that was the only version.
#[tokio::test(flavor = "multi_thread")]
async fn a_component_of_the_first_contract_runs_unchanged() {
    let built = include_bytes!("../fixtures/agent-tool-0.1.0.wasm");
    let host = Host::start(&[("former.wasm", built)], limits()).await;
    assert_eq!(host.faults(), Vec::<String>::new());
    assert_eq!(host.call("echo", json!({"value": [1, "two"]})).await.content, r#"{"value":[1,"two"]}"#);
    let around: Value = serde_json::from_str(&host.call("look_around", json!({})).await.content).unwrap();
    assert_eq!(around["request_id"], "req-1");
}
