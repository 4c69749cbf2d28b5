//! `POST /api/gateway`: what is urgent goes to a cluster of its own
//! (host/docs/interface/endpoints.md#gateway-request,
//! host/docs/interface/decisions-http.md#gateway-and-serverless).

use acceptance::{Model, ReservedPort, Service, Token, Upstream, says};
use serde_json::{Value, json};

fn high(query: &str) -> Value {
    json!({ "query": query, "priority": "high" })
}

#[tokio::test]
async fn a_query_of_high_priority_is_forwarded_with_who_asked_and_nothing_else() {
    let model = Model::openai().await;
    let cluster = Upstream::answering(200, "application/json", r#"{"from":"the cluster"}"#).await;
    let service = Service::variant_b()
        .model(&model)
        .env("AGENT_CLUSTER_URL", cluster.url("/agents/run?pool=1"))
        .start()
        .await;
    let user = service.user(Token::of("u"));
    let body = json!({ "query": "urgent", "priority": "high", "options": { "unheardOf": 100 }, "more": 1 });
    let request =
        user.request(reqwest::Method::POST, "/api/gateway").header("x-request-id", "the-callers-id");
    let answer = user.send(request.header("cookie", "session=1").body(body.to_string())).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"from":"the cluster"}"#), "{answer}");
    let received = cluster.received();
    let [received] = received.as_slice() else { panic!("one request: {received:?}") };
    assert_eq!(received.line, "POST /agents/run?pool=1");
    assert_eq!(received.body, r#"{"query":"urgent"}"#);
    assert_eq!(received.header("content-type"), "application/json");
    assert_eq!(received.header("authorization"), format!("Bearer {}", user.token()));
    assert_eq!(received.header("x-request-id"), "the-callers-id");
    assert_eq!((received.header("cookie"), received.header("x-forwarded-for")), ("", ""));
    assert_eq!(model.calls().len(), 0);
}

#[tokio::test]
async fn the_clusters_answer_comes_back_unchanged_whatever_it_is() {
    let model = Model::openai().await;
    for (status, content_type, body) in [
        (201, "application/json", r#"{ "spaces" : [ 1 ,2 ] }"#),
        (404, "text/plain; charset=iso-8859-1", "no such agent"),
        (429, "text/html; charset=utf-8", "Too many"),
        (500, "application/problem+json", "{}"),
        (302, "text/plain", "elsewhere"),
    ] {
        let cluster = Upstream::answering(status, content_type, body).await;
        let service =
            Service::variant_b().model(&model).env("AGENT_CLUSTER_URL", cluster.url("/")).start().await;
        let answer = service.user(Token::of("u")).gateway(high("hi")).await;
        assert_eq!(
            (answer.status, answer.header("content-type"), answer.body.as_str()),
            (status, content_type, body)
        );
        // The window is ours all the same.
        assert_eq!(answer.header("ratelimit-limit"), "100");
    }
}

#[tokio::test]
async fn every_other_priority_is_handled_here() {
    let model = Model::openai().await;
    model.always(|_| says("from here"));
    let cluster = Upstream::answering(200, "application/json", "{}").await;
    let service = Service::variant_b().model(&model).env("AGENT_CLUSTER_URL", cluster.url("/")).start().await;
    let user = service.user(Token::of("u"));
    for priority in
        [json!("low"), json!("High"), json!("high "), json!(""), json!(null), json!(1), json!(["high"])]
    {
        let answer = user.gateway(json!({ "query": "hi", "priority": priority })).await;
        assert_eq!(
            (answer.status, &answer.json()["output"]),
            (200, &json!("from here")),
            "{priority}: {answer}"
        );
    }
    let answer = user.gateway(json!({ "query": "hi" })).await;
    assert_eq!(answer.json()["output"], "from here", "{answer}");
    assert!(cluster.received().is_empty());
}

#[tokio::test]
async fn a_cluster_that_cannot_be_reached_is_a_503() {
    let model = Model::openai().await;
    let nobody = ReservedPort::take();
    let address = format!("http://{}/run?key=hunter2", nobody.address());
    let service = Service::variant_b().model(&model).env("AGENT_CLUSTER_URL", address).start().await;
    let answer = service.user(Token::of("u")).gateway(high("hi")).await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (503, r#"{"error":"Service temporarily unavailable"}"#),
        "{answer}"
    );
    service.log().entry("the reason", |entry| entry.to_string().contains("cluster")).await;
    assert!(!service.log().to_string().contains("hunter2"), "{}", service.log());
}

#[tokio::test]
async fn without_a_cluster_everything_is_handled_here_and_a_warning_said_so() {
    let model = Model::openai().await;
    model.says("from here");
    let service = Service::variant_b().model(&model).start().await;
    let answer = service.user(Token::of("u")).gateway(high("hi")).await;
    assert_eq!((answer.status, &answer.json()["output"]), (200, &json!("from here")), "{answer}");
    let warned = |entry: &Value| {
        entry["level"] == "WARN" && entry["message"].to_string().contains("AGENT_CLUSTER_URL")
    };
    service.log().entry("a warning", warned).await;
}

#[tokio::test]
async fn the_gateway_asks_for_a_token_and_a_query() {
    let model = Model::openai().await;
    let cluster = Upstream::answering(200, "application/json", "{}").await;
    let service = Service::variant_b().model(&model).env("AGENT_CLUSTER_URL", cluster.url("/")).start().await;
    assert_eq!(service.post("/api/gateway", high("hi").to_string()).await.status, 401);
    assert_eq!(service.user("none").gateway(high("hi")).await.status, 403);
    let user = service.user(Token::of("u"));
    for body in
        [json!({ "priority": "high" }), json!({ "query": 5, "priority": "high" }), json!({ "query": "" })]
    {
        assert_eq!(user.gateway(body.clone()).await.status, 400, "{body}");
    }
    assert!(cluster.received().is_empty());
}

/// What the cluster is in truth: more of the same service.
#[tokio::test]
async fn another_service_of_ours_can_be_the_cluster() {
    let (near, far) = (Model::openai().await, Model::openai().await);
    far.says("from afar");
    let cluster = Service::variant_b().model(&far).start().await;
    let address = format!("http://{}/api/agent", cluster.address());
    let service = Service::variant_b().model(&near).env("AGENT_CLUSTER_URL", address).start().await;
    let answer = service.user(Token::of("u")).gateway(high("hi")).await;
    assert_eq!((answer.status, &answer.json()["output"]), (200, &json!("from afar")), "{answer}");
}
