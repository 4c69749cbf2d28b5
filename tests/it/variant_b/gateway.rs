//! `POST /api/gateway`: what is urgent goes to a cluster of its own
//! (host/docs/interface/endpoints.md#gateway-request,
//! host/docs/interface/decisions-http.md#gateway-and-serverless). What is forwarded, and what comes of it, is
//! tested in `host/http-edge` and `host/model-client`.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use acceptance::{Model, Service, Token};
use serde_json::json;

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

/// The kernel makes its connections, and nobody reads from them.
#[tokio::test]
async fn a_cluster_that_does_not_answer_is_waited_for_as_long_as_an_agent_may_take() {
    let (model, mute) = (Model::openai().await, TcpListener::bind("127.0.0.1:0").unwrap());
    let address = format!("http://{}/api/agent", mute.local_addr().unwrap());
    let service = Service::variant_b().model(&model).env("AGENT_CLUSTER_URL", address);
    let service = service.env("AGENT_TIMEOUT_MS", "500").start().await;
    let began = Instant::now();
    let answer = service.user(Token::of("u")).gateway(json!({ "query": "hi", "priority": "high" })).await;
    assert_eq!(answer.status, 503, "{answer}");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(15), "{took:?}");
}
