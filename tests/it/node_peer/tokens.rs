//! Who is let in (host/docs/interface/node-clients.md#tokens).

use acceptance::{Token, now};
use serde_json::{Value, json};

use super::differences::Difference;
use super::pair::{Exchange, Pair};

/// An exchange that costs nothing: who is let in hears that there is no query.
fn ask(authorization: &str) -> Exchange {
    Exchange::post("/api/agent").header("authorization", authorization).json(&json!({}))
}

#[tokio::test]
async fn the_same_tokens_open_and_close_the_same_doors() {
    let pair = Pair::start().await;
    let user = || Token::of("u").premium();
    for (what, token, status) in [
        ("plain", Token::of("v"), 400),
        ("premium", user(), 400),
        ("HS384", user().header("alg", "HS384"), 400),
        ("HS512", user().header("alg", "HS512"), 400),
        ("none", user().header("alg", "none"), 403),
        ("RS256", user().header("alg", "RS256"), 403),
        ("unknown algorithm", user().header("alg", "HS1"), 403),
        ("another type", user().header("typ", "at+jwt"), 400),
        ("a key id", user().header("kid", "../../dev/null"), 400),
        ("critical headers", user().header("crit", json!(["b64"])), 400),
        ("another secret", user().signed_with("another"), 403),
        ("ends now", user().claim("exp", now()), 403),
        ("ended", user().claim("exp", now() - 10), 403),
        ("ends later", user().claim("exp", now() + 600), 400),
        ("ends later, no whole second", user().claim("exp", now() as f64 + 600.5), 400),
        ("ended, no whole second", user().claim("exp", now() as f64 - 10.5), 403),
        ("ends in text", user().claim("exp", (now() + 600).to_string()), 403),
        ("ends in null", user().claim("exp", Value::Null), 403),
        ("ends before 1970", user().claim("exp", -1), 403),
        ("ends at 0", user().claim("exp", 0), 403),
        ("begins now", user().claim("nbf", now()), 400),
        ("begins later", user().claim("nbf", now() + 600), 403),
        ("begins in text", user().claim("nbf", "0"), 403),
        ("issued later", user().claim("iat", now() + 600), 400),
        ("issued in text", user().claim("iat", "then"), 400),
        ("an audience", user().claim("aud", "others"), 400),
        ("audiences", user().claim("aud", json!(["a", "b"])), 400),
        ("an issuer", user().claim("iss", "anybody"), 400),
        ("a number as id", Token::of(1234), 400),
    ] {
        let (node, _) = pair.check(&ask(&format!("Bearer {token}")), &[]).await;
        assert_eq!(node.status, status, "{what}: Node itself");
    }
}

#[tokio::test]
async fn the_header_is_read_in_the_same_way() {
    let pair = Pair::start().await;
    let token = Token::of("u").premium();
    for authorization in [
        format!("Bearer {token}"),
        format!("bearer {token}"),
        format!("Whatever {token}"),
        format!("Bearer {token} more"),
        format!("Bearer  {token}"),
        format!("Bearer\t{token}"),
        token.to_string(),
        "Bearer".to_owned(),
        String::new(),
        "Bearer x".to_owned(),
        format!("Bearer {token}="),
        format!("Bearer {}", token.to_string().rsplit_once('.').unwrap().0),
        format!("Bearer {token}.x"),
        "Bearer ..".to_owned(),
    ] {
        pair.check(&ask(&authorization), &[]).await;
    }
    pair.check(&Exchange::post("/api/agent").json(&json!({})), &[]).await;
}

#[tokio::test]
async fn a_token_without_a_usable_id_is_turned_away_here_and_shares_a_window_there() {
    let pair = Pair::start().await;
    for token in
        [Token::with_payload(json!({})), Token::with_payload(json!({ "sub": "u" })), Token::of(Value::Null)]
    {
        pair.check(&ask(&format!("Bearer {token}")), &[Difference::NoUsableId]).await;
    }
}
