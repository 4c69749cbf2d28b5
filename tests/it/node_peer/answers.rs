//! Answers to good questions, kept answers, failures and jobs.

use acceptance::{Play, Redis, Token, eventually};
use redis::AsyncCommands as _;
use serde_json::json;

use super::differences::Difference;
use super::pair::{Exchange, Pair};

fn ask(query: &str) -> Exchange {
    Exchange::agent(&Token::of("u").premium(), &json!({ "query": query }))
}

fn refusal(status: u16) -> Play {
    Play::Whole { status, headers: vec![("retry-after", "0".to_owned())], body: String::new() }
}

#[tokio::test]
async fn an_answer_is_fresh_the_first_time_and_kept_the_second_time() {
    let pair = Pair::start().await;
    let (node, _) = pair.check(&ask("hi"), &[]).await;
    assert_eq!((node.status, &node.json()["cached"]), (200, &json!(false)));
    let (node, ours) = pair.check(&ask("hi"), &[]).await;
    assert_eq!((&node.json()["cached"], &ours.json()["cached"]), (&json!(true), &json!(true)));
    assert_eq!((pair.node_model.calls().len(), pair.our_model.calls().len()), (1, 1));
    let nodes = kept(&pair.node_redis).await;
    // Ours is kept behind the answer.
    eventually("the same to be kept", async || (kept(&pair.our_redis).await == nodes).then_some(())).await;
}

/// The cache's keys, each as its prefix, the length of what follows, and the minutes that it is kept.
async fn kept(redis: &Redis) -> Vec<(String, usize, i64)> {
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let keys: Vec<String> = connection.keys("agent:*").await.unwrap();
    let mut kept = Vec::new();
    for key in keys {
        let seconds: i64 = connection.ttl(&key).await.unwrap();
        let (prefix, hash) = key.split_once(':').unwrap();
        assert!(hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
        // Rounded up: an hour is an hour for the whole of its first minute.
        kept.push((prefix.to_owned(), hash.len(), (seconds + 59) / 60));
    }
    kept
}

#[tokio::test]
async fn without_the_cache_no_answer_speaks_of_it() {
    let pair =
        Pair::start_with(|peer| peer.env("RESULT_CACHE", "off"), |ours| ours.env("RESULT_CACHE", "off"))
            .await;
    for _ in 0..2 {
        let (node, _) = pair.check(&ask("hi"), &[]).await;
        assert_eq!(node.json().get("cached"), None);
    }
    assert_eq!((pair.node_model.calls().len(), pair.our_model.calls().len()), (2, 2));
}

#[tokio::test]
async fn a_failure_is_the_same_in_production_and_has_words_elsewhere() {
    let pair = Pair::start().await;
    pair.node_model.plays(refusal(401));
    pair.our_model.plays(refusal(401));
    let (node, _) = pair.check(&ask("hi"), &[]).await;
    assert_eq!(node.status, 500);

    let elsewhere = Pair::start_with(
        |peer| peer.env("NODE_ENV", "development"),
        |service| service.env("NODE_ENV", "development"),
    )
    .await;
    elsewhere.node_model.plays(refusal(401));
    elsewhere.our_model.plays(refusal(401));
    elsewhere.check(&ask("hi"), &[Difference::ErrorText]).await;
}

#[tokio::test]
async fn a_provider_that_limits_our_rate_is_the_same_429() {
    let pair = Pair::start().await;
    pair.node_model.plays(refusal(429));
    // Once, and three retries (host/docs/interface/errors-and-limits.md#limits).
    for _ in 0..4 {
        pair.our_model.plays(refusal(429));
    }
    let (node, _) = pair.check(&ask("hi"), &[Difference::ProviderLimited]).await;
    assert_eq!((node.status, node.body.as_str()), (429, r#"{"error":"Rate limit exceeded"}"#));
}

#[tokio::test]
async fn a_job_is_accepted_with_the_same_id() {
    let pair = Pair::start().await;
    let job = Exchange::post("/api/agent/async").token(&Token::of("u")).json(&json!({ "query": "work" }));
    for id in ["1", "2"] {
        let (_, ours) = pair.check(&job, &[Difference::JobAccepted]).await;
        assert_eq!(ours.header("location"), format!("/api/agent/jobs/{id}"));
    }
}

#[tokio::test]
async fn a_job_without_a_query_is_no_job_here() {
    let pair = Pair::start().await;
    for body in [json!({}), json!({ "query": "" }), json!({ "query": 5 })] {
        let job = Exchange::post("/api/agent/async").token(&Token::of("u")).json(&body);
        pair.check(&job, &[Difference::JobWithoutQuery]).await;
    }
}

#[tokio::test]
async fn an_open_circuit_is_a_503_here_and_a_200_there() {
    let pair = Pair::start_with(
        |peer| peer.env("CIRCUIT", "on"),
        |service| service.env("CIRCUIT_MIN_VOLUME", "1").env("LLM_RETRIES", "0"),
    )
    .await;
    pair.node_model.plays(refusal(500));
    pair.our_model.plays(refusal(500));
    // The failure that opens it: there the fallback answers for it already.
    let first = ask("opens it");
    tokio::join!(first.send_to(&pair.node), first.send_to(&pair.ours));
    pair.check(&ask("finds it open"), &[Difference::OpenCircuit]).await;
    assert_eq!((pair.node_model.calls().len(), pair.our_model.calls().len()), (1, 1));
}

#[tokio::test]
async fn the_gateway_answers_what_is_not_urgent_and_the_serverless_handler_anything() {
    let pair =
        Pair::start_with(|peer| peer.env("RESULT_CACHE", "off"), |ours| ours.env("RESULT_CACHE", "off"))
            .await;
    let token = Token::of("u");
    let long = json!({ "query": "x".repeat(1_001) });
    for body in [json!({ "query": "hi" }), json!({ "query": "hi", "priority": "low" }), long] {
        pair.check(&Exchange::post("/api/gateway").token(&token).json(&body), &[]).await;
    }
    let handler = Exchange::post("/api/serverless").token(&token).json(&json!({ "query": "hi" }));
    pair.check(&handler, &[]).await;
    pair.node_model.plays(refusal(401));
    pair.our_model.plays(refusal(401));
    let (node, _) = pair.check(&handler, &[Difference::ErrorText]).await;
    assert_eq!(node.status, 500);
}
