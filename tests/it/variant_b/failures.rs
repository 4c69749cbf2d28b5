//! What goes wrong around the agent, and how Variant B answers it
//! (host/docs/interface/errors-and-limits.md#errors, host/docs/interface/decisions-http.md).

use acceptance::{Model, Play, Service, Task, Token, says};
use serde_json::{Value, json};

const UNAVAILABLE: &str = r#"{"error":"Service temporarily unavailable"}"#;

fn refusal(status: u16) -> Play {
    Play::Whole { status, headers: vec![("retry-after", "0".to_owned())], body: String::new() }
}

#[tokio::test]
async fn in_production_a_failure_says_no_more_than_that_it_is_one() {
    let model = Model::openai().await;
    model.plays(refusal(401));
    let service = Service::variant_b().model(&model).start().await;
    let answer = service.user(Token::of("u")).agent("hi").await;
    assert_eq!((answer.status, answer.body.as_str()), (500, r#"{"error":"Internal server error"}"#));
    // host/docs/interface/errors-and-limits.md#errors.
    let line = service.log().entry("the failure", |entry| entry["status"] == 500).await;
    assert_eq!((&line["path"], &line["method"]), (&json!("/api/agent"), &json!("POST")), "{line}");
    assert!(line.to_string().contains("\"u\""), "it names the user: {line}");
}

#[tokio::test]
async fn elsewhere_a_failure_says_what_it_is_without_a_secret() {
    for environment in ["development", "staging"] {
        let model = Model::openai().await;
        model.plays(Play::Whole { status: 401, headers: vec![], body: format!("wrong key {}", model.key()) });
        let service = Service::variant_b().model(&model).env("NODE_ENV", environment).start().await;
        let answer = service.user(Token::of("u")).agent("hi").await;
        assert_eq!(answer.status, 500, "{answer}");
        let message = answer.json()["error"].take();
        let message = message.as_str().unwrap();
        assert!(!["", "Internal server error"].contains(&message), "{answer}");
        assert!(!message.contains(model.key()), "{answer}");
    }
}

#[tokio::test]
async fn a_provider_that_limits_our_rate_is_a_429_once_the_retries_are_over() {
    let model = Model::openai().await;
    for _ in 0..4 {
        model.plays(refusal(429));
    }
    let service = Service::variant_b().model(&model).start().await;
    let answer = service.user(Token::of("u")).agent("hi").await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (429, r#"{"error":"Rate limit exceeded"}"#),
        "{answer}"
    );
    assert_eq!(model.calls().len(), 4, "once and three retries");
}

#[tokio::test]
async fn a_providers_429_does_not_look_like_the_callers_and_is_told_to_the_operator() {
    let model = Model::openai().await;
    let headers = vec![("retry-after", "3600".to_owned()), ("x-ratelimit-remaining", "0".to_owned())];
    model.plays(Play::Whole { status: 429, headers, body: r#"{"error":{"message":"slow down"}}"#.into() });
    let service = Service::variant_b().model(&model).start().await;
    let answer = service.user(Token::of("u")).agent("hi").await;
    // The wait is the provider's; the windows are the caller's and have room.
    assert_eq!((answer.status, answer.header("retry-after")), (429, "3600"), "{answer}");
    assert_eq!((answer.header("ratelimit-remaining"), answer.header("x-ratelimit-remaining")), ("99", "9"));
    let line = service.log().entry("the failure", |entry| entry["status"] == 429).await;
    assert!(
        line["error"].to_string().contains("the model provider openai/test-model limits our rate"),
        "{line}"
    );
    let limited = [("model", model.name()), ("outcome", "rate_limited".to_owned())];
    let limited: Vec<_> = limited.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let metrics = service.metrics().await;
    assert_eq!(metrics.value("agent_model_calls_total", &limited), Some(1.0));
    assert_eq!(metrics.value("agent_rate_limited_total", &[("window", "user")]), Some(0.0));
}

#[tokio::test]
async fn an_agent_that_takes_too_long_is_a_503_that_says_when_to_come_back() {
    let model = Model::openai().await;
    model.hangs();
    let service = Service::variant_b().model(&model).env("AGENT_TIMEOUT_MS", "300").start().await;
    let answer = service.user(Token::of("u")).agent("hi").await;
    assert_eq!((answer.status, answer.body.as_str()), (503, UNAVAILABLE), "{answer}");
    assert!(answer.header("retry-after").parse::<u64>().is_ok(), "{:?}", answer.headers);
}

/// host/docs/interface/decisions-http.md#capacity-and-time: whoever was waited for, a provider that is silent
/// until then included.
#[tokio::test]
async fn a_model_whose_own_time_ends_with_the_agents_is_a_503_too() {
    let model = Model::openai().await;
    model.always(|_| Play::Hang);
    let service = Service::variant_b()
        .model(&model)
        .env("AGENT_TIMEOUT_MS", "300")
        .env("LLM_TIMEOUT_MS", "300")
        .env("CIRCUIT_MIN_VOLUME", "1000")
        .start()
        .await;
    let user = service.user(Token::of("u").premium());
    let asked: Vec<_> = (0..10)
        .map(|n| {
            let user = user.clone();
            Task::begin(async move { user.agent(&format!("query {n}")).await })
        })
        .collect();
    for answer in asked {
        let answer = answer.ended().await;
        assert_eq!((answer.status, answer.body.as_str()), (503, UNAVAILABLE), "{answer}");
        assert!(answer.header("retry-after").parse::<u64>().is_ok(), "{:?}", answer.headers);
    }
    let late = [("outcome", "timed_out"), ("reason", "deadline")];
    assert_eq!(service.metrics().await.value("agent_runs_total", &late), Some(10.0));
}

/// host/docs/interface/decisions-http.md#capacity-and-time; the arithmetic is tested where it is.
#[tokio::test]
async fn after_failures_the_circuit_opens_and_the_model_is_left_alone() {
    let model = Model::openai().await;
    model.always(|_| refusal(500));
    let service = Service::variant_b().model(&model).env("LLM_RETRIES", "0").start().await;
    let user = service.user(Token::of("u").premium());
    // CIRCUIT_MIN_VOLUME is 5 (host/docs/interface/decisions-http.md#capacity-and-time).
    for n in 0..5 {
        let answer = user.agent(&format!("query {n}")).await;
        assert_eq!(answer.status, 500, "query {n}: {answer}");
    }
    let asked = model.calls().len();
    assert_eq!(asked, 5);
    let answer = user.agent("one more").await;
    assert_eq!((answer.status, answer.body.as_str()), (503, UNAVAILABLE), "{answer}");
    let seconds: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=30).contains(&seconds), "{seconds}");
    assert_eq!(model.calls().len(), asked);
}

#[tokio::test]
async fn bad_questions_do_not_open_the_circuit() {
    let model = Model::openai().await;
    model.always(|_| says("hello"));
    let service = Service::variant_b().model(&model).env("CIRCUIT_MIN_VOLUME", "1").start().await;
    let user = service.user(Token::of("u").premium());
    for _ in 0..10 {
        assert_eq!(user.post("/api/agent", "{}").await.status, 400);
    }
    assert_eq!(user.result_of("hi").await["output"], "hello");
}

/// host/docs/interface/decisions-http.md#capacity-and-time.
#[tokio::test]
async fn whoever_finds_no_free_agent_in_time_is_turned_away_with_a_503() {
    let model = Model::openai().await;
    let gate = model.holds(says("held"));
    model.always(|_| says("hello"));
    let service = Service::variant_b()
        .model(&model)
        .env("MAX_CONCURRENT_AGENTS", "1")
        .env("ADMISSION_WAIT_MS", "50")
        .start()
        .await;
    let user = service.user(Token::of("u").premium());
    let held = {
        let user = user.clone();
        Task::begin(async move { user.agent("held").await.status })
    };
    model.was_asked(1).await;
    let answer = user.agent("turned away").await;
    assert_eq!((answer.status, answer.body.as_str()), (503, UNAVAILABLE), "{answer}");
    assert!(answer.header("retry-after").parse::<u64>().is_ok(), "{:?}", answer.headers);
    gate.open();
    assert_eq!(held.ended().await, 200);
    assert_eq!(user.result_of("turned away").await["output"], "hello");
}

#[tokio::test]
async fn a_request_waits_for_a_free_agent() {
    let model = Model::openai().await;
    let gate = model.holds(says("first"));
    model.says("second");
    let service = Service::variant_b()
        .model(&model)
        .env("MAX_CONCURRENT_AGENTS", "1")
        .env("ADMISSION_WAIT_MS", "60000")
        .start()
        .await;
    let user = service.user(Token::of("u").premium());
    let ask = |query: &'static str| {
        let user = user.clone();
        Task::begin(async move { user.result_of(query).await["output"].take() })
    };
    let first = ask("first");
    model.was_asked(1).await;
    let second = ask("second");
    for _ in 0..10 {
        assert_eq!(service.get("/metrics").await.status, 200);
    }
    assert_eq!(model.calls().len(), 1);
    gate.open();
    let outputs: [Value; 2] = [first.ended().await, second.ended().await];
    assert_eq!(outputs, [json!("first"), json!("second")]);
}

#[tokio::test]
async fn what_is_not_there_and_what_is_not_allowed_are_said_in_json() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).start().await;
    let user = service.user(Token::of("u"));
    let unknown = user.get("/api/nope").await;
    assert_eq!((unknown.status, unknown.body.as_str()), (404, r#"{"error":"Not found"}"#));
    let wrong = user.get("/api/agent").await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, "POST"), "{wrong}");
}

#[tokio::test]
async fn every_answer_carries_the_id_of_its_request() {
    let model = Model::openai().await;
    model.says("hello");
    let service = Service::variant_b().model(&model).start().await;
    let user = service.user(Token::of("u"));
    let request = user.request(reqwest::Method::POST, "/api/agent").header("x-request-id", "mine-1");
    let answer = user.send(request.body(r#"{"query":"hi"}"#)).await;
    assert_eq!((answer.status, answer.header("x-request-id")), (200, "mine-1"));
    for refused in [service.post("/api/agent", "{}").await, service.user("none").agent("hi").await] {
        assert!(!refused.header("x-request-id").is_empty(), "{refused}");
    }
}
