//! How often anybody may ask (host/docs/interface/errors-and-limits.md#limits): that the settings reach the
//! windows. The windows themselves are tested in `host/http-edge`, those on Redis in `bad_days/replicas.rs`.

use acceptance::{Service, Token};

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
