//! Every series that rules, dashboard and autoscaling ask for is one that a running service has.

use std::collections::BTreeSet;
use std::fs;

use acceptance::{Collector, Component, Model, Postgres, Redis, Service, Token, repository, says};
use serde_json::Value;

use super::alerts::alerts;
use super::{manifest, string, text};

/// Series that a service of Variant A without stores, traces, a second provider and faults does not have, and
/// when they are there.
const SOMETIMES: [(&str, &str); 12] = [
    ("agent_job_attempt_duration_seconds_bucket", "once an attempt at a job has ended"),
    ("agent_model_circuit_state", "with ALT_LLM_MODEL"),
    ("agent_queue_active_jobs", "with a queue: in DATABASE_URL or on REDIS_URL"),
    ("agent_queue_delayed_jobs", "with a queue: in DATABASE_URL or on REDIS_URL"),
    ("agent_queue_oldest_wait_seconds", "with a queue: in DATABASE_URL or on REDIS_URL"),
    ("agent_queue_oldest_waiting_seconds", "with a queue: in DATABASE_URL or on REDIS_URL"),
    ("agent_queue_waiting_jobs", "with a queue: in DATABASE_URL or on REDIS_URL"),
    (
        "agent_retention_last_sweep_timestamp_seconds",
        "with a store and a bound on how long things stay there",
    ),
    ("agent_tool_component_faults", "while a component does not load"),
    ("agent_trace_spans_dropped_total", "with TRACING_API_KEY"),
    ("agent_trace_spans_exported_total", "with TRACING_API_KEY"),
    ("agent_trace_spans_failed_total", "with TRACING_API_KEY"),
];

/// The names of our series in a query: every word that begins as they do.
fn series(query: &str) -> impl Iterator<Item = String> + '_ {
    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("agent_")).map(str::to_owned)
}

/// Every text below a value whose key is one of these.
fn texts<'a>(value: &'a Value, keys: &[&str], found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if keys.contains(&key.as_str()) => found.push(text),
                    value => texts(value, keys, found),
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| texts(element, keys, found)),
        _ => {}
    }
}

/// Every series that is asked for in host/deploy/.
fn asked_for() -> BTreeSet<String> {
    let dashboard: Value = serde_json::from_str(&text("grafana/agent-host.json")).unwrap();
    let mut queries = Vec::new();
    texts(&dashboard, &["expr", "query"], &mut queries);
    assert!(queries.len() > 60, "the queries of the dashboard are read");
    let (alerts, scaling) = (alerts(), manifest("ScaledObject"));
    let rules = alerts.iter().map(|rule| string(&rule["expr"]));
    let trigger = string(&scaling["spec"]["triggers"][0]["metadata"]["query"]);
    queries.into_iter().chain(rules).chain([trigger]).flat_map(series).collect()
}

async fn names_of(service: &Service) -> BTreeSet<String> {
    service.metrics().await.names().into_iter().map(str::to_owned).collect()
}

/// A service of Variant A with a model and a tool, and nothing else.
async fn plainest() -> BTreeSet<String> {
    let model = Model::saying("hello").await;
    let service = Service::variant_a().model(&model).start().await;
    service.result_of("hi").await;
    names_of(&service).await
}

/// A service of Variant B with everything that can be switched on, on real stores.
async fn fullest() -> BTreeSet<String> {
    let (model, second, collector) = (Model::openai().await, Model::openai().await, Collector::start().await);
    let (redis, postgres) = (Redis::start().await, Postgres::start().await);
    model.always(|_| says("hello"));
    let service = Service::variant_b()
        .model(&model)
        .second_model(&second)
        .redis(&redis)
        .postgres(&postgres)
        .tool(Component::core_module("broken"))
        .env("TRACING_API_KEY", "key")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
        .start()
        .await;
    let user = service.user(Token::of("u1"));
    let job = user.job_for("hi").await;
    assert_eq!(user.ended_job(&job).await["status"], "completed");
    names_of(&service).await
}

#[tokio::test]
async fn whatever_is_asked_for_is_what_a_service_shows() {
    let asked = asked_for();
    let plain = plainest().await;
    let missing: Vec<_> = asked.difference(&plain).map(String::as_str).collect();
    assert_eq!(missing, SOMETIMES.map(|(name, _)| name), "what the plainest service does not have");
    let full = fullest().await;
    let unknown: Vec<_> = asked.difference(&full).collect();
    assert_eq!(unknown, [] as [&String; 0], "what not even the fullest service has");
}

#[test]
fn the_documentation_says_when_a_series_is_missing() {
    let page = "host/docs/operate/observability.md";
    let said = fs::read_to_string(repository().join(page)).unwrap();
    for (name, when) in SOMETIMES.map(|(name, when)| (name.trim_end_matches("_bucket"), when)) {
        let prefix = name.split('_').take(2).collect::<Vec<_>>().join("_");
        let is_said = said.contains(&format!("`{name}`")) || said.contains(&format!("`{prefix}_…`"));
        assert!(is_said, "{page} does not say that {name} is there only {when}");
    }
}
