//! What is a question (host/docs/interface/node-clients.md#validation-issues,
//! host/docs/interface/node-clients.md#bodies).

use acceptance::Token;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::differences::Difference;
use super::pair::{Exchange, Pair};

/// A user whose window does not fill.
fn user() -> Token {
    Token::of("u").premium()
}

#[tokio::test]
async fn wrong_bodies_have_the_same_issues() {
    let pair = Pair::start().await;
    let options = |options: Value| json!({ "query": "hi", "options": options });
    for body in [
        json!({}),
        json!({ "Query": "hi" }),
        json!({ "query": 5 }),
        json!({ "query": 5.5 }),
        json!({ "query": null }),
        json!({ "query": true }),
        json!({ "query": [] }),
        json!({ "query": {} }),
        json!({ "query": "" }),
        json!({ "query": "x".repeat(1001) }),
        options(json!({ "maxTokens": 5 })),
        options(json!({ "maxTokens": 99.999 })),
        options(json!({ "maxTokens": 10_001 })),
        options(json!({ "maxTokens": 1e300 })),
        options(json!({ "maxTokens": -1e300 })),
        options(json!({ "maxTokens": "5" })),
        options(json!({ "maxTokens": null })),
        options(json!({ "maxTokens": false })),
        options(json!({ "temperature": 9 })),
        options(json!({ "temperature": -0.000_1 })),
        options(json!({ "temperature": {} })),
        options(json!({ "temperature": 9, "maxTokens": 5 })),
        options(json!(null)),
        options(json!([])),
        options(json!("none")),
        options(json!(7)),
        json!({ "options": { "temperature": 9, "maxTokens": 5 } }),
        json!({ "query": "", "options": null }),
        json!([]),
        json!([{ "query": "hi" }]),
    ] {
        let (node, _) = pair.check(&Exchange::agent(&user(), &body), &[]).await;
        assert_eq!(node.status, 400, "{body}");
    }
    assert!(pair.node_model.calls().is_empty() && pair.our_model.calls().is_empty());
}

#[tokio::test]
async fn right_bodies_have_the_same_answers() {
    let pair = Pair::start().await;
    let options = |options: Value| json!({ "query": "hi", "options": options });
    // Each is a question of its own on Node too: its cache looks at the query alone.
    for (n, body) in [
        json!({ "query": "x".repeat(1000) }),
        json!({ "query": "é" }),
        json!({ "query": "a\u{0}b\u{2028}c" }),
        // Not blanks alone: the models repeat the query, and a reply of blanks is none to us.
        json!({ "query": " x " }),
        options(json!({})),
        options(json!({ "maxTokens": 100, "temperature": 0 })),
        options(json!({ "maxTokens": 10_000, "temperature": 2 })),
        options(json!({ "maxTokens": 150.5 })),
        options(json!({ "unknown": null })),
        json!({ "query": "hi", "unknown": { "a": [1] } }),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = body;
        if body["query"] == "hi" {
            body["query"] = json!(format!("hi {n}"));
        }
        let (node, _) = pair.check(&Exchange::agent(&user(), &body), &[]).await;
        assert_eq!(node.status, 200, "{body}");
    }
    let temperatures = |calls: Vec<acceptance::Request>| {
        calls.iter().map(|call| call.body["temperature"].as_f64()).collect::<Vec<_>>()
    };
    assert_eq!(temperatures(pair.node_model.calls()), temperatures(pair.our_model.calls()));
}

#[tokio::test]
async fn what_is_no_json_is_the_callers_fault_here() {
    let pair = Pair::start().await;
    for body in ["{", "not json", r#"{"query":"hi",}"#, "{}{}"] {
        let exchange = Exchange::post("/api/agent").token(&user()).raw_json(body);
        pair.check(&exchange, &[Difference::MalformedJson]).await;
    }
}

#[tokio::test]
async fn what_is_too_large_is_the_callers_fault_here() {
    let pair = Pair::start().await;
    let padded = |bytes: usize| {
        let frame = json!({ "query": "hi", "padding": "" }).to_string().len();
        json!({ "query": "hi", "padding": "x".repeat(bytes - frame) })
    };
    pair.check(&Exchange::agent(&user(), &padded(102_400)), &[]).await;
    pair.check(&Exchange::agent(&user(), &padded(102_401)), &[Difference::TooLarge]).await;
}

#[tokio::test]
async fn the_content_type_matters_there_and_not_here() {
    let pair = Pair::start().await;
    for content_type in ["text/plain", "application/vnd.api+json", "application/json; charset=iso-8859-1"] {
        let exchange =
            Exchange::post("/api/agent").token(&user()).header(CONTENT_TYPE.as_str(), content_type);
        pair.check(&exchange.raw(r#"{"query":"hi"}"#), &[Difference::ContentType]).await;
    }
    pair.check(
        &Exchange::post("/api/agent")
            .token(&user())
            .header(CONTENT_TYPE.as_str(), "application/json; charset=utf-8")
            .raw(r#"{"query":"hi there"}"#),
        &[],
    )
    .await;
}

#[tokio::test]
async fn no_body_is_an_empty_object() {
    let pair = Pair::start().await;
    pair.check(&Exchange::post("/api/agent").token(&user()), &[]).await;
    for nothing in ["", "\u{feff}"] {
        pair.check(&Exchange::post("/api/agent").token(&user()).raw_json(nothing), &[]).await;
    }
}

#[tokio::test]
async fn encoded_bodies_are_decoded_by_both_and_limited_by_what_they_decode_to() {
    let pair = Pair::start().await;
    // Made by Python's gzip and zlib: `{"query":""}`.
    let gzip = BASE64.decode("H4sIAAAAAAACA6tWKixNLapUslJSqgUA5TPLCgwAAAA=").unwrap();
    let zlib = BASE64.decode("eNqrViosTS2qVLJSUqoFABuiA/E=").unwrap();
    // 300,000 blanks.
    let bomb = BASE64.decode("H4sIAAAAAAACA+3BAQ0AAADCoCrvn9IeDigAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAPgx3yofVOCTBAA=").unwrap();
    let post = |coding: &str, body: Vec<u8>| {
        Exchange::post("/api/agent").token(&user()).header("content-encoding", coding).raw_json(body)
    };
    for (coding, body) in [("gzip", &gzip), ("GZIP", &gzip), ("deflate", &zlib)] {
        let (node, _) = pair.check(&post(coding, body.clone()), &[]).await;
        assert_eq!(node.status, 400, "{coding}");
    }
    let (node, _) = pair.check(&post("identity", br#"{"query":""}"#.to_vec()), &[]).await;
    assert_eq!(node.status, 400);
    pair.check(&post("gzip", bomb), &[Difference::TooLarge]).await;
    pair.check(&post("gzip", b"{}".to_vec()), &[Difference::MalformedJson]).await;
    pair.check(&post("gzip", gzip[..gzip.len() - 4].to_vec()), &[Difference::MalformedJson]).await;
    for coding in ["zstd", "gzip, gzip", "br"] {
        pair.check(&post(coding, gzip.clone()), &[Difference::Coding]).await;
    }
}
