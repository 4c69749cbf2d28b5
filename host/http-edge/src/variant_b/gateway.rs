//! `POST /api/gateway`: `{query, priority}` in. What is urgent goes to the dedicated cluster, if there is one,
//! and everything else is answered here.

use agent_core::ports::{Cluster, ClusterAnswer, ClusterError, Forwarded};
use agent_core::words::Options;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};

use super::auth::Caller;
use super::error::Error;
use super::state::Shared;
use super::{agent, schema};
use crate::body::Payload;
use crate::middleware::request_id::RequestId;

pub(super) async fn route_by_priority(
    State(edge): State<Shared>,
    caller: Caller,
    request_id: RequestId,
    payload: Payload,
) -> Result<Response, Error> {
    let body = schema::read_json(payload, &edge.settings).await?;
    let request = schema::read_gateway_request(body)?;
    if let Some(cluster) = edge.variant.cluster.as_deref().filter(|_| request.is_urgent) {
        return Ok(forward(cluster, &caller, &request_id, &request.query).await?);
    }
    let answer = agent::ask(&edge.variant, &caller, &request_id, request.query, Options::default()).await?;
    Ok(agent::show(&answer))
}

async fn forward(
    cluster: &dyn Cluster,
    caller: &Caller,
    request_id: &RequestId,
    query: &str,
) -> Result<Response, ClusterError> {
    let request_id = request_id.to_string();
    let query = Forwarded { query, authorization: caller.authorization(), request_id: &request_id };
    give_back(cluster.forward(query).await?)
}

/// The cluster's answer as it came. Informational statuses are no answers and cannot be given.
fn give_back(answer: ClusterAnswer) -> Result<Response, ClusterError> {
    let status = StatusCode::from_u16(answer.status).ok().filter(|status| !status.is_informational());
    let status = status.ok_or_else(|| ClusterError(format!("it answered with status {}", answer.status)))?;
    let mut response = (status, Body::from(answer.body)).into_response();
    if let Some(content_type) = answer.content_type.and_then(|text| HeaderValue::try_from(text).ok()) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    Ok(response)
}
