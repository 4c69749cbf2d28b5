//! How often anybody may ask (host/docs/interface/node-clients.md#rate-limit-headers). The interface fixes
//! the windows, so they are filled as they are.

use acceptance::Token;
use serde_json::json;

use super::differences::Difference;
use super::pair::{Exchange, Pair};

#[tokio::test]
async fn the_window_of_an_address_fills_in_the_same_way_and_closes_in_the_same_words() {
    let pair = Pair::start().await;
    let nobody = Exchange::post("/api/agent").json(&json!({ "query": "hi" }));
    for n in 1..=100 {
        let (node, _) = pair.check(&nobody, &[]).await;
        assert_eq!(node.status, 401, "request {n}");
    }
    for exchange in [
        nobody,
        Exchange::agent(&Token::of("u"), &json!({ "query": "hi" })),
        Exchange::post("/api/nope"),
        Exchange::get("/api/"),
    ] {
        let (node, ours) = pair.check(&exchange, &[]).await;
        assert_eq!((node.status, ours.body.as_str()), (429, "Too many requests from this IP"));
    }
    // A wrong method is known all the same, and stands in `Allow`.
    let (_, ours) = pair.check(&Exchange::get("/api/agent"), &[Difference::WrongMethod]).await;
    assert_eq!((ours.status, ours.body.as_str()), (429, "Too many requests from this IP"));
}

#[tokio::test]
async fn the_window_of_a_user_fills_in_the_same_way() {
    let pair = Pair::start().await;
    let ask = |n| Exchange::agent(&Token::of("u"), &json!({ "query": format!("query {n}") }));
    for n in 1..=10 {
        let (node, _) = pair.check(&ask(n), &[]).await;
        assert_eq!(node.status, 200, "request {n}");
    }
    for n in 11..=12 {
        let (node, _) = pair.check(&ask(n), &[Difference::UserWindow]).await;
        assert_eq!(node.status, 429, "request {n}");
    }
    // Others have windows of their own.
    pair.check(&Exchange::agent(&Token::of("v"), &json!({ "query": "hi" })), &[]).await;
}

#[tokio::test]
async fn the_tier_is_read_with_every_request() {
    let pair = Pair::start().await;
    for token in
        [Token::of("u"), Token::of("u").premium(), Token::of("u"), Token::of("u").claim("tier", "gold")]
    {
        pair.check(&Exchange::agent(&token, &json!({})), &[]).await;
    }
}

#[tokio::test]
async fn questions_and_jobs_share_a_users_window() {
    let pair = Pair::start().await;
    let token = Token::of("u");
    pair.check(&Exchange::agent(&token, &json!({ "query": "hi" })), &[]).await;
    let job = Exchange::post("/api/agent/async").token(&token).json(&json!({ "query": "hi" }));
    pair.check(&job, &[Difference::JobAccepted]).await;
    let (node, _) = pair.check(&Exchange::agent(&token, &json!({ "query": "hi" })), &[]).await;
    assert_eq!(node.header("x-ratelimit-remaining"), "7");
}

#[tokio::test]
async fn an_address_that_is_only_claimed_counts_for_nothing() {
    let pair = Pair::start().await;
    for address in ["192.0.2.1", "192.0.2.2, 203.0.113.9"] {
        let exchange = Exchange::post("/api/agent").header("x-forwarded-for", address);
        pair.check(&exchange, &[]).await;
    }
    let (node, _) = pair.check(&Exchange::post("/api/agent"), &[]).await;
    assert_eq!(node.header("ratelimit-remaining"), "97");
}
