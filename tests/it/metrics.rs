//! `GET /metrics`: the three series of the interface (host/docs/interface/errors-and-limits.md#metrics), and
//! what else a scraper finds.

use std::collections::BTreeSet;

use acceptance::{Component, Model, Service, Task, eventually, order, says};
use serde_json::json;

#[tokio::test]
async fn the_three_series_have_their_names_labels_and_texts() {
    let model = Model::openai().await;
    model.always(|_| says("hello"));
    let service = Service::variant_a().model(&model).start().await;
    for _ in 0..3 {
        service.result_of("hi").await;
    }
    let scrape = service.get("/metrics").await;
    assert_eq!(
        (scrape.status, scrape.header("content-type")),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    let version = env!("CARGO_PKG_VERSION");
    let labels = format!(r#"{{environment="production",version="{version}"}}"#);
    for line in [
        "# HELP agent_invocations_total Total agent invocations",
        "# TYPE agent_invocations_total counter",
        &format!("agent_invocations_total{labels} 3"),
        "# HELP agent_duration_seconds Agent execution duration",
        "# TYPE agent_duration_seconds histogram",
        &format!("agent_duration_seconds_count{labels} 3"),
        "# HELP agent_active_requests Requests in progress",
        "# TYPE agent_active_requests gauge",
        &format!("agent_active_requests{labels} 0"),
    ] {
        assert!(scrape.body.lines().any(|found| found == line), "{line}\nis not in\n{}", scrape.body);
    }
    let metrics = service.metrics().await;
    let own = BTreeSet::from(["environment", "version"]);
    assert_eq!(metrics.labels("agent_invocations_total"), own);
    assert_eq!(metrics.labels("agent_active_requests"), own);
    assert_eq!(metrics.labels("agent_duration_seconds_bucket"), &own | &BTreeSet::from(["le"]));
    // Queries written for the Node stack's buckets hold (host/docs/interface/node-clients.md#metrics).
    let buckets = metrics.values_of("agent_duration_seconds_bucket", "le");
    for bound in ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"] {
        assert!(buckets.contains(bound), "{bound} is not in {buckets:?}");
    }
    let sum = metrics.value("agent_duration_seconds_sum", &[]).unwrap();
    assert!((0.0..60.0).contains(&sum) && sum > 0.0, "{sum}");
}

#[tokio::test]
async fn the_heap_is_memory_that_is_in_use() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).start().await;
    let metrics = service.metrics().await;
    let bytes = |name| metrics.value(name, &[]).unwrap();
    let (heap, resident) = (bytes("agent_process_heap_bytes"), bytes("agent_process_resident_memory_bytes"));
    assert!(heap > 1e6 && heap < resident, "{heap} bytes of heap in {resident} resident ones");
}

#[tokio::test]
async fn the_environment_label_is_the_services_environment() {
    let model = Model::openai().await;
    for environment in ["development", "test"] {
        let service = Service::variant_a().model(&model).env("NODE_ENV", environment).start().await;
        let metrics = service.metrics().await;
        assert_eq!(
            metrics.values_of("agent_invocations_total", "environment"),
            BTreeSet::from([environment])
        );
    }
}

#[tokio::test]
async fn the_gauge_counts_requests_in_progress_and_returns_to_zero_however_they_end() {
    let model = Model::openai().await;
    let gate = model.holds(says("hello"));
    model.answers(401, &[], "").hangs();
    let service = Service::variant_a().model(&model).env("AGENT_TIMEOUT_MS", "1000").start().await;
    let active = async || service.metrics().await.value("agent_active_requests", &[]).unwrap();
    assert!(active().await.abs() < f64::EPSILON);
    let caller = service.caller();
    let good = Task::begin(async move { caller.invoke("hi").await.status });
    model.was_asked(1).await;
    assert!((active().await - 1.0).abs() < f64::EPSILON);
    gate.open();
    assert_eq!(good.ended().await, 200);
    assert_eq!(service.invoke("refused").await.status, 500);
    assert_eq!(service.invoke("too late").await.status, 500);
    assert!(active().await.abs() < f64::EPSILON);
    let metrics = service.metrics().await;
    assert_eq!(metrics.value("agent_invocations_total", &[]), Some(3.0));
    assert_eq!(metrics.value("agent_duration_seconds_count", &[]), Some(3.0));
}

#[tokio::test]
async fn a_caller_who_goes_away_is_not_in_progress_any_more() {
    let model = Model::openai().await;
    model.hangs();
    let service = Service::variant_a().model(&model).start().await;
    let caller = service.caller();
    let request = Task::begin(async move { caller.invoke("hi").await });
    model.was_asked(1).await;
    drop(request);
    eventually("the gauge to be back at 0", async || {
        (service.metrics().await.value("agent_active_requests", &[]) == Some(0.0)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn requests_that_never_reach_the_agent_are_no_invocations() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).start().await;
    service.post("/agent/invoke", "{}").await;
    service.get("/nowhere").await;
    assert_eq!(service.metrics().await.value("agent_invocations_total", &[]), Some(0.0));
}

/// The default process metrics of the Node stack that any process has
/// (host/docs/interface/node-clients.md#metrics).
const PROCESS: [&str; 9] = [
    "process_cpu_user_seconds_total",
    "process_cpu_system_seconds_total",
    "process_cpu_seconds_total",
    "process_start_time_seconds",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_heap_bytes",
    "process_open_fds",
    "process_max_fds",
];

#[tokio::test]
async fn the_process_metrics_stand_under_one_prefix_that_can_be_set() {
    let model = Model::openai().await;
    for (set, prefix) in [(None, "agent_"), (Some("our:own_"), "our:own_")] {
        let mut builder = Service::variant_a().model(&model);
        if let Some(prefix) = set {
            builder = builder.env("METRICS_PREFIX", prefix);
        }
        let service = builder.start().await;
        let metrics = service.metrics().await;
        for name in PROCESS {
            let name = format!("{prefix}{name}");
            let value = metrics.value(&name, &[]).unwrap_or_else(|| panic!("there is no {name}"));
            assert!(value >= 0.0, "{name} {value}");
            assert!(metrics.describe(&name).contains(": "), "{name}");
        }
        let resident = metrics.value(&format!("{prefix}process_resident_memory_bytes"), &[]).unwrap();
        assert!((1e6..1e10).contains(&resident), "{resident}");
        // The three of the interface (host/docs/interface/errors-and-limits.md#metrics) do not move.
        assert_eq!(metrics.value("agent_invocations_total", &[]), Some(0.0));
        let others: Vec<_> = metrics
            .names()
            .into_iter()
            .filter(|name| !name.starts_with(prefix) && !name.starts_with("agent_"))
            .map(str::to_owned)
            .collect();
        assert_eq!(others, Vec::<String>::new());
    }
}

#[tokio::test]
async fn tool_calls_are_counted_by_tool_component_and_outcome() {
    let model = Model::openai().await;
    model.obeys();
    let service =
        Service::variant_a().model(&model).tool(Component::misbehaving("misbehaving")).start().await;
    let tools = "agent_tool_calls_total";
    let calculate = [("tool", "calculate"), ("component", "calculator")];
    let ok = [calculate[0], calculate[1], ("outcome", "ok")];
    // The counter begins at zero, so that the first call is an increase.
    assert_eq!(service.metrics().await.value(tools, &ok), Some(0.0));
    for expression in ["1 + 1", "2 + 2", "1 / 0"] {
        service.result_of(&order("calculate", &json!({ "expression": expression }))).await;
    }
    service.result_of(&order("calculate", &json!({}))).await;
    service.result_of(&order("trap", &json!({}))).await;
    let metrics = service.metrics().await;
    let count = |outcome| metrics.value(tools, &[calculate[0], calculate[1], ("outcome", outcome)]);
    assert_eq!(count("ok"), Some(2.0));
    assert_eq!(count("failed"), Some(1.0));
    assert_eq!(count("invalid_arguments"), Some(1.0));
    let trapped = [("tool", "trap"), ("component", "misbehaving"), ("outcome", "trapped")];
    assert_eq!(metrics.value(tools, &trapped), Some(1.0));
    assert_eq!(metrics.value("agent_tool_duration_seconds_count", &[("tool", "trap")]), Some(1.0));
    assert_eq!(metrics.value("agent_tool_peak_memory_bytes_count", &[("tool", "trap")]), Some(1.0));
    let digest = Component::shipped("calculator").digest();
    let loaded = [calculate[0], calculate[1], ("digest", &digest)];
    assert_eq!(metrics.value("agent_tool_loaded_info", &loaded), Some(1.0));
}

#[tokio::test]
async fn model_calls_and_tokens_are_counted() {
    let model = Model::openai().await;
    model.answers(503, &[("retry-after", "0")], "");
    model.plays(says("hello").using(120, 30));
    let service = Service::variant_a().model(&model).start().await;
    service.result_of("hi").await;
    let metrics = service.metrics().await;
    let calls = |outcome| {
        metrics.value("agent_model_calls_total", &[("model", "openai/test-model"), ("outcome", outcome)])
    };
    assert_eq!((calls("ok"), calls("unavailable"), calls("timeout")), (Some(1.0), Some(1.0), Some(0.0)));
    let tokens =
        |kind| metrics.value("agent_model_tokens_total", &[("model", "openai/test-model"), ("kind", kind)]);
    assert_eq!((tokens("input"), tokens("output")), (Some(120.0), Some(30.0)));
}

#[tokio::test]
async fn nothing_that_callers_or_models_make_up_becomes_a_label() {
    let model = Model::openai().await;
    model.obeys();
    let service = Service::variant_a().model(&model).start().await;
    let series = async || service.get("/metrics").await.body.lines().count();
    // Routes, methods and statuses are labels; these are all that are used below.
    service.result_of(&order("made_up", &json!({}))).await;
    service.get("/made_up").await;
    series().await;
    let before = series().await;
    for n in 0..20 {
        service.result_of(&order(&format!("made_up_{n}"), &json!({}))).await;
        service.get(&format!("/made_up_{n}")).await;
    }
    let scrape = service.get("/metrics").await.body;
    assert!(!scrape.contains("made_up"), "{scrape}");
    assert!(series().await <= before, "{before} lines became {}", series().await);
}
