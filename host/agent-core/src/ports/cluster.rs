//! The dedicated agent cluster that takes requests of high priority.

use boxed_async::boxed_async;

/// Answers a query elsewhere (host/docs/interface/endpoints.md#gateway-request).
#[boxed_async]
pub trait Cluster: Send + Sync {
    /// Forwards a query and brings back the answer, whatever it says.
    async fn forward(&self, query: Forwarded<'_>) -> Result<ClusterAnswer, ClusterError>;
}

/// A query on its way to the cluster.
#[derive(Clone, Copy)]
pub struct Forwarded<'a> {
    /// The text to process: the only field of the JSON body that is sent.
    pub query: &'a str,
    /// The caller's `Authorization` header, unchanged. Never printed.
    pub authorization: &'a [u8],
    /// Goes along as `X-Request-Id`.
    pub request_id: &'a str,
}

/// What the cluster answered, to be given back unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The `Content-Type`, if it had one.
    pub content_type: Option<Vec<u8>>,
    /// The `Content-Encoding`, if it had one: the body is as it came.
    pub content_encoding: Option<Vec<u8>>,
    /// The `Retry-After`, if it had one.
    pub retry_after: Option<Vec<u8>>,
    pub body: Vec<u8>,
}

/// Why there is no answer. It holds no address and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the agent cluster could not be reached: {0}")]
pub struct ClusterError(pub String);
