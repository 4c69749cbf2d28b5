//! `POST /api/gateway`: what is urgent goes to a cluster of its own
//! (host/docs/interface/endpoints.md#gateway-request,
//! host/docs/interface/decisions-http.md#gateway-and-serverless).

use acceptance::{Model, ReservedPort, Service, Token, Upstream};
use serde_json::json;

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

/// What the cluster is in truth: more of the same service.
#[tokio::test]
async fn another_service_of_ours_can_be_the_cluster() {
    let (near, far) = (Model::openai().await, Model::openai().await);
    far.says("from afar");
    let cluster = Service::variant_b().model(&far).start().await;
    let address = format!("http://{}/api/agent", cluster.address());
    let service = Service::variant_b().model(&near).env("AGENT_CLUSTER_URL", address).start().await;
    let answer = service.user(Token::of("u")).gateway(json!({ "query": "hi", "priority": "high" })).await;
    assert_eq!((answer.status, &answer.json()["output"]), (200, &json!("from afar")), "{answer}");
}

#[tokio::test]
async fn a_cluster_that_cannot_be_reached_is_a_503() {
    let model = Model::openai().await;
    let nobody = ReservedPort::take();
    let address = format!("http://{}/run?key=hunter2", nobody.address());
    let service = Service::variant_b().model(&model).env("AGENT_CLUSTER_URL", address).start().await;
    let answer = service.user(Token::of("u")).gateway(json!({ "query": "hi", "priority": "high" })).await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (503, r#"{"error":"Service temporarily unavailable"}"#),
        "{answer}"
    );
    service.log().entry("the reason", |entry| entry.to_string().contains("cluster")).await;
    assert!(!service.log().to_string().contains("hunter2"), "{}", service.log());
}
