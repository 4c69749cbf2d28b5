//! What the service does about the settings of its stores' servers: it does not
//! start on a Redis that evicts jobs, and says in its log and in its readiness report what else may be lost.

use acceptance::{Builder, Ended, Postgres, Redis, Service, eventually};
use serde_json::{Value, json};

fn complete() -> Builder {
    Service::variant_b().env("LLM_API_KEY", "sk-1").env("LLM_MODEL", "openai/test-model")
}

/// The settings that the readiness report names, and its status.
async fn reported(service: &Service) -> (u16, Vec<Value>) {
    let answer = service.readiness().await;
    let stores = answer.json()["stores"].as_array().cloned().unwrap_or_default();
    (answer.status, stores.iter().map(|warning| warning["setting"].clone()).collect())
}

async fn line_with(service: &Service, text: &str) -> Value {
    serde_json::from_str(&service.log().line_with(&[text]).await).unwrap()
}

#[tokio::test]
async fn a_redis_that_evicts_jobs_keeps_the_service_from_starting_and_is_told_what_to_set() {
    let redis = Redis::start_with(&["--maxmemory-policy", "allkeys-lru"]).await;
    let Ended { code, stdout, stderr } = complete().redis(&redis).run().await;
    assert_eq!(code, Some(1), "{stderr}");
    assert!(!stdout.contains("serving"), "{stdout}");
    for text in ["REDIS_URL", "allkeys-lru", "set maxmemory-policy to noeviction"] {
        assert!(stderr.contains(text), "{text}: {stderr}");
    }
}

#[tokio::test]
async fn a_redis_that_may_lose_the_last_second_is_warned_of_in_the_log_and_in_the_readiness_report() {
    let redis = Redis::start_with(&["--appendfsync", "everysec"]).await;
    let service = complete().redis(&redis).start().await;
    assert_eq!(reported(&service).await, (200, vec![json!("appendfsync")]));
    let line = line_with(&service, "appendfsync to always").await;
    assert_eq!(
        (&line["level"], &line["store"], &line["setting"]),
        (&json!("WARN"), &json!("redis"), &json!("appendfsync"))
    );
}

#[tokio::test]
async fn a_redis_that_was_away_is_checked_when_it_comes_and_its_password_is_in_no_log() {
    let options = ["--maxmemory-policy", "volatile-lru", "--requirepass", "hunter2"];
    let mut redis = Redis::start_with(&options).await;
    redis.pause().await;
    let address = format!("redis://:hunter2@{}", redis.address());
    let service = complete().env("REDIS_URL", address).start().await;
    assert_eq!(reported(&service).await, (503, vec![]));
    redis.resume().await;
    let line = line_with(&service, "set maxmemory-policy to noeviction").await;
    assert_eq!(line["level"], json!("ERROR"));
    assert_eq!(reported(&service).await.0, 503, "it is there, and must not be used");
    assert!(!service.log().to_string().contains("hunter2"), "{}", service.log());
}

#[tokio::test]
async fn a_database_that_was_away_is_checked_when_it_comes() {
    let mut postgres = Postgres::start_with(&["synchronous_commit=off"]).await;
    postgres.pause().await;
    let service = complete().postgres(&postgres).start().await;
    assert_eq!(reported(&service).await, (503, vec![]));
    postgres.resume().await;
    eventually("the database to be ready and warned of", async || {
        (reported(&service).await == (200, vec![json!("synchronous_commit")])).then_some(())
    })
    .await;
}
