//! Connections that end in an error, which no router hears of: requests whose head is no HTTP, or too large.

use std::error::Error;
use std::net::SocketAddr;

use crate::metrics::HttpMetrics;

/// Logs what hyper refused, and counts it like any other request: with the status that hyper answered it
/// with.
pub(super) fn note(peer: SocketAddr, error: &(dyn Error + Send + Sync + 'static), metrics: &HttpMetrics) {
    let Some(error) = error.downcast_ref::<hyper::Error>().filter(|error| error.is_parse()) else {
        // Clients hang up as they like; nothing of ours has failed.
        tracing::debug!(%peer, error = error.to_string(), "a connection broke");
        return;
    };
    // What hyper answered: its errors tell a long first line from a large head only by their text.
    let status = match error.is_parse_too_large() {
        true if error.to_string().starts_with("URI") => 414,
        true => 431,
        false => 400,
    };
    metrics.refused(status);
    // hyper's texts are constants: nothing of the request is quoted.
    tracing::info!(client = %peer.ip(), status, %error, "a request that is no HTTP was refused");
}
