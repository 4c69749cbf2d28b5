//! `POST /api/gateway`: what is urgent goes to a cluster of its own
//! (host/docs/interface/endpoints.md#gateway-request,
//! host/docs/interface/decisions-http.md#gateway-and-serverless). What is forwarded, and what comes of it, is
//! tested in `host/http-edge` and `host/model-client`.

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
