//! `POST /api/gateway`: `{query, priority}` in. What is urgent goes to the dedicated cluster, if there is
//! one, and everything else is answered here.

use agent_core::ports::{Cluster, ClusterAnswer, ClusterError, Forwarded};
use agent_core::words::Options;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

use super::asking::Asking;
use super::bodies::GatewayRequest;
use super::error::Error;
use super::state::Shared;
use super::{agent, bodies, documented};
use crate::body::Payload;
use crate::openapi::{Operation, tags};

pub(super) fn describe(has_cluster: bool) -> Operation {
    let operation =
        Operation::new("routeByPriority", tags::AGENT, "Run the agent, here or on the dedicated cluster")
            .request_id()
            .body::<GatewayRequest>()
            .refuses(documented::bodies())
            .refuses(documented::runs())
            .refuses([Error::Cluster(ClusterError(String::new()))]);
    let operation = agent::answers(operation);
    if !has_cluster {
        return operation;
    }
    operation.answers_anything("What the cluster answered to a request of high priority, unchanged")
}

pub(super) async fn route_by_priority(
    State(edge): State<Shared>,
    asking: Asking,
    payload: Payload,
) -> Result<Response, Error> {
    let request: GatewayRequest = bodies::read(payload, &edge.settings).await?;
    if let Some(cluster) = edge.variant.cluster.as_deref().filter(|_| request.is_urgent()) {
        return Ok(forward(cluster, &asking, &request.query).await?);
    }
    let answer = edge.variant.invoke.invoke_for_json(asking.ask(request.query, Options::default())).await?;
    Ok(agent::show(&answer))
}

async fn forward(cluster: &dyn Cluster, asking: &Asking, query: &str) -> Result<Response, ClusterError> {
    let request_id = asking.request_id.to_string();
    let query = Forwarded { query, authorization: asking.caller.authorization(), request_id: &request_id };
    give_back(cluster.forward(query).await?)
}

/// The cluster's answer as it came. Informational statuses are no answers and cannot be given.
fn give_back(answer: ClusterAnswer) -> Result<Response, ClusterError> {
    let status = StatusCode::from_u16(answer.status).ok().filter(|status| !status.is_informational());
    let status = status.ok_or_else(|| ClusterError(format!("it answered with status {}", answer.status)))?;
    let mut response = (status, Body::from(answer.body)).into_response();
    let headers = [
        (CONTENT_TYPE, answer.content_type),
        (CONTENT_ENCODING, answer.content_encoding),
        (RETRY_AFTER, answer.retry_after),
    ];
    for (name, value) in headers {
        if let Some(value) = value.and_then(|text| HeaderValue::try_from(text).ok()) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}
