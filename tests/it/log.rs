//! The log: one line per request with its id, and nothing that is nobody's business.

use std::collections::BTreeSet;

use acceptance::{Component, Model, Play, Service, Task, asks_for, eventually, order, says};
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
async fn every_request_is_one_line_with_its_id() {
    let model = Model::openai().await;
    model.always(|_| says("hello"));
    let service = Service::variant_a().model(&model).env("LOG_LEVEL", "debug").start().await;
    let requests = [
        (Method::POST, "/agent/invoke", r#"{"input":"hi"}"#, 200),
        (Method::POST, "/agent/invoke", "{", 400),
        (Method::GET, "/agent/invoke", "", 405),
        (Method::GET, "/nowhere", "", 404),
        (Method::GET, "/health/live", "", 200),
        (Method::GET, "/health/ready", "", 200),
        (Method::GET, "/metrics", "", 200),
    ];
    for (n, (method, path, body, status)) in requests.iter().enumerate() {
        let id = format!("request-{n}");
        let request = service.request(method.clone(), path).header("x-request-id", &id).body(*body);
        let answer = service.send(request).await;
        assert_eq!((answer.status, answer.header("x-request-id")), (*status, id.as_str()));
        let line =
            service.log().entry(&id, |entry| entry["request_id"] == id && entry["status"].is_u64()).await;
        assert_eq!(line["method"], method.as_str(), "{line}");
        assert_eq!((&line["path"], &line["status"]), (&json!(path), &json!(status)), "{line}");
        assert!(line["duration_ms"].is_number(), "{line}");
        assert_eq!(line["client"], "127.0.0.1", "{line}");
    }
    assert_eq!(request_lines(&service, requests.len()).await.len(), requests.len());
}

#[tokio::test]
async fn an_id_is_made_when_there_is_none_or_none_that_is_fit() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).start().await;
    let mut ids = BTreeSet::new();
    let unfit = ["", "a b", "a\"b", "{}", "../x", &"x".repeat(129)];
    for theirs in [None].into_iter().chain(unfit.into_iter().map(Some)) {
        let request = service.request(Method::GET, "/nowhere");
        let request = theirs.into_iter().fold(request, |request, id| request.header("x-request-id", id));
        let answer = service.send(request).await;
        let id = answer.header("x-request-id").to_owned();
        assert!(id.len() >= 16 && theirs != Some(id.as_str()), "{theirs:?}: {id}");
        service.log().entry("the line of the request", |entry| entry["request_id"] == id).await;
        ids.insert(id);
    }
    assert_eq!(ids.len(), 7, "every id is another: {ids:?}");
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
        let forged = |line: &&str| line.starts_with('{') && line.contains("forged") && environment == "test";
        assert_eq!(service.log().stdout().lines().filter(forged).count(), 0, "{}", service.log());
        if environment == "production" {
            assert!(service.log().entries().iter().all(|entry| entry.get("forged").is_none()));
        }
    }
}

#[tokio::test]
async fn probes_and_scrapes_that_go_well_are_not_worth_a_line() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).start().await;
    for _ in 0..3 {
        service.live().await;
        service.ready().await;
        service.get("/metrics").await;
    }
    service.get("/nowhere").await;
    service.log().entry("the one line", |entry| entry["path"] == "/nowhere").await;
    assert_eq!(request_lines(&service, 1).await.len(), 1, "{}", service.log());
}

#[tokio::test]
async fn many_requests_at_once_have_each_their_own_line() {
    let model = Model::openai().await;
    model.obeys();
    let service = Service::variant_a().model(&model).env("LOG_LEVEL", "debug").start().await;
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let caller = service.caller();
            Task::begin(async move {
                let body = json!({ "input": order("calculate", &json!({ "expression": "1 / 0" })) });
                let request =
                    caller.request(Method::POST, "/agent/invoke").header("x-request-id", format!("r-{n}"));
                caller.send(request.body(body.to_string())).await.status
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.ended().await, 200);
    }
    let ids = |lines: Vec<Value>| -> BTreeSet<String> {
        lines.iter().map(|line| line["request_id"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let expected: BTreeSet<_> = (0..20).map(|n| format!("r-{n}")).collect();
    let lines = request_lines(&service, 20).await;
    assert_eq!(lines.len(), 20);
    assert_eq!(ids(lines), expected);
    let of_tools = service.log().entries().into_iter().filter(|entry| entry["tool"] == "calculate");
    assert_eq!(ids(of_tools.collect()), expected);
}

#[tokio::test]
async fn the_clients_address_is_that_of_the_proxy_only_when_it_is_trusted() {
    let model = Model::openai().await;
    for (hops, client) in [("0", "127.0.0.1"), ("1", "203.0.113.7"), ("2", "198.51.100.1")] {
        let service = Service::variant_a().model(&model).env("TRUST_PROXY", hops).start().await;
        let request = service.request(Method::GET, "/nowhere");
        service.send(request.header("x-forwarded-for", "198.51.100.1, 203.0.113.7")).await;
        let line = service.log().entry("the request", |entry| entry["path"] == "/nowhere").await;
        assert_eq!(line["client"], client, "{line}");
    }
}
