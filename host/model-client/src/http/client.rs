//! The connection pool to one endpoint, and what its errors mean.

use std::error::Error;
use std::time::Duration;

use reqwest::{Client, redirect};
use url::Url;

use crate::connect_error::ConnectError;

/// How long DNS, TCP and TLS may take together. An address that does not answer at all is not worth the whole time of
/// a call: a retry may be given another one.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Shorter than the 60 s after which common load balancers drop an idle connection, so that this side closes it and
/// no request is lost on it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// A pool of connections to that endpoint and to nowhere else.
pub(crate) fn build_client(endpoint: &Url) -> Result<Client, ConnectError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // reqwest would panic.
        return Err(ConnectError::NoCryptoProvider);
    }
    let mut builder = Client::builder()
        .user_agent(concat!("agent-host/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        // A request is one small write followed by a wait, which Nagle's algorithm would delay.
        .tcp_nodelay(true)
        // A redirect would carry the conversation to an address that nobody configured.
        .redirect(redirect::Policy::none())
        .no_proxy()
        // Explicit, because another crate's feature could enable HTTP/2 for the whole build.
        .http1_only();
    if endpoint.scheme() == "http" {
        // Nothing to verify. The system's certificates are not loaded: a small container may not have any.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(ConnectError::Client)
}

/// The causes of an error without the outermost layer, which only says that there is one: "Connection refused",
/// "invalid peer certificate: Expired". A cause that the layer above repeats is left out.
pub(crate) fn describe_causes(error: &dyn Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut next = error.source().or(Some(error));
    while let Some(cause) = next {
        let text = cause.to_string();
        if causes.last().is_none_or(|last| !last.contains(&text)) {
            causes.push(text);
        }
        next = cause.source();
    }
    causes.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[test]
    fn without_cryptography_there_is_an_error_and_no_panic() {
        // Nothing in this test binary installs a provider; the acceptance tests do.
        let endpoint = Url::parse("http://localhost").unwrap();
        let error = build_client(&endpoint).unwrap_err();
        assert!(matches!(error, ConnectError::NoCryptoProvider));
    }

    #[test]
    fn an_error_is_described_by_its_causes() {
        let bottom = Layer { text: "refused (os error 111)", source: None };
        assert_eq!(describe_causes(&bottom), "refused (os error 111)");
        let echo = Layer { text: "connecting: refused (os error 111)", source: Some(Box::new(bottom)) };
        let top = Layer { text: "error sending request", source: Some(Box::new(echo)) };
        assert_eq!(describe_causes(&top), "connecting: refused (os error 111)");
    }
}
