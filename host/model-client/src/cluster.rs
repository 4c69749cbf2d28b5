//! The dedicated agent cluster behind HTTP: agent-core's `Cluster` port.
//!
//! The caller decides which queries go there. An answer is not interpreted: whatever its status, it is passed on.

use std::time::Duration;

use agent_core::ports::{Cluster, ClusterAnswer, ClusterError, Forwarded};
use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response};
use serde::Serialize;
use tokio::time::timeout;
use tracing::Instrument as _;
use url::Url;

use crate::connect_error::ConnectError;
use crate::http::client::{build_client, describe_causes};
use crate::http::client_span;

/// How long the cluster may take from the first byte we send to the last that it does: as long as an agent
/// here may (host/docs/interface/errors-and-limits.md#errors).
pub const CLUSTER_TIMEOUT: Duration = Duration::from_millis(30_000);

/// The largest answer that is passed on, in bytes. A whole transcript is some hundred KiB; an answer without end must
/// not fill the memory.
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
    /// Connects to nothing yet. `time_limit` is usually [`CLUSTER_TIMEOUT`].
    pub fn new(endpoint: Url, time_limit: Duration) -> Result<Self, ConnectError> {
        Ok(Self { client: build_client(&endpoint)?, endpoint, time_limit })
    }

    async fn exchange(&self, query: Forwarded<'_>) -> Result<ClusterAnswer, ClusterError> {
        let mut headers = headers(query)?;
        client_span::inject_context(&mut headers);
        let body = Body { query: query.query };
        let sending = self.client.post(self.endpoint.clone()).json(&body).headers(headers).send();
        let mut response = sending.await.map_err(connection_error)?;
        let header = |name| response.headers().get(name).map(|value| value.as_bytes().to_vec());
        let (content_type, retry_after) = (header(CONTENT_TYPE), header(RETRY_AFTER));
        Ok(ClusterAnswer {
            status: response.status().as_u16(),
            content_type,
            retry_after,
            body: read(&mut response).await?,
        })
    }
}

/// Only `query` is passed on (host/docs/interface/endpoints.md#gateway-request).
#[derive(Serialize)]
struct Body<'a> {
    query: &'a str,
}

#[async_trait]
impl Cluster for HttpCluster {
    async fn forward(&self, query: Forwarded<'_>) -> Result<ClusterAnswer, ClusterError> {
        let span = client_span::begin(&self.endpoint);
        match timeout(self.time_limit, self.exchange(query).instrument(span.clone())).await {
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
    Ok(HeaderMap::from_iter([(AUTHORIZATION, authorization), (REQUEST_ID, request_id)]))
}

async fn read(response: &mut Response) -> Result<Vec<u8>, ClusterError> {
    let too_large = || ClusterError(format!("its answer is larger than {ANSWER_LIMIT} bytes"));
    if response.content_length().is_some_and(|length| length > ANSWER_LIMIT as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(connection_error)? {
        if body.len() + chunk.len() > ANSWER_LIMIT {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Why the exchange failed, without the address.
fn connection_error(error: reqwest::Error) -> ClusterError {
    ClusterError(describe_causes(&error.without_url()))
}
