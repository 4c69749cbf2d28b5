//! Who is let in: the table of tokens (host/docs/interface/endpoints.md#authentication,
//! host/docs/interface/node-clients.md#tokens).

use acceptance::{Answer, SECRET, Service, Socket, Token, now};
use reqwest::Method;
use reqwest::header::AUTHORIZATION;
use serde_json::{Value, json};

/// Asks for the caller's jobs, which costs nothing, with that header.
async fn ask(service: &Service, authorization: &str) -> Answer {
    let request = service.request(Method::GET, "/api/agent/jobs");
    service.send(request.header(AUTHORIZATION, authorization)).await
}

async fn check(service: &Service, tokens: &[(&str, Token)], status: u16) {
    for (what, token) in tokens {
        let answer = ask(service, &format!("Bearer {token}")).await;
        assert_eq!(answer.status, status, "{what}: {answer}");
        if status == 403 {
            check_empty(what, &answer);
        }
    }
}

/// No body, and nothing that says there was one.
fn check_empty(what: &str, answer: &Answer) {
    assert_eq!((answer.body.as_str(), answer.header("content-type")), ("", ""), "{what}");
    assert_eq!(answer.header("content-length"), "0", "{what}");
}

/// A plain user. Each row gets another id, so that nobody's window fills.
fn user(id: &str) -> Token {
    Token::of(id)
}

#[tokio::test]
async fn tokens_that_node_accepts_are_accepted() {
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").start().await;
    let half_a_minute_and_a_half = Value::from(now() as f64 + 30.5);
    check(
        &service,
        &[
            ("without an end", user("a")),
            ("HS384", user("b").header("alg", "HS384")),
            ("HS512", user("c").header("alg", "HS512")),
            ("an end to come", user("d").claim("exp", now() + 60)),
            ("an end that is no whole second", user("e").claim("exp", half_a_minute_and_a_half)),
            ("a beginning now", user("f").claim("nbf", now())),
            ("issued in the future", user("g").claim("iat", now() + 3600)),
            ("an audience", user("h").claim("aud", "somebody else")),
            ("several audiences", user("i").claim("aud", json!(["a", "b"]))),
            ("an issuer", user("j").claim("iss", "anybody")),
            ("another type", user("k").header("typ", "at+jwt")),
            ("claims of others", user("l").claim("roles", json!([{ "a": null }]))),
            ("a number as id", Token::of(12)),
            ("an id that looks like a path", user("../../etc")),
        ],
        200,
    )
    .await;
}

#[tokio::test]
async fn tokens_that_node_refuses_are_a_403_without_a_body() {
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").start().await;
    check(
        &service,
        &[
            ("unsigned", user("u").header("alg", "none")),
            ("RS256 in the header, HMAC in truth", user("u").header("alg", "RS256")),
            ("no algorithm there is", user("u").header("alg", "HS1")),
            ("an algorithm that is no text", user("u").header("alg", 256)),
            ("another secret", user("u").signed_with("another secret")),
            ("no secret", user("u").signed_with("")),
            ("it ends this very second", user("u").claim("exp", now())),
            ("it ended an hour ago", user("u").claim("exp", now() - 3600)),
            // Other libraries grant a minute.
            ("it ended ten seconds ago", user("u").claim("exp", now() - 10)),
            ("an end that is text", user("u").claim("exp", (now() + 60).to_string())),
            ("an end that is null", user("u").claim("exp", Value::Null)),
            ("an end before 1970", user("u").claim("exp", -1)),
            ("a beginning to come", user("u").claim("nbf", now() + 3600)),
            ("a beginning that is text", user("u").claim("nbf", "0")),
        ],
        403,
    )
    .await;
}

/// host/docs/interface/decisions-http.md#callers.
#[tokio::test]
async fn a_token_without_a_usable_id_is_a_403_without_a_body() {
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").start().await;
    let ids = [Value::Null, json!(true), json!({}), json!({ "id": "u" }), json!(["u"])];
    let mut tokens: Vec<_> = ids.map(|id| ("an id that is none", Token::of(id))).into();
    tokens.extend([
        ("no id", Token::with_payload(json!({}))),
        ("another claim instead", Token::with_payload(json!({ "sub": "u", "userId": "u" }))),
        ("a payload that is text", Token::with_payload(json!("u"))),
        ("a payload that is a list", Token::with_payload(json!([{ "id": "u" }]))),
        ("a payload that is nothing", Token::with_payload(Value::Null)),
    ]);
    check(&service, &tokens, 403).await;
}

#[tokio::test]
async fn a_token_that_was_tampered_with_is_a_403_without_a_body() {
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").start().await;
    let token = user("u").to_string();
    let parts: Vec<_> = token.split('.').collect();
    let other = user("somebody-else").to_string();
    let others: Vec<_> = other.split('.').collect();
    for (what, text) in [
        ("somebody else's payload", format!("{}.{}.{}", parts[0], others[1], parts[2])),
        ("a padded signature", format!("{token}=")),
        ("a signature cut short", token[..token.len() - 2].to_owned()),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("two parts", format!("{}.{}", parts[0], parts[1])),
        ("four parts", format!("{token}.{}", parts[2])),
        ("no parts", "nonsense".to_owned()),
        ("dots", "..".to_owned()),
        ("the secret", SECRET.to_owned()),
        ("a character that base64url has not", format!("{token}+")),
    ] {
        let answer = ask(&service, &format!("Bearer {text}")).await;
        assert_eq!(answer.status, 403, "{what}: {answer}");
        check_empty(what, &answer);
    }
}

#[tokio::test]
async fn the_second_part_of_the_header_is_the_token_whatever_the_first_one_is() {
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").start().await;
    let token = user("u");
    for (header, status) in [
        (format!("Bearer {token}"), 200),
        (format!("bearer {token}"), 200),
        (format!("Whatever {token}"), 200),
        (format!("Bearer {token} and more"), 200),
        ("Bearer".to_owned(), 401),
        (token.to_string(), 401),
        (format!("Bearer  {token}"), 401),
        (String::new(), 401),
        ("Bearer x".to_owned(), 403),
    ] {
        let answer = ask(&service, &header).await;
        assert_eq!(answer.status, status, "{header:?}: {answer}");
        if status != 200 {
            check_empty(&header, &answer);
        }
    }
    let without = service.get("/api/agent/jobs").await;
    assert_eq!(without.status, 401);
    check_empty("no header", &without);
}

#[tokio::test]
async fn nobody_without_a_token_gets_in_anywhere_below_the_agent() {
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").start().await;
    for (method, path) in [
        (Method::POST, "/api/agent"),
        (Method::POST, "/api/agent/async"),
        (Method::GET, "/api/agent/jobs"),
        (Method::GET, "/api/agent/jobs/1"),
        (Method::POST, "/api/agent/jobs/1/cancel"),
        (Method::DELETE, "/api/agent/cache?pattern=*"),
    ] {
        let answer = service.send(service.request(method.clone(), path)).await;
        assert_eq!(answer.status, 401, "{method} {path}");
        check_empty(path, &answer);
        let wrong = service.request(method.clone(), path).header(AUTHORIZATION, "Bearer x");
        let answer = service.send(wrong).await;
        assert_eq!(answer.status, 403, "{method} {path}");
        check_empty(path, &answer);
    }
}

/// host/docs/interface/decisions-http.md#order-of-checks.
#[tokio::test]
async fn whoever_has_no_token_hears_nothing_about_his_body() {
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").start().await;
    for body in ["{".to_owned(), "{}".to_owned(), "x".repeat(200_000), "x".repeat(5_000_000)] {
        assert_eq!(service.post("/api/agent", body.clone()).await.status, 401);
        let wrong = service.request(Method::POST, "/api/agent").header(AUTHORIZATION, "Bearer x");
        assert_eq!(service.send(wrong.body(body)).await.status, 403);
    }
    // One that is too large is refused unread, and not for its size.
    for (header, status) in
        [("accept: */*", "401 Unauthorized"), ("authorization: Bearer x", "403 Forbidden")]
    {
        let mut socket = Socket::connect(service.address()).await;
        let head = format!(
            "POST /api/agent HTTP/1.1\r\nhost: localhost\r\n{header}\r\ncontent-length: 200000\r\n\r\n"
        );
        socket.send(head).await;
        assert_eq!(socket.read_line().await.trim_end(), format!("HTTP/1.1 {status}"));
    }
}

#[tokio::test]
async fn no_log_shows_a_token_or_the_secret() {
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").env("LOG_LEVEL", "debug").start().await;
    let (good, bad) = (user("u").to_string(), user("u").signed_with("another").to_string());
    assert_eq!(ask(&service, &format!("Bearer {good}")).await.status, 200);
    assert_eq!(ask(&service, &format!("Bearer {bad}")).await.status, 403);
    service.log().entry("the line of the request", |entry| entry["status"] == 403).await;
    let log = service.log().to_string();
    for secret in [SECRET, &good, &bad, good.split('.').next_back().expect("a signature")] {
        assert!(!log.contains(secret), "{log}");
    }
}

/// host/docs/interface/errors-and-limits.md#errors: an entry names the user.
#[tokio::test]
async fn the_line_of_a_request_names_its_user() {
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").start().await;
    service.user(user("somebody-known")).jobs("").await;
    let named =
        |entry: &Value| entry["path"] == "/api/agent/jobs" && entry.to_string().contains("somebody-known");
    service.log().entry("a line that names the user", named).await;
}
