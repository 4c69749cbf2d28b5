//! What is a question: the table of bodies (host/docs/interface/node-clients.md#validation-issues,
//! host/docs/interface/decisions-http.md#validation).

use acceptance::{Model, Service, Token, User, says};
use insta::assert_snapshot;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

/// A service, its model, and a user who may ask often.
async fn start() -> (Service, Model, User) {
    let model = Model::openai().await;
    model.expects_any_temperature().always(|_| says("hello"));
    let service = Service::variant_b().model(&model).start().await;
    let user = service.user(Token::of("u").premium());
    (service, model, user)
}

/// Something of the wrong type.
fn wrong_type(path: &[&str], expected: &str, received: &str) -> Value {
    let message = match received {
        "undefined" => "Required".to_owned(),
        _ => format!("Expected {expected}, received {received}"),
    };
    json!({ "code": "invalid_type", "expected": expected, "received": received, "path": path, "message": message })
}

/// Something too small or too big.
fn out_of_bounds(path: &[&str], of: &str, bound: (&str, i64), message: &str) -> Value {
    let (side, limit) = bound;
    let code = if side == "minimum" { "too_small" } else { "too_big" };
    json!({
        "code": code, side: limit, "type": of, "origin": of, "inclusive": true, "exact": false,
        "message": message, "path": path,
    })
}

const TOKENS: [&str; 2] = ["options", "maxTokens"];
const TEMPERATURE: [&str; 2] = ["options", "temperature"];

#[tokio::test]
async fn every_issue_is_listed_as_zod_lists_it() {
    let (_service, model, user) = start().await;
    let no_query = || wrong_type(&["query"], "string", "undefined");
    let too_short =
        out_of_bounds(&["query"], "string", ("minimum", 1), "String must contain at least 1 character(s)");
    let too_long = out_of_bounds(
        &["query"],
        "string",
        ("maximum", 1000),
        "String must contain at most 1000 character(s)",
    );
    let few =
        || out_of_bounds(&TOKENS, "number", ("minimum", 100), "Number must be greater than or equal to 100");
    let many = || {
        out_of_bounds(&TOKENS, "number", ("maximum", 10_000), "Number must be less than or equal to 10000")
    };
    let cold =
        out_of_bounds(&TEMPERATURE, "number", ("minimum", 0), "Number must be greater than or equal to 0");
    let hot =
        || out_of_bounds(&TEMPERATURE, "number", ("maximum", 2), "Number must be less than or equal to 2");
    let options = |options: Value| json!({ "query": "hi", "options": options });
    for (body, issues) in [
        (json!({}), vec![no_query()]),
        (json!({ "Query": "hi", "input": "hi" }), vec![no_query()]),
        (json!({ "query": 5 }), vec![wrong_type(&["query"], "string", "number")]),
        (json!({ "query": null }), vec![wrong_type(&["query"], "string", "null")]),
        (json!({ "query": true }), vec![wrong_type(&["query"], "string", "boolean")]),
        (json!({ "query": ["hi"] }), vec![wrong_type(&["query"], "string", "array")]),
        (json!({ "query": { "a": 1 } }), vec![wrong_type(&["query"], "string", "object")]),
        (json!({ "query": "" }), vec![too_short]),
        (json!({ "query": "x".repeat(1001) }), vec![too_long]),
        (options(json!({ "maxTokens": 99 })), vec![few()]),
        (options(json!({ "maxTokens": 99.9 })), vec![few()]),
        (options(json!({ "maxTokens": -1e300 })), vec![few()]),
        (options(json!({ "maxTokens": 10_001 })), vec![many()]),
        (options(json!({ "maxTokens": 1e300 })), vec![many()]),
        (options(json!({ "maxTokens": "150" })), vec![wrong_type(&TOKENS, "number", "string")]),
        (options(json!({ "maxTokens": null })), vec![wrong_type(&TOKENS, "number", "null")]),
        (options(json!({ "temperature": -0.1 })), vec![cold]),
        (options(json!({ "temperature": 2.1 })), vec![hot()]),
        (options(json!({ "temperature": [] })), vec![wrong_type(&TEMPERATURE, "number", "array")]),
        (options(json!(null)), vec![wrong_type(&["options"], "object", "null")]),
        (options(json!([])), vec![wrong_type(&["options"], "object", "array")]),
        (options(json!("none")), vec![wrong_type(&["options"], "object", "string")]),
        // All of them, in the order of the schema and not in that of the body.
        (json!({ "options": { "temperature": 9, "maxTokens": 5 } }), vec![no_query(), few(), hot()]),
        (json!([]), vec![wrong_type(&[], "object", "array")]),
        (json!(null), vec![wrong_type(&[], "object", "null")]),
    ] {
        let answer = user.agent_with(body.clone()).await;
        assert_eq!((answer.status, answer.json()), (400, json!({ "error": issues })), "{body}: {answer}");
        assert_eq!(answer.header("content-type"), "application/json; charset=utf-8");
    }
    assert_eq!(model.calls().len(), 0);
}

#[tokio::test]
async fn what_is_within_the_bounds_is_a_question() {
    let (_service, model, user) = start().await;
    let bodies = [
        json!({ "query": "x" }),
        json!({ "query": "x".repeat(1000) }),
        json!({ "query": " " }),
        json!({ "query": "hi", "options": {} }),
        json!({ "query": "hi", "options": { "maxTokens": 100 } }),
        json!({ "query": "hi", "options": { "maxTokens": 10_000 } }),
        json!({ "query": "hi", "options": { "maxTokens": 150.5 } }),
        json!({ "query": "hi", "options": { "maxTokens": 1e3 } }),
        json!({ "query": "hi", "options": { "temperature": 0 } }),
        json!({ "query": "hi", "options": { "temperature": 2 } }),
        json!({ "query": "hi", "options": { "temperature": 0.7, "maxTokens": 200 } }),
        json!({ "query": "hi", "options": { "topP": "x" }, "stream": 5, "user": null }),
    ];
    for body in &bodies {
        let answer = user.agent_with(body.clone()).await;
        assert_eq!(answer.status, 200, "{body}: {answer}");
    }
    assert!(!model.calls().is_empty());
}

/// host/docs/interface/node-clients.md#validation-issues.
#[tokio::test]
async fn length_is_counted_in_characters_and_not_in_what_they_are_stored_as() {
    let (_service, _model, user) = start().await;
    for (character, bytes) in [("é", 2), ("好", 3), ("🦀", 4)] {
        assert_eq!(character.len(), bytes);
        assert_eq!(user.agent(&character.repeat(1000)).await.status, 200, "{character}");
        assert_eq!(user.agent(&character.repeat(1001)).await.status, 400, "{character}");
    }
}

#[tokio::test]
async fn what_is_no_json_is_invalid_input_and_what_is_too_large_is_a_413() {
    let (_service, model, user) = start().await;
    let bodies: [&[u8]; 6] =
        [b"{", b"not json", br#"{"query":"hi",}"#, b"{\"query\":\"\xff\"}", b"{}{}", b"\0"];
    for body in bodies {
        let answer = user.post("/api/agent", body).await;
        assert_eq!((answer.status, answer.body.as_str()), (400, r#"{"error":"Invalid input"}"#), "{body:?}");
    }
    let large = json!({ "query": "hi", "padding": "x".repeat(102_400) }).to_string();
    assert_snapshot!(user.post("/api/agent", large).await, @r#"
    413 application/json; charset=utf-8
    {"error":"Payload too large"}
    "#);
    // Scalars are JSON, and no object; Express's parser turns them away before the schema is asked.
    for scalar in ["5", "true", "\"query\""] {
        assert_eq!(user.post("/api/agent", scalar).await.status, 400, "{scalar}");
    }
    assert_eq!(model.calls().len(), 0);
}

#[tokio::test]
async fn the_content_type_does_not_matter_and_no_body_is_an_empty_one() {
    let (_service, _model, user) = start().await;
    for content_type in ["text/plain", "application/vnd.api+json", "application/json; charset=iso-8859-1", ""]
    {
        let request = user.request(Method::POST, "/api/agent").header(CONTENT_TYPE, content_type);
        let answer = user.send(request.body(r#"{"query":"hi"}"#)).await;
        assert_eq!(answer.status, 200, "{content_type}: {answer}");
    }
    let required = json!({ "error": [wrong_type(&["query"], "string", "undefined")] });
    let nothing = user.send(user.request(Method::POST, "/api/agent")).await;
    assert_eq!((nothing.status, nothing.json()), (400, required.clone()));
    let empty = user.post("/api/agent", "").await;
    assert_eq!((empty.status, empty.json()), (400, required));
}

#[tokio::test]
async fn options_reach_every_model_call_of_the_run() {
    let (_service, model, user) = start().await;
    model.asks_for("calculate", json!({ "expression": "1 + 1" }));
    model.says("2");
    let options = json!({ "maxTokens": 321, "temperature": 1.25 });
    let answer = user.agent_with(json!({ "query": "hi", "options": options })).await;
    assert_eq!(answer.status, 200, "{answer}");
    let calls = model.calls();
    assert_eq!(calls.len(), 2);
    for call in calls {
        assert_eq!((call.max_tokens(), call.body["temperature"].as_f64()), (321, Some(1.25)));
    }
}

#[tokio::test]
async fn without_options_the_temperature_is_0() {
    let (_service, model, user) = start().await;
    assert_eq!(user.agent("hi").await.status, 200);
    assert_eq!(model.calls()[0].body["temperature"].as_f64(), Some(0.0));
}
