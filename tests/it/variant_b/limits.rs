//! How often anybody may ask: the windows per address and per user, in one process
//! (host/docs/interface/errors-and-limits.md#limits, host/docs/interface/node-clients.md#rate-limit-headers,
//! host/docs/interface/decisions-http.md). Windows that several processes share are in `limits_redis.rs`.

use acceptance::{Answer, Caller, Model, Service, Token, User, now, says};
use insta::assert_snapshot;
use reqwest::Method;

/// A service that answers every query, and its model.
async fn start() -> (Service, Model) {
    let model = Model::openai().await;
    model.always(|_| says("hello"));
    (Service::variant_b().model(&model).start().await, model)
}

fn number(answer: &Answer, header: &str) -> u64 {
    answer.header(header).parse().unwrap_or_else(|_| panic!("{header}: {:?}", answer.headers))
}

/// The headers of the window per address, with that many requests left.
fn check_ip_window(answer: &Answer, remaining: u64) {
    assert_eq!(answer.header("ratelimit-policy"), "100;w=900");
    assert_eq!(answer.header("ratelimit-limit"), "100");
    assert_eq!(number(answer, "ratelimit-remaining"), remaining, "{answer}");
    let reset = number(answer, "ratelimit-reset");
    assert!((800..=900).contains(&reset), "{reset}");
}

/// The headers of the user's window.
fn check_user_window(answer: &Answer, limit: u64, remaining: u64) {
    assert_eq!(number(answer, "x-ratelimit-limit"), limit);
    assert_eq!(number(answer, "x-ratelimit-remaining"), remaining, "{answer}");
    let (reset, now) = (number(answer, "x-ratelimit-reset"), now());
    assert!((now.saturating_sub(1)..=now + 61).contains(&reset), "{reset} at {now}");
}

#[tokio::test]
async fn the_hundred_and_first_request_of_an_address_is_a_429_in_the_words_of_the_interface() {
    let (service, _model) = start().await;
    for n in 1..=100 {
        let answer = service.post("/api/agent", "{}").await;
        assert_eq!(answer.status, 401, "request {n}");
        check_ip_window(&answer, 100 - n);
    }
    let refused = service.post("/api/agent", "{}").await;
    assert_snapshot!(refused, @r"
    429 text/html; charset=utf-8
    Too many requests from this IP
    ");
    check_ip_window(&refused, 0);
    assert_eq!(refused.header("retry-after"), refused.header("ratelimit-reset"));
    assert_eq!(refused.header("content-length"), "30");
    assert_eq!(refused.header("x-ratelimit-limit"), "", "the user's window is not looked at");

    // All of `/api/` is closed, whoever asks, and nothing else is.
    let user = service.user(Token::of("u").premium());
    assert_eq!(user.agent("hi").await.status, 429);
    assert_eq!(service.post("/api/nope", "").await.status, 429);
    for path in ["/health", "/ready", "/metrics"] {
        let answer = service.get(path).await;
        assert_ne!(answer.status, 429, "{path}");
        assert_eq!(answer.header("ratelimit-limit"), "", "{path}");
    }
}

#[tokio::test]
async fn every_answer_below_api_has_the_headers_of_its_window() {
    let (service, _model) = start().await;
    let user = service.user(Token::of("u"));
    let wrong = service.user("no token");
    let answers = [
        (service.post("/api/agent", "{}").await, 401),
        (wrong.agent("hi").await, 403),
        (user.agent("hi").await, 200),
        (user.post("/api/agent", "{}").await, 400),
        (user.post("/api/agent", "{").await, 400),
        (user.post("/api/agent", "x".repeat(102_401)).await, 413),
        (user.job("none").await, 404),
        (service.post("/api/nope", "{}").await, 404),
        (user.send(user.request(Method::PUT, "/api/agent")).await, 405),
    ];
    for (n, (answer, status)) in (1..).zip(answers) {
        assert_eq!(answer.status, status, "{answer}");
        check_ip_window(&answer, 100 - n);
    }
}

#[tokio::test]
async fn the_eleventh_request_of_a_user_within_a_minute_is_a_429() {
    let (service, model) = start().await;
    let user = service.user(Token::of("u"));
    for n in 1..=10 {
        let answer = user.agent(&format!("query {n}")).await;
        assert_eq!(answer.status, 200, "{answer}");
        check_user_window(&answer, 10, 10 - n);
        check_ip_window(&answer, 100 - n);
    }
    let refused = user.agent("query 11").await;
    assert_snapshot!(refused, @r#"
    429 application/json; charset=utf-8
    {"error":"Rate limit exceeded"}
    "#);
    check_user_window(&refused, 10, 0);
    check_ip_window(&refused, 89);
    let retry_after = number(&refused, "retry-after");
    assert!((1..=60).contains(&retry_after), "{retry_after}");
    assert_eq!(model.calls().len(), 10);
    // Nobody else has to wait for it.
    assert_eq!(service.user(Token::of("v")).agent("hi").await.status, 200);
}

#[tokio::test]
async fn a_premium_user_may_ask_a_hundred_times() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).env("TRUST_PROXY", "1").start().await;
    let user = service.user(Token::of("u").premium());
    for n in 1..=101 {
        // From several addresses, or the window per address would be full as well.
        let request = user.request(Method::POST, "/api/agent");
        let answer = user.send(request.header("x-forwarded-for", format!("192.0.2.{n}")).body("{}")).await;
        assert_eq!(answer.status, if n <= 100 { 400 } else { 429 }, "request {n}: {answer}");
        check_user_window(&answer, 100, 100_u64.saturating_sub(n));
    }
}

#[tokio::test]
async fn another_tier_is_no_premium() {
    let (service, _model) = start().await;
    for (id, tier) in [("a", "free"), ("b", "Premium"), ("c", "premium ")] {
        let answer = service.user(Token::of(id).claim("tier", tier)).agent("hi").await;
        check_user_window(&answer, 10, 9);
    }
}

/// host/docs/interface/node-clients.md#rate-limit-headers: 401 and 403 use up the address's window only, a
/// 400 both.
#[tokio::test]
async fn a_request_counts_in_the_windows_that_it_came_to() {
    let (service, _model) = start().await;
    let user = service.user(Token::of("u"));
    service.post("/api/agent", "{}").await;
    service.user("no token").agent("hi").await;
    let bad = user.post("/api/agent", "{}").await;
    check_user_window(&bad, 10, 9);
    check_ip_window(&bad, 97);
    // One window of the user over all that is below `/api/agent`.
    let job = user.submit("hi").await;
    check_user_window(&job, 10, 8);
    check_ip_window(&job, 96);
}

#[tokio::test]
async fn ids_that_are_written_alike_share_a_window_and_an_address_is_no_user() {
    let (service, _model) = start().await;
    check_user_window(&service.user(Token::of(7)).jobs("").await, 10, 9);
    check_user_window(&service.user(Token::of("7")).jobs("").await, 10, 8);
    let address = service.user(Token::of("127.0.0.1"));
    check_user_window(&address.jobs("").await, 10, 9);
}

/// One request for nothing, as a proxy would pass it on.
async fn forwarded(caller: &Caller, chain: &str) -> u64 {
    let request = caller.request(Method::POST, "/api/agent").header("x-forwarded-for", chain);
    number(&caller.send(request).await, "ratelimit-remaining")
}

#[tokio::test]
async fn nobody_can_pretend_to_be_at_another_address() {
    let (service, _model) = start().await;
    assert_eq!(forwarded(&service, "192.0.2.1").await, 99);
    assert_eq!(forwarded(&service, "192.0.2.2").await, 98);
}

#[tokio::test]
async fn behind_a_proxy_the_rightmost_entry_is_the_caller() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).env("TRUST_PROXY", "1").start().await;
    assert_eq!(forwarded(&service, "203.0.113.3, 192.0.2.1").await, 99);
    assert_eq!(forwarded(&service, "198.51.100.7, 192.0.2.1").await, 98);
    assert_eq!(forwarded(&service, "192.0.2.1").await, 97);
    assert_eq!(forwarded(&service, "192.0.2.2").await, 99);
    let two = Service::variant_b().model(&model).env("TRUST_PROXY", "2").start().await;
    assert_eq!(forwarded(&two, "203.0.113.3, 192.0.2.1, 10.0.0.1").await, 99);
    assert_eq!(forwarded(&two, "203.0.113.3, 192.0.2.1, 10.0.0.2").await, 98);
}

/// A household has a /56 of IPv6 addresses (host/docs/interface/node-clients.md#rate-windows).
#[tokio::test]
async fn all_addresses_of_one_ipv6_network_are_one_caller() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).env("TRUST_PROXY", "1").start().await;
    assert_eq!(forwarded(&service, "2001:db8:0:100::1").await, 99);
    assert_eq!(forwarded(&service, "2001:db8:0:1ff::9").await, 98);
    assert_eq!(forwarded(&service, "2001:db8:0:200::1").await, 99);
    assert_eq!(forwarded(&service, "192.0.2.1").await, 99);
    assert_eq!(forwarded(&service, "::ffff:192.0.2.1").await, 98, "an IPv4 address in disguise");
}

#[tokio::test]
async fn requests_at_the_same_moment_are_all_counted() {
    let (service, _model) = start().await;
    let user = service.user(Token::of("u"));
    let ask = async |user: &User| user.jobs("").await.status;
    let statuses = futures::future::join_all((0..20).map(|_| ask(&user))).await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 10, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 10, "{statuses:?}");
}

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
