//! The dedicated agent cluster behind HTTP: agent-core's `Cluster` port.
//!
//! The caller decides which queries go there. An answer is not interpreted: whatever its status, it is passed
//! on.

use std::time::Duration;

use agent_core::ports::{Cluster, ClusterAnswer, ClusterError, Forwarded};
use agent_core::trace::InTrace as _;
use boxed_async::boxed_async;
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use outbound::{Client, Request};
use serde::Serialize;
use tokio::time::timeout;
use url::Url;

use crate::connect_error::ConnectError;
use crate::http::client::build_client;
use crate::http::client_span;

/// The largest answer that is passed on, in bytes. A whole transcript is some hundred KiB; an answer without
/// end must not fill the memory.
const ANSWER_LIMIT: usize = 8 << 20;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A cluster at one address (`AGENT_CLUSTER_URL`). Holds a pool of connections, so make one and share it.
#[derive(Debug)]
pub struct HttpCluster {
    client: Client,
    endpoint: Url,
    time_limit: Duration,
}

impl HttpCluster {
    /// Connects to nothing yet. `time_limit` is how long the cluster may take from the first byte we send to
    /// the last that it does.
    pub fn new(endpoint: Url, time_limit: Duration) -> Result<Self, ConnectError> {
        Ok(Self { client: build_client(&endpoint)?, endpoint, time_limit })
    }

    async fn exchange(&self, query: Forwarded<'_>) -> Result<ClusterAnswer, ClusterError> {
        let mut headers = headers(query)?;
        client_span::inject_context(&mut headers);
        let body = serde_json::to_vec(&Body { query: query.query });
        let body = body.map_err(|error| ClusterError(error.to_string()))?;
        let request = Request::post(self.endpoint.clone(), headers, body);
        let (head, mut answer) =
            self.client.send(request).await.map_err(|error| failure(&error))?.into_parts();
        let mut body = Vec::new();
        answer.read_into(&mut body, ANSWER_LIMIT).await.map_err(|error| failure(&error))?;
        let header = |name| head.headers.get(name).map(|value| value.as_bytes().to_vec());
        Ok(ClusterAnswer {
            status: head.status.as_u16(),
            content_type: header(CONTENT_TYPE),
            content_encoding: header(CONTENT_ENCODING),
            retry_after: header(RETRY_AFTER),
            body,
        })
    }
}

/// Only `query` is passed on (host/docs/interface/endpoints.md#gateway-request).
#[derive(Serialize)]
struct Body<'a> {
    query: &'a str,
}

#[boxed_async]
impl Cluster for HttpCluster {
    async fn forward(&self, query: Forwarded<'_>) -> Result<ClusterAnswer, ClusterError> {
        let span = client_span::begin(&self.endpoint);
        match timeout(self.time_limit, self.exchange(query).in_trace(span.inner())).await {
            Ok(answer) => {
                match &answer {
                    Ok(answer) => client_span::record_status(&span, answer.status),
                    Err(_error) => client_span::record_error(&span, "connection"),
                }
                answer
            }
            Err(_elapsed) => {
                client_span::record_error(&span, "timeout");
                Err(ClusterError(format!("no whole answer within {} ms", self.time_limit.as_millis())))
            }
        }
    }
}

fn headers(query: Forwarded<'_>) -> Result<HeaderMap, ClusterError> {
    let unfit = |name: &str| ClusterError(format!("the caller's {name} cannot stand in a header"));
    let mut authorization =
        HeaderValue::from_bytes(query.authorization).map_err(|_| unfit("authorization"))?;
    // Left out wherever a request is printed.
    authorization.set_sensitive(true);
    let request_id = HeaderValue::from_str(query.request_id).map_err(|_| unfit("request id"))?;
    let json = HeaderValue::from_static("application/json");
    Ok(HeaderMap::from_iter([(CONTENT_TYPE, json), (AUTHORIZATION, authorization), (REQUEST_ID, request_id)]))
}

/// Why there is no whole answer, without the address.
fn failure(error: &outbound::Error) -> ClusterError {
    match error {
        outbound::Error::TooLarge => ClusterError(format!("its answer is larger than {ANSWER_LIMIT} bytes")),
        causes => ClusterError(causes.to_string()),
    }
}
