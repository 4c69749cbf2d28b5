//! `/health`, `/ready` and `/metrics` (host/docs/interface/errors-and-limits.md#metrics,
//! host/docs/interface/node-clients.md#metrics).

use std::collections::BTreeSet;

use acceptance::{Answer, Exposition, Play, Postgres, Token, eventually};
use serde_json::json;

use super::differences::Difference;
use super::pair::{Exchange, Pair};

async fn start(postgres: &Postgres) -> Pair {
    Pair::start_with(
        |peer| peer.postgres(postgres),
        // Both ask the model every time.
        |service| service.postgres(postgres).env("LLM_HEALTH_TTL_MS", "0"),
    )
    .await
}

#[tokio::test]
async fn a_healthy_report_has_the_same_fields() {
    let postgres = Postgres::start().await;
    let pair = start(&postgres).await;
    let (node, _) = pair.check(&Exchange::get("/health"), &[]).await;
    assert_eq!((node.status, &node.json()["status"]), (200, &json!("healthy")));
    let (node, _) = pair.check(&Exchange::get("/ready"), &[]).await;
    assert_eq!(node.status, 200);
}

#[tokio::test]
async fn a_report_without_its_stores_has_the_same_fields() {
    let mut postgres = Postgres::start().await;
    let mut pair = start(&postgres).await;
    pair.check(&Exchange::get("/ready"), &[]).await;
    pair.node_redis.pause().await;
    pair.our_redis.pause().await;
    until_ours_has_seen_it(&pair, "redis").await;
    for path in ["/health", "/ready"] {
        let (node, _) = pair.check(&Exchange::get(path), &[]).await;
        assert_eq!(node.status, 503, "{path}");
    }
    postgres.pause().await;
    until_ours_has_seen_it(&pair, "database").await;
    for path in ["/health", "/ready"] {
        pair.check(&Exchange::get(path), &[]).await;
    }
}

/// A store's check is kept for up to a second.
async fn until_ours_has_seen_it(pair: &Pair, store: &str) {
    eventually(store, async || {
        (pair.ours.health().await.json()["checks"][store]["status"] == "error").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_report_without_its_model_has_the_same_fields() {
    let postgres = Postgres::start().await;
    let pair = start(&postgres).await;
    for model in [&pair.node_model, &pair.our_model] {
        model.checks_play(Play::Whole { status: 401, headers: Vec::new(), body: String::new() });
    }
    let (node, _) = pair.check(&Exchange::get("/health"), &[]).await;
    assert_eq!(node.status, 503);
}

/// A scrape, read. prom-client separates metrics by empty lines, which are not in the format's grammar.
fn read(scrape: &Answer) -> Exposition {
    let lines: Vec<_> = scrape.body.lines().filter(|line| !line.is_empty()).collect();
    Exposition::read(&lines.join("\n"))
}

#[tokio::test]
async fn the_three_series_have_the_same_names_types_texts_labels_and_buckets() {
    let pair = Pair::start().await;
    pair.check(&Exchange::agent(&Token::of("u"), &json!({ "query": "hi" })), &[]).await;
    let (node, ours) = pair.check(&Exchange::get("/metrics"), &[Difference::Scrape]).await;
    assert_eq!(node.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let (node, ours) = (read(&node), read(&ours));
    for (metric, samples) in [
        ("agent_invocations_total", &["agent_invocations_total"][..]),
        ("agent_duration_seconds", &["agent_duration_seconds_bucket", "agent_duration_seconds_sum"]),
        ("agent_active_requests", &["agent_active_requests"]),
    ] {
        assert_eq!(node.describe(metric), ours.describe(metric));
        for sample in samples {
            assert_eq!(node.labels(sample), ours.labels(sample), "{sample}");
            assert!(!node.labels(sample).is_empty(), "{sample}");
        }
    }
    assert_eq!(ours.value("agent_invocations_total", &[]), Some(1.0));
    assert_eq!(ours.value("agent_duration_seconds_count", &[]), Some(1.0));
    let buckets = |metrics: &Exposition| -> BTreeSet<String> {
        metrics.values_of("agent_duration_seconds_bucket", "le").into_iter().map(str::to_owned).collect()
    };
    assert!(buckets(&node).is_subset(&buckets(&ours)), "{:?}", buckets(&ours));
}

#[tokio::test]
async fn the_process_metrics_of_any_process_are_there_under_their_names() {
    let pair = Pair::start().await;
    let (node, ours) = pair.check(&Exchange::get("/metrics"), &[Difference::Scrape]).await;
    let (node, ours) = (read(&node), read(&ours));
    let names: Vec<_> = node
        .names()
        .into_iter()
        .filter(|name| name.starts_with("agent_process_"))
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        assert!(ours.names().contains(name.as_str()), "{name} is missing");
    }
}
