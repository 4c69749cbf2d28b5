//! Who may call at the same time, and where: a component that hangs keeps nobody else waiting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{ToolSet, Toolbox};
use agent_core::words::{ToolOutcome, ToolReturn};
use serde_json::json;
use tool_host::ToolLimits;

use crate::harness::{Host, call_on, call_until, limits, logged, misbehaving};
use crate::text::Text;

const CLOCK: &str = r#"(import "agent:tool/clock@0.1.1" "now-ms" (func $now (result i64)))"#;

fn quick() -> Vec<u8> {
    Text { tool: "quick", ..Text::default() }.component()
}

/// A call that goes on by itself.
fn begin(tools: &Arc<dyn ToolSet>, tool: &'static str) -> tokio::task::JoinHandle<ToolReturn> {
    let tools = tools.clone();
    #[expect(clippy::disallowed_methods, reason = "a test may spawn")]
    tokio::spawn(async move { call_on(&*tools, tool, json!({})).await })
}

/// A host of which one call goes on for ever.
async fn hogged(limits: ToolLimits) -> (Host, Arc<dyn ToolSet>, tokio::task::JoinHandle<ToolReturn>) {
    let host = Host::start(&[("hogs.wasm", &misbehaving("misbehaving"))], limits).await;
    let tools = host.host.everything();
    let hog = begin(&tools, "loop_forever");
    while host.host.calls_under_way() == 0 {
        tokio::task::yield_now().await;
    }
    (host, tools, hog)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_hangs_starves_only_itself() {
    let limits = ToolLimits { concurrency: 4, component_concurrency: 2, ..limits() };
    let files: [(&str, &[u8]); 2] = [("hogs.wasm", &misbehaving("misbehaving")), ("quick.wasm", &quick())];
    let host = Host::start(&files, ToolLimits { timeout: Duration::from_secs(2), ..limits }).await;
    let tools = host.host.everything();
    let hogs: Vec<_> = (0..2).map(|_| begin(&tools, "loop_forever")).collect();
    while host.host.calls_under_way() < 2 {
        tokio::task::yield_now().await;
    }
    // The tool has a time limit of its own, 50 ms.
    let busy = host.call("loop_past_its_timeout", json!({})).await.content;
    assert_eq!(
        busy,
        "Error: the tool is busy with other calls; this one did not get its turn within 50 ms. Try again later."
    );
    let mut answered = 0;
    while !hogs.iter().any(tokio::task::JoinHandle::is_finished) {
        assert_eq!(host.call("quick", json!({})).await.receipt.outcome, ToolOutcome::Ok);
        answered += 1;
    }
    assert!(answered > 8, "only {answered} beside the component that hangs");
    for hog in hogs {
        assert_eq!(hog.await.unwrap().receipt.outcome, ToolOutcome::TimedOut);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_can_be_taken_up_while_all_slots_are_taken() {
    let limits =
        ToolLimits { concurrency: 1, component_concurrency: 1, timeout: Duration::from_secs(60), ..limits() };
    let (host, _tools, hog) = hogged(limits).await;
    host.put("quick.wasm", &quick());
    host.until(|host| !host.faults().is_empty() || host.names().contains(&"quick".to_owned())).await;
    assert_eq!(host.faults(), Vec::<String>::new());
    hog.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_computes_for_milliseconds_is_begun_beside_the_threads_that_serve() {
    // Counts the time until fifty milliseconds are over, so that a thread which has to wait for a processor
    // still sees the call under way.
    let call = "(local $end i64)
        (local.set $end (i64.add (call $now) (i64.const 50)))
        (loop $again (br_if $again (i64.lt_u (call $now) (local.get $end))))
        (i32.const 96)";
    let slow = Text { tool: "slow", imports: CLOCK, call, ..Text::default() }.component();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let files: [(&str, &[u8]); 2] = [("slow.wasm", &slow), ("quick.wasm", &quick())];
    let host =
        Host::start_with(&files, ToolLimits { timeout: Duration::from_secs(20), ..limits() }, |config| {
            config.guest_runtime = runtime.handle().clone();
        })
        .await;
    assert_eq!(host.faults(), Vec::<String>::new());
    // The host learns how long each takes.
    for _ in 0..3 {
        assert_eq!(host.call("slow", json!({})).await.receipt.outcome, ToolOutcome::Ok);
    }
    for _ in 0..100 {
        assert_eq!(host.call("quick", json!({})).await.receipt.outcome, ToolOutcome::Ok);
    }
    let tools = host.host.everything();
    let mut calls: Vec<_> = (0..2).map(|_| Box::pin(call_on(&*tools, "slow", json!({})))).collect();
    for call in &mut calls {
        assert!(futures::poll!(call).is_pending(), "it is begun elsewhere");
    }
    for call in calls {
        assert_eq!(call.await.receipt.outcome, ToolOutcome::Ok);
    }
    // A thread that was held up while it measured a call makes that call look slow, and the next ones bring
    // the mean down again: what counts is that a call of microseconds is ever answered by the thread that
    // polls it.
    loop {
        let mut quick = std::pin::pin!(call_on(&*tools, "quick", json!({})));
        if futures::poll!(&mut quick).is_ready() {
            break;
        }
        assert_eq!(quick.await.receipt.outcome, ToolOutcome::Ok);
    }
    runtime.shutdown_background();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_stopped_reports_what_it_cost() {
    let host = Host::start_with(&[("hogs.wasm", &misbehaving("misbehaving"))], limits(), |config| {
        config.metering = true;
    })
    .await;
    assert_eq!(host.call("loop_forever", json!({})).await.receipt.outcome, ToolOutcome::TimedOut);
    let cost = host.last_cost();
    assert!(cost.peak_memory_bytes >= 64 << 10 && cost.run >= Duration::from_millis(200), "{cost:?}");
    assert!(cost.fuel.is_some_and(|fuel| fuel > 0), "{cost:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_caller_goes_away_is_reported_too() {
    let limits = ToolLimits { timeout: Duration::from_secs(60), ..limits() };
    let host = Host::start(&[("hogs.wasm", &misbehaving("misbehaving"))], limits).await;
    let tools = host.host.everything();
    let endless = call_on(&*tools, "loop_forever", json!({}));
    assert!(tokio::time::timeout(Duration::from_millis(100), endless).await.is_err());
    assert_eq!(host.last_outcome(), ToolOutcome::Cancelled);
    assert!(host.last_cost().peak_memory_bytes >= 64 << 10, "{:?}", host.last_cost());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_its_turn_waits_no_longer_than_its_caller() {
    let limits = ToolLimits { component_concurrency: 1, timeout: Duration::from_secs(60), ..limits() };
    let (host, tools, hog) = hogged(limits).await;
    let deadline = Instant::now() + Duration::from_millis(50);
    let returned = call_until(&*tools, "echo", json!({"value": 1}), deadline).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::TimedOut);
    assert!(returned.content.contains("the tool is busy"), "{}", returned.content);
    assert_eq!(host.last_cost(), tool_host::Cost::default(), "nothing ran");
    hog.abort();
}

/// Waits until it is cancelled, then writes a line and ends.
fn watching() -> Vec<u8> {
    let imports = r#"
        (import "agent:tool/context@0.1.1" "cancelled" (func $cancelled (result i32)))
        (import "agent:tool/log@0.1.1" "write" (func $write (param i32 i32 i32 i32 i32 i32)))"#;
    let call = r"(loop $again (br_if $again (i32.eqz (call $cancelled))))
        (call $write (i32.const 2000) (i32.const 4) (i32.const 2004) (i32.const 8) (i32.const 0) (i32.const 0))
        (i32.const 96)";
    let fields = r#"(data (i32.const 2000) "infowind up.")"#;
    Text { tool: "watching", imports, fields, call, ..Text::default() }.component()
}

#[test]
fn a_tool_whose_caller_goes_away_can_see_it_and_end_well() {
    let text = logged(|_| async {
        let limits = ToolLimits { timeout: Duration::from_secs(60), concurrency: 1, ..limits() };
        let host = Host::start(&[("watching.wasm", &watching())], limits).await;
        assert_eq!(host.faults(), Vec::<String>::new());
        let tools = host.host.everything();
        let waiting = call_on(&*tools, "watching", json!({}));
        assert!(tokio::time::timeout(Duration::from_millis(50), waiting).await.is_err());
        while host.host.calls_under_way() > 0 {
            tokio::task::yield_now().await;
        }
    });
    assert!(text.contains("wind up."), "{text}");
}
