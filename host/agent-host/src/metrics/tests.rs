//! What a scrape shows, and that it is the format it claims to be.

mod outcomes;

use std::time::{Duration, Instant};

use agent_core::ports::{ModelError, ModelRequest, ToolChoice, ToolFault};
use agent_core::testing::{ScriptedModel, says};
use agent_core::words::{Catalog, ModelReply, NO_RULES, ToolOutcome, Usage};
use boxed_async::boxed_async;
use futures::FutureExt as _;
use run_service::layers::{Ask, Invoke, InvokeError};
use run_service::testing::ScriptedInvoke;
use tool_host::{CallReport, Cost};

use super::*;

fn metrics(prefix: &str) -> Metrics {
    Metrics::new(Environment::Production, prefix, vec![Handle::current()]).unwrap()
}

/// The lines that begin with `start`, and those that describe them.
fn lines(metrics: &Metrics, start: &str) -> String {
    let text = metrics.render();
    let bare = |line: &&str| {
        let name = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or(line);
        name.starts_with(start)
    };
    text.lines().filter(bare).map(|line| format!("{line}\n")).collect()
}

/// The bounds of a histogram's buckets, and how many are in each.
fn buckets(metrics: &Metrics, histogram: &str) -> String {
    let bucket = |line: &str| Some(line.rsplit_once("le=\"")?.1.replace("\"}", ""));
    let text = lines(metrics, &format!("{histogram}_bucket{{"));
    text.lines().filter_map(bucket).collect::<Vec<_>>().join(", ")
}

fn ask() -> Ask {
    Ask::new("r".into(), "hi".into())
}

#[tokio::test]
async fn the_series_of_the_interface_are_there_from_the_start() {
    let metrics = metrics("agent_");
    insta::assert_snapshot!(lines(&metrics, "agent_invocations_total"), @r#"
    # HELP agent_invocations_total Total agent invocations
    # TYPE agent_invocations_total counter
    agent_invocations_total{environment="production",version="0.1.0"} 0
    "#);
    insta::assert_snapshot!(lines(&metrics, "agent_duration_seconds "), @r"
    # HELP agent_duration_seconds Agent execution duration
    # TYPE agent_duration_seconds histogram
    ");
    insta::assert_snapshot!(buckets(&metrics, "agent_duration_seconds"), @"0.005 0, 0.01 0, 0.025 0, 0.05 0, 0.1 0, 0.25 0, 0.5 0, 1 0, 2.5 0, 5 0, 10 0, 30 0, 60 0, 120 0, 300 0, +Inf 0");
    insta::assert_snapshot!(lines(&metrics, "agent_duration_seconds_sum"), @r#"agent_duration_seconds_sum{environment="production",version="0.1.0"} 0"#);
    insta::assert_snapshot!(lines(&metrics, "agent_duration_seconds_count"), @r#"agent_duration_seconds_count{environment="production",version="0.1.0"} 0"#);
    insta::assert_snapshot!(lines(&metrics, "agent_active_requests"), @r#"
    # HELP agent_active_requests Requests in progress
    # TYPE agent_active_requests gauge
    agent_active_requests{environment="production",version="0.1.0"} 0
    "#);
}

#[tokio::test]
async fn an_invocation_is_active_until_it_ends_however_it_does() {
    let metrics = metrics("agent_");
    let agent = ScriptedInvoke::hanging();
    agent.add(Err(InvokeError::TimedOut { limit: Duration::ZERO, retry_after: None, in_tools: false }));
    agent.panic();
    let metered = metrics.metered(agent);
    let active = || lines(&metrics, "agent_active_requests{").trim().rsplit_once(' ').unwrap().1.to_owned();

    let mut endless = metered.invoke(ask());
    assert!(endless.as_mut().now_or_never().is_none());
    assert_eq!(active(), "1");
    drop(endless);
    assert_eq!(active(), "0");

    metered.invoke(ask()).await.unwrap_err();
    std::panic::AssertUnwindSafe(metered.invoke(ask())).catch_unwind().await.unwrap_err();
    assert_eq!(active(), "0");
    for series in ["agent_invocations_total{", "agent_duration_seconds_count{"] {
        assert!(lines(&metrics, series).ends_with(" 3\n"), "{}", lines(&metrics, series));
    }
}

#[tokio::test]
async fn model_calls_are_counted_with_their_tokens_and_their_end() {
    struct Endless;
    #[boxed_async]
    impl Model for Endless {
        fn name(&self) -> &'static str {
            "test/endless"
        }
        async fn complete(&self, _: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
            std::future::pending().await
        }
    }

    let metrics = metrics("agent_");
    let provider = "test/scripted".to_owned();
    let kept = ModelReply { usage: Some(Usage { cached_tokens: 8, ..Usage::of(10, 5) }), ..says("hi") };
    let script =
        [Ok(kept), Ok(ModelReply { usage: None, ..says("hi") }), Err(ModelError::Timeout { provider })];
    let model = metrics.metered_model(Arc::new(ScriptedModel::new(script)));
    let endless = metrics.metered_model(Arc::new(Endless));
    let tools = Catalog::default();
    let request = ModelRequest {
        request_id: "r",
        messages: &[],
        tools: &tools,
        tool_choice: ToolChoice::Auto,
        rules: &NO_RULES,
        max_tokens: 1,
        temperature: 0.0,
        deadline: Instant::now(),
        deltas: None,
    };
    for _ in 0..3 {
        let _ = model.complete(request).await;
    }
    assert!(endless.complete(request).now_or_never().is_none());

    assert_eq!(model.name(), "test/scripted");
    let counts = |start: &str| {
        lines(&metrics, start).lines().filter(|line| !line.ends_with(" 0")).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(counts("agent_model_calls_total{"), @r#"
    agent_model_calls_total{model="test/endless",outcome="dropped"} 1
    agent_model_calls_total{model="test/scripted",outcome="ok"} 2
    agent_model_calls_total{model="test/scripted",outcome="timeout"} 1
    "#);
    insta::assert_snapshot!(counts("agent_model_tokens_total"), @r#"
    # HELP agent_model_tokens_total Tokens that providers say they billed
    # TYPE agent_model_tokens_total counter
    agent_model_tokens_total{kind="input",model="test/scripted"} 10
    agent_model_tokens_total{kind="output",model="test/scripted"} 5
    "#);
    insta::assert_snapshot!(counts("agent_model_cached_tokens_total{"), @r#"agent_model_cached_tokens_total{model="test/scripted"} 8"#);
    insta::assert_snapshot!(lines(&metrics, "agent_model_duration_seconds_count"), @r#"
    agent_model_duration_seconds_count{model="test/endless"} 1
    agent_model_duration_seconds_count{model="test/scripted"} 3
    "#);
}

fn call<'a>(tool: &'a str, component: &'a str, outcome: ToolOutcome) -> CallReport<'a> {
    let cost = Cost { peak_memory_bytes: 65_536, ..Cost::default() };
    CallReport { tool, component, outcome, duration: Duration::from_micros(30), cost }
}

const ADD: (&str, &str, &str) = ("add", "calculator", "sha256:1");

#[tokio::test]
async fn tool_calls_are_counted_by_tool_component_and_outcome() {
    let metrics = metrics("agent_");
    let tools = metrics.tools();
    tools.set_changed(&[ADD], &[]);
    tools.call_ended(&call("add", "calculator", ToolOutcome::Ok));
    tools.call_ended(&call("add", "calculator", ToolOutcome::Ok));
    let refused =
        CallReport { cost: Cost::default(), ..call("add", "calculator", ToolOutcome::InvalidArguments) };
    tools.call_ended(&refused);

    insta::assert_snapshot!(lines(&metrics, "agent_tool_calls_total"), @r#"
    # HELP agent_tool_calls_total Tool calls by how they ended
    # TYPE agent_tool_calls_total counter
    agent_tool_calls_total{component="calculator",outcome="cancelled",tool="add"} 0
    agent_tool_calls_total{component="calculator",outcome="failed",tool="add"} 0
    agent_tool_calls_total{component="calculator",outcome="host_error",tool="add"} 0
    agent_tool_calls_total{component="calculator",outcome="interrupted",tool="add"} 0
    agent_tool_calls_total{component="calculator",outcome="invalid_arguments",tool="add"} 1
    agent_tool_calls_total{component="calculator",outcome="invalid_output",tool="add"} 0
    agent_tool_calls_total{component="calculator",outcome="memory_limit",tool="add"} 0
    agent_tool_calls_total{component="calculator",outcome="not_run",tool="add"} 0
    agent_tool_calls_total{component="calculator",outcome="ok",tool="add"} 2
    agent_tool_calls_total{component="calculator",outcome="output_limit",tool="add"} 0
    agent_tool_calls_total{component="calculator",outcome="timed_out",tool="add"} 0
    agent_tool_calls_total{component="calculator",outcome="trapped",tool="add"} 0
    agent_tool_calls_total{component="calculator",outcome="unknown_tool",tool="add"} 0
    "#);
    insta::assert_snapshot!(buckets(&metrics, "agent_tool_duration_seconds"), @"0.00001 0, 0.000025 0, 0.00005 3, 0.0001 3, 0.00025 3, 0.0005 3, 0.001 3, 0.0025 3, 0.005 3, 0.01 3, 0.025 3, 0.05 3, 0.1 3, 0.25 3, 0.5 3, 1 3, 10 3, 30 3, +Inf 3");
    insta::assert_snapshot!(buckets(&metrics, "agent_tool_peak_memory_bytes"), @"65536 2, 262144 2, 1048576 2, 4194304 2, 16777216 2, 67108864 2, 268435456 2, 1073741824 2, 4294967296 2, +Inf 2");
}

#[tokio::test]
async fn neither_a_tool_nor_a_component_that_was_never_loaded_makes_a_label() {
    let metrics = metrics("agent_");
    let tools = metrics.tools();
    tools.set_changed(&[ADD], &[]);
    assert!(!metrics.render().contains("unknown\""));
    tools.call_ended(&call("rm -rf", "calculator", ToolOutcome::Trapped));
    tools.call_ended(&call("add", "elsewhere", ToolOutcome::Trapped));
    let text = metrics.render();
    assert!(!text.contains("rm -rf") && !text.contains("elsewhere"));
    let unknown = r#"agent_tool_calls_total{component="unknown",outcome="trapped",tool="unknown"} 2"#;
    assert!(text.contains(unknown), "{text}");
}

#[tokio::test]
async fn a_scrape_shows_the_tool_set_of_the_moment() {
    let metrics = metrics("agent_");
    let tools = metrics.tools();
    let set = || {
        let mut text = lines(&metrics, "agent_tool_loaded_info{");
        text += &lines(&metrics, "agent_tool_component_faults{");
        text + &lines(&metrics, "agent_tool_swaps_total{")
    };
    let fault = |file: &str, error: &str| ToolFault { file: file.into(), error: error.into() };
    insta::assert_snapshot!(set(), @r#"
    agent_tool_swaps_total{outcome="failed"} 0
    agent_tool_swaps_total{outcome="swapped"} 0
    "#);

    tools.set_changed(&[ADD], &[]);
    let newer = ("add", "calculator", "sha256:2");
    let broken = [fault("a \"b\".wasm", "no component"), fault("a \"b\".wasm", "and empty")];
    tools.set_changed(&[newer], &broken);
    insta::assert_snapshot!(set(), @r#"
    agent_tool_loaded_info{tool="add",component="calculator",digest="sha256:2"} 1
    agent_tool_component_faults{file="a \"b\".wasm"} 1
    agent_tool_swaps_total{outcome="failed"} 2
    agent_tool_swaps_total{outcome="swapped"} 2
    "#);

    // The fault is mended; what serves is the same.
    tools.set_changed(&[newer], &[]);
    insta::assert_snapshot!(set(), @r#"
    agent_tool_loaded_info{tool="add",component="calculator",digest="sha256:2"} 1
    agent_tool_swaps_total{outcome="failed"} 2
    agent_tool_swaps_total{outcome="swapped"} 2
    "#);
}

#[tokio::test]
async fn withdrawn_versions_and_misplaced_secrets_are_counted_from_zero() {
    let metrics = metrics("agent_");
    let tools = metrics.tools();
    let check = |name: &str, count: u32| {
        let counted = format!("agent_tool_{name}_total{{component=\"calculator\"}} {count}\n");
        assert_eq!(lines(&metrics, &format!("agent_tool_{name}_total{{")), counted);
    };
    tools.set_changed(&[ADD], &[]);
    check("versions_withdrawn", 0);
    check("secrets_met", 0);
    tools.version_withdrawn("calculator");
    tools.secrets_met("calculator", 3);
    tools.secrets_met("elsewhere", 3);
    check("versions_withdrawn", 1);
    check("secrets_met", 3);
}

#[tokio::test]
async fn a_call_that_ends_after_its_tool_has_gone_is_counted() {
    let metrics = metrics("agent_");
    let tools = metrics.tools();
    tools.set_changed(&[ADD], &[]);
    tools.set_changed(&[], &[]);
    tools.call_ended(&call("add", "calculator", ToolOutcome::Ok));
    let calls = lines(&metrics, r#"agent_tool_calls_total{component="calculator",outcome="ok""#);
    assert_eq!(calls, "agent_tool_calls_total{component=\"calculator\",outcome=\"ok\",tool=\"add\"} 1\n");
}

#[tokio::test]
async fn the_prefix_stands_before_the_metrics_of_the_process_only() {
    let metrics = metrics("my:prefix_");
    let text = metrics.render();
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE my:prefix_"))
        .map(|line| line.split(' ').next().unwrap_or_default())
        .collect();
    #[cfg(target_os = "linux")]
    assert_eq!(
        names,
        [
            "process_cpu_seconds_total",
            "process_cpu_system_seconds_total",
            "process_cpu_user_seconds_total",
            "process_heap_bytes",
            "process_max_fds",
            "process_open_fds",
            "process_resident_memory_bytes",
            "process_start_time_seconds",
            "process_virtual_memory_bytes",
            "tokio_alive_tasks",
            "tokio_global_queue_depth",
            "tokio_workers",
        ]
    );
    assert!(names.contains(&"tokio_workers"));
    assert!(text.contains("\nagent_invocations_total{"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_process_looks_plausible() {
    let metrics = metrics("p_");
    let value = |name: &str| {
        let text = lines(&metrics, &format!("{name} "));
        text.lines().last().unwrap().rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let age = now - value("p_process_start_time_seconds");
    // The kernel knows the time of its boot to the second only.
    assert!((-2.0..3600.0).contains(&age), "{age}");
    assert!(value("p_process_resident_memory_bytes") > 1e6);
    assert!(value("p_process_virtual_memory_bytes") > value("p_process_resident_memory_bytes"));
    assert!(value("p_process_heap_bytes") > 0.0);
    assert!((3.0..value("p_process_max_fds")).contains(&value("p_process_open_fds")));
    assert!(value("p_process_cpu_seconds_total") < 3600.0);
    assert_eq!(value("p_tokio_workers"), 1.0);
}

/// What `promtool check metrics` would object to first.
#[tokio::test]
async fn every_line_is_of_the_text_exposition_format() {
    let metrics = metrics("agent_");
    let tools = metrics.tools();
    tools.set_changed(&[("a\\b\n\"c\"", "calculator", "sha256:1")], &[]);
    let _model = metrics.metered_model(Arc::new(ScriptedModel::default()));
    let text = metrics.render();
    assert!(text.ends_with('\n'));

    let mut described = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            name.clone_into(&mut described);
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            assert!(name.starts_with(&described), "{line} under {described}");
            assert!(is_label_list(labels.strip_suffix('}').unwrap()), "{line}");
        }
    }
}

/// `a="b",c="d"`, where a value may hold escaped quotes.
fn is_label_list(text: &str) -> bool {
    let Some((name, rest)) = text.split_once("=\"") else { return text.is_empty() };
    let mut escaped = false;
    let end = rest.find(|c| match (c, escaped) {
        ('"', false) => true,
        (c, _) => {
            escaped = c == '\\' && !escaped;
            false
        }
    });
    let Some((_, after)) = end.and_then(|end| rest.split_at_checked(end)) else { return false };
    let after = after.trim_start_matches('"');
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && (after.is_empty() || after.strip_prefix(',').is_some_and(is_label_list))
}
