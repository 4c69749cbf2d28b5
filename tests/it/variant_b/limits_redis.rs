//! Windows that processes share on Redis, and what is left of them without Redis
//! (host/docs/interface/decisions-http.md#rate-windows).

use acceptance::{Model, Redis, Service, Task, Token, eventually};
use serde_json::Value;

async fn start(redis: &Redis) -> Service {
    Service::variant_b().env("LLM_API_KEY", "sk-1").redis(redis).start().await
}

async fn remaining(service: &Service) -> String {
    service.post("/api/agent", "{}").await.header("ratelimit-remaining").to_owned()
}

#[tokio::test]
async fn two_processes_on_one_redis_count_together() {
    let redis = Redis::start().await;
    let (one, two) = tokio::join!(start(&redis), start(&redis));
    assert_eq!(remaining(&one).await, "99");
    assert_eq!(remaining(&two).await, "98");
    let token = Token::of("u");
    for n in 0..10 {
        let service = if n % 2 == 0 { &one } else { &two };
        assert_eq!(service.user(&token).jobs("").await.status, 200, "request {n}");
    }
    assert_eq!(one.user(&token).jobs("").await.status, 429);
    assert_eq!(two.user(&token).jobs("").await.status, 429);
}

#[tokio::test]
async fn a_window_on_redis_outlives_the_process() {
    let redis = Redis::start().await;
    let one = start(&redis).await;
    assert_eq!(remaining(&one).await, "99");
    one.stop().await;
    assert_eq!(remaining(&start(&redis).await).await, "98");
}

#[tokio::test]
async fn without_redis_callers_are_still_limited_and_nobody_gets_a_500_for_it() {
    let model = Model::openai().await;
    let mut redis = Redis::start().await;
    let service = Service::variant_b().model(&model).redis(&redis).start().await;
    assert_eq!(remaining(&service).await, "99");
    redis.pause().await;
    for n in 1..=110 {
        let answer = service.post("/api/agent", "{}").await;
        assert!([401, 429].contains(&answer.status), "request {n}: {answer}");
        assert_eq!(answer.header("ratelimit-limit"), "100", "request {n}");
    }
    assert_eq!(service.post("/api/agent", "{}").await.status, 429);
    let said = |entry: &Value| entry["level"] == "WARN" && entry["message"].to_string().contains("rate");
    service.log().entry("a warning that windows are counted in the process", said).await;
    // Not a line for each of them: the log is no place for a flood.
    let warnings = service.log().entries().into_iter().filter(said).count();
    assert!(warnings < 10, "{warnings} warnings");

    redis.resume().await;
    eventually("the windows on Redis to count again", async || {
        (remaining(&service).await != "0").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_hangs_does_not_hang_the_service() {
    let redis = Redis::start().await;
    let service = start(&redis).await;
    assert_eq!(remaining(&service).await, "99");
    redis.freeze();
    let caller = service.caller();
    let frozen = Task::begin(async move { caller.post("/api/agent", "{}").await.status });
    assert_eq!(frozen.ended().await, 401);
    redis.thaw();
}
