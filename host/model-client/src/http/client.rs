//! The connection pool to one endpoint.

use std::time::Duration;

use outbound::{Client, PoolBounds};
use url::Url;

use crate::connect_error::ConnectError;

/// How long DNS, TCP and TLS may take together. An address that does not answer at all is not worth the whole
/// time of a call: a retry may be given another one.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Idle for less than the 60 s after which common load balancers drop a connection, so that this side closes
/// it and no request is lost on it. As many as there may be calls at once: each of them goes to the same
/// host.
const POOL: PoolBounds = PoolBounds { per_key: 1024, in_all: 1024, idle: Duration::from_secs(50) };

/// A pool of connections to that endpoint. A redirect would carry the conversation to an address that nobody
/// configured, and is not followed.
pub(crate) fn build_client(endpoint: &Url) -> Result<Client, ConnectError> {
    Client::for_url(endpoint, CONNECT_TIMEOUT, POOL).map_err(ConnectError::Client)
}
