//! The log: one line per request with its id, and nothing that is nobody's business.

use acceptance::{Component, Model, Play, Service, asks_for, eventually};
use reqwest::Method;
use serde_json::{Value, json};

/// Every line that says how a request ended, as soon as there are `count`: lines are written beside the
/// answers.
async fn request_lines(service: &Service, count: usize) -> Vec<Value> {
    eventually("the lines of the requests", async || {
        let entries = service.log().entries().into_iter();
        let lines: Vec<_> = entries.filter(|entry| entry["method"].is_string()).collect();
        (lines.len() >= count).then_some(lines)
    })
    .await
}

#[tokio::test]
async fn the_id_goes_with_the_request_wherever_it_goes() {
    let model = Model::openai().await;
    model.always(|request| match request.tool_results().last() {
        None => asks_for("trap", json!({})),
        Some(_) => Play::Whole { status: 401, headers: vec![], body: String::new() },
    });
    let misbehaving = Component::misbehaving("misbehaving");
    let service =
        Service::variant_a().model(&model).tools([misbehaving]).env("LOG_LEVEL", "debug").start().await;
    let request = service.request(Method::POST, "/agent/invoke").header("x-request-id", "follow-me");
    assert_eq!(service.send(request.body(r#"{"input":"hi"}"#)).await.status, 500);
    for call in model.calls() {
        assert_eq!(call.header("x-client-request-id"), "follow-me");
    }
    let of_tool = |entry: &Value| entry["tool"] == "trap" && entry["outcome"] == "trapped";
    assert_eq!(service.log().entry("the tool's crash", of_tool).await["request_id"], "follow-me");
    let failure = service.log().entry("the failure", |entry| entry["status"] == 500).await;
    assert_eq!((&failure["request_id"], &failure["level"]), (&json!("follow-me"), &json!("ERROR")));
    // A failure is logged once, in the layer that answers it.
    let errors = service.log().entries().into_iter().filter(|entry| entry["level"] == "ERROR");
    assert_eq!(errors.count(), 1, "{}", service.log());
}

#[tokio::test]
async fn no_body_no_key_no_token_and_no_query_is_logged_at_any_level() {
    let model = Model::openai().await;
    model.asks_for("calculate", json!({ "expression": "1234567 * 1 + 0 * 7654321" }));
    model.says("the model's own words");
    model.asks_for("calculate", json!({ "expression": "7654321 +" }));
    model.answers(400, &[], "");
    let service = Service::variant_a().model(&model).env("LOG_LEVEL", "debug").start().await;
    for path in ["/agent/invoke?token=query-token", "/agent/invoke"] {
        let request = service
            .request(Method::POST, path)
            .header("authorization", "Bearer header-token")
            .header("cookie", "session=cookie-token")
            .header("x-api-key", "header-key");
        service.send(request.body(json!({ "input": "the caller's own words" }).to_string())).await;
    }
    service.post("/agent/invoke", r#"{"input": "the caller's broken words"#).await;
    service.post("/agent/invoke", json!({ "input": ["the caller's", "list"] }).to_string()).await;
    assert_eq!(request_lines(&service, 4).await.len(), 4);
    let log = service.log().to_string();
    let private = [
        "own words",
        "broken words",
        "1234567",
        "7654321",
        "query-token",
        "header-token",
        "cookie-token",
        "header-key",
        "caller's",
        model.key(),
    ];
    for text in private {
        assert!(!log.contains(text), "{text:?} is in the log:\n{log}");
    }
}

#[tokio::test]
async fn nobody_can_forge_a_line_of_the_log() {
    let model = Model::openai().await;
    model.always(|request| match request.tool_results().last() {
        None => asks_for("fail", json!({ "message": "x\n{\"level\":\"ERROR\",\"forged\":true}\n" })),
        Some(_) => Play::Whole {
            status: 401,
            headers: vec![],
            body: json!({ "error": { "message": "y\n{\"level\":\"ERROR\",\"forged\":true}\n" } }).to_string(),
        },
    });
    let misbehaving = Component::misbehaving("misbehaving");
    for environment in ["production", "test"] {
        let service = Service::variant_a()
            .model(&model)
            .tools([misbehaving.clone()])
            .env("NODE_ENV", environment)
            .env("LOG_LEVEL", "debug")
            .start()
            .await;
        service.invoke("z\n{\"level\":\"ERROR\",\"forged\":true}\n").await;
        service.get("/%0A%7B%22level%22:%22ERROR%22%7D%0A\u{202e}").await;
        // What the provider says is quoted, so that there is something that could be forged.
        service.log().line_with(&["refused the request", "forged"]).await;
        let forged = |line: &&str| line.starts_with('{') && line.contains("forged") && environment == "test";
        assert_eq!(service.log().stdout().lines().filter(forged).count(), 0, "{}", service.log());
        if environment == "production" {
            assert!(service.log().entries().iter().all(|entry| entry.get("forged").is_none()));
        }
    }
}
