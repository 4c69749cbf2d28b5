//! What the host computes for guests: bounded in memory and steps, and on threads that serve nobody else.

use std::fs;

use agent_core::ports::Toolbox;
use agent_core::words::ToolOutcome;
use futures::future::join_all;
use serde_json::json;
use tool_host::ToolLimits;

use crate::harness::{Host, call_on, limits};
use crate::text::Text;

const MIB: usize = 1 << 20;

/// Does something, which may take that many bytes of memory at most.
async fn within<T>(most: usize, doing: impl Future<Output = T>) -> T {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmRSS:");
    let done = doing.await;
    let more = memory("VmHWM:").saturating_sub(before);
    assert!(more < most, "{} MiB", more / MIB);
    done
}

fn memory(key: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// A megabyte of numbers, just within the output limit.
fn numbers() -> String {
    format!("[{}0]", "0,".repeat(500_000))
}

/// A tool that returns this under this schema.
fn returning(tool: &str, output_schema: &str, value: &str) -> Vec<u8> {
    Text { tool, output_schema: Some(output_schema), value, ..Text::default() }.component()
}

/// Ample time: these tests are about memory and threads.
fn patient() -> ToolLimits {
    ToolLimits { timeout: std::time::Duration::from_secs(120), ..limits() }
}

async fn host_of(tool: &str, output_schema: &str, value: &str) -> Host {
    let host = Host::start(&[("text.wasm", &returning(tool, output_schema, value))], patient()).await;
    assert_eq!(host.faults(), Vec::<String>::new());
    host
}

#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte_against_990_branches_costs_less_than_64_mib() {
    let branches = vec![json!({"type": "string"}); 990];
    let host = host_of("branches", &json!({ "anyOf": branches }).to_string(), &numbers()).await;
    let returned = within(64 * MIB, host.call("branches", json!({}))).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::InvalidOutput, "{}", returned.content);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_item_against_990_branches_is_given_up_and_the_model_is_told() {
    let branches = vec![json!({"type": "string"}); 990];
    let schema = json!({ "items": { "anyOf": branches } }).to_string();
    let host = host_of("branches", &schema, &numbers()).await;
    let returned = within(64 * MIB, host.call("branches", json!({}))).await;
    // The first five items that are wrong are all that anybody wants to know of.
    assert_eq!(returned.receipt.outcome, ToolOutcome::InvalidOutput, "{}", returned.content);

    let mut branches = vec![json!({"type": "string"}); 989];
    branches.push(json!({"type": "integer"}));
    let schema = json!({ "items": { "anyOf": branches } }).to_string();
    let host = host_of("right", &schema, &numbers()).await;
    let returned = host.call("right", json!({})).await;
    assert_eq!(returned.content, "Error: the tool returned too much to be checked. Ask it for less.");
    assert_eq!(returned.receipt.outcome, ToolOutcome::OutputLimit);
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_megabytes_of_wrong_items_at_once_stay_bounded() {
    let host = host_of("wrong", r#"{"items":{"type":"string"}}"#, &numbers()).await;
    // A few values of 25 MiB at a time, and what sixteen guests hold.
    let calls = within(256 * MIB, join_all((0..16).map(|_| host.call("wrong", json!({}))))).await;
    for call in calls {
        assert_eq!(call.receipt.outcome, ToolOutcome::InvalidOutput, "{}", call.content);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_whose_value_would_be_huge_is_not_even_read() {
    let objects = format!("[{}{{}}]", r#"{"a":0},"#.repeat(130_000));
    let host = host_of("objects", r#"{"type":"array"}"#, &objects).await;
    let returned = within(64 * MIB, host.call("objects", json!({}))).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::OutputLimit, "{}", returned.content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte_that_fits_its_schema_is_passed_on() {
    let host = host_of("right", r#"{"items":{"type":"integer"}}"#, &numbers()).await;
    assert_eq!(host.call("right", json!({})).await.content.len(), numbers().len());
}

/// As in the binary: the threads that serve are not those of the guests. Here there is one that serves.
#[test]
fn heavy_checks_hold_up_nobody() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let serving = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    serving.block_on(async {
        // Patterns that are as large as may be, against a text that none of them is found in.
        let patterns: Vec<_> = (0..10).map(|n| json!({"pattern": format!("a[ab]{{30{n}}}[x-z]")})).collect();
        let hostile = returning(
            "hostile",
            &json!({ "anyOf": patterns }).to_string(),
            &json!("a".repeat(16 << 10)).to_string(),
        );
        let quick = returning("quick", r#"{"type":"object"}"#, r#"{"ok":true}"#);
        let files: [(&str, &[u8]); 2] = [("hostile.wasm", &hostile), ("quick.wasm", &quick)];
        let host =
            Host::start_with(&files, patient(), |config| config.guest_runtime = runtime.handle().clone())
                .await;
        assert_eq!(host.faults(), Vec::<String>::new());
        let tools = host.host.everything();
        let mut heavy = std::pin::pin!(join_all((0..8).map(|_| call_on(&*tools, "hostile", json!({})))));
        let mut answered = 0;
        let ended = loop {
            assert_eq!(host.call("quick", json!({})).await.receipt.outcome, ToolOutcome::Ok);
            answered += 1;
            if let std::task::Poll::Ready(ended) = futures::poll!(&mut heavy) {
                break ended;
            }
            tokio::task::yield_now().await;
        };
        assert!(answered > 8, "only {answered} beside the heavy checks");
        for call in ended {
            assert_eq!(call.receipt.outcome, ToolOutcome::OutputLimit, "{}", call.content);
        }
    });
    runtime.shutdown_background();
}
