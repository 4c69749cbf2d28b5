//! How often anybody may ask (host/docs/interface/errors-and-limits.md#limits): that the settings reach the
//! windows, and what is left of those on Redis without it
//! (host/docs/interface/decisions-http.md#rate-windows). The windows themselves are tested in
//! `host/http-edge`, those that replicas share in `bad_days/replicas.rs`.

use acceptance::{Redis, Service, Token, eventually};
use serde_json::Value;

#[tokio::test]
async fn an_operator_may_set_how_often_one_may_call() {
    let service = Service::variant_b()
        .env("LLM_API_KEY", "sk-1")
        .env("RATE_LIMIT_IP", "7")
        .env("RATE_LIMIT_IP_WINDOW_S", "120")
        .env("RATE_LIMIT_USER", "2")
        .env("RATE_LIMIT_PREMIUM", "3")
        .env("RATE_LIMIT_USER_WINDOW_S", "3600")
        .start()
        .await;
    let user = service.user(Token::of("u"));
    let first = user.jobs("").await;
    assert_eq!(first.status, 200);
    for (name, value) in [
        ("ratelimit-policy", "7;w=120"),
        ("ratelimit-limit", "7"),
        ("ratelimit-remaining", "6"),
        ("x-ratelimit-limit", "2"),
        ("x-ratelimit-remaining", "1"),
    ] {
        assert_eq!(first.header(name), value, "{name}");
    }
    assert_eq!(user.jobs("").await.status, 200);
    let limited = user.jobs("").await;
    assert_eq!((limited.status, limited.body.as_str()), (429, r#"{"error":"Rate limit exceeded"}"#));
    let seconds: u64 = limited.header("retry-after").parse().unwrap();
    assert!((3000..=3600).contains(&seconds), "{seconds}");
    let premium = service.user(Token::of("p").premium());
    for _ in 0..3 {
        assert_eq!(premium.jobs("").await.status, 200);
    }
    assert_eq!(premium.jobs("").await.status, 429);
    // The last request was the seventh of the address.
    assert_eq!(service.get("/api/nope").await.body, "Too many requests from this IP");
}

async fn remaining(service: &Service) -> String {
    service.post("/api/agent", "{}").await.header("ratelimit-remaining").to_owned()
}

#[tokio::test]
async fn without_redis_callers_are_still_limited_and_nobody_gets_a_500_for_it() {
    let mut redis = Redis::start().await;
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").redis(&redis).start().await;
    assert_eq!(remaining(&service).await, "99");
    redis.pause().await;
    for n in 1..=110 {
        let answer = service.post("/api/agent", "{}").await;
        assert!([401, 429].contains(&answer.status), "request {n}: {answer}");
        assert_eq!(answer.header("ratelimit-limit"), "100", "request {n}");
    }
    assert_eq!(service.post("/api/agent", "{}").await.status, 429);
    let fallbacks = service.metrics().await.value("agent_rate_fallbacks_total", &[]);
    assert!(fallbacks.is_some_and(|fallbacks| fallbacks > 0.5), "{fallbacks:?}");
    let said = |entry: &Value| entry["level"] == "WARN" && entry["message"].to_string().contains("rate");
    service.log().entry("a warning that windows are counted in the process", said).await;
    // Not a line for each of them: the log is no place for a flood.
    let warnings = service.log().entries().into_iter().filter(said).count();
    assert!(warnings < 10, "{warnings} warnings");

    redis.resume().await;
    eventually("the windows on Redis to count again", async || {
        remaining(&service).await.parse::<u32>().is_ok_and(|left| left > 0).then_some(())
    })
    .await;
}
