//! `POST /api/serverless`: the handler as functions of a cloud have it
//! (host/docs/interface/endpoints.md#variant-b).

use acceptance::{Model, Play, Service, Token, says};
use serde_json::json;

#[tokio::test]
async fn a_query_is_answered_with_the_agents_result() {
    let model = Model::openai().await;
    model.always(|_| says("hello"));
    let service = Service::variant_b().model(&model).start().await;
    let answer = service.user(Token::of("u")).serverless("hi").await;
    assert_eq!(answer.status, 200, "{answer}");
    assert!(answer.header("content-type").starts_with("application/json"), "{answer}");
    let result = answer.json();
    assert_eq!((&result["output"], &result["stopReason"]), (&json!("hello"), &json!("completed")));
    assert!(result["id"].as_str().unwrap().starts_with("run_"));
}

#[tokio::test]
async fn a_failure_is_a_500_with_its_message_and_no_secret() {
    let model = Model::openai().await;
    let body = format!("wrong key {}", model.key());
    model.always(move |_| Play::Whole { status: 401, headers: Vec::new(), body: body.clone() });
    let service = Service::variant_b().model(&model).start().await;
    let answer = service.user(Token::of("u")).serverless("hi").await;
    assert_eq!(answer.status, 500, "{answer}");
    let body = answer.json();
    let message = body["error"].as_str().unwrap_or_else(|| panic!("a message: {answer}"));
    assert!(!message.is_empty() && !message.contains(model.key()), "{message}");
    assert_eq!(body.as_object().unwrap().len(), 1);
}
