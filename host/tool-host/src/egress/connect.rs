//! Connections: TCP to a checked address, TLS by the host's name, HTTP/1.1.
//!
//! There is no proxy, whatever the environment says. The certificate is verified for the name in the URL, never for
//! the address. Which addresses may be tried is `address` and `resolve`; who uses a connection again is `pool`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::address_check::AllowedAddr;
use super::allowed_hosts::Scheme;
use super::body::RequestBody;
use super::error::EgressError;
use super::target::{Host, Target};
use super::task::{IoRuntime, OwnedTask};

/// Most addresses that are tried.
const MAX_TRIED: usize = 6;

/// Most headers of a response, and most bytes of them.
const MAX_RESPONSE_HEADERS: usize = 128;
pub(super) const MAX_RESPONSE_HEAD_BYTES: usize = 32 * 1024;

/// Most bytes that a connection reads ahead. At least what a head may have.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// How TLS is spoken, and which authorities are trusted.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error(
    "TLS for tools cannot be set up, for instance because the system has no certificates of authorities: {0}"
)]
pub(crate) struct TlsError(#[from] rustls::Error);

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<RequestBody>,
    pub(super) address: SocketAddr,
    _driver: OwnedTask,
}

impl Tls {
    /// Trusts the authorities that the system trusts, as the model client does. Reads them from files.
    pub(crate) fn system() -> Result<Self, TlsError> {
        let builder =
            ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        Ok(Self::new(builder.with_platform_verifier()?.with_no_client_auth()))
    }

    /// Trusts those authorities only.
    pub(crate) fn with_roots(roots: RootCertStore) -> Result<Self, TlsError> {
        let builder =
            ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        Ok(Self::new(builder.with_root_certificates(roots).with_no_client_auth()))
    }

    fn new(mut config: ClientConfig) -> Self {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self(TlsConnector::from(Arc::new(config)))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// Connects to one of the addresses, tried in turn.
pub(super) async fn connect(
    runtime: &IoRuntime,
    tls: &Tls,
    target: &Target,
    addresses: &[AllowedAddr],
    within: Duration,
) -> Result<Connection, EgressError> {
    let until = Instant::now() + within;
    let host = || target.host.as_str().to_owned();
    let mut last = EgressError::ConnectTimeout { host: host(), within };
    let addresses = addresses.get(..MAX_TRIED).unwrap_or(addresses);
    for (tried, address) in addresses.iter().enumerate() {
        // A share of the time for each, so that one that does not answer leaves some for the others.
        let untried = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = Instant::now() + until.saturating_duration_since(Instant::now()) / untried;
        match tokio::time::timeout_at(share, connect_to(runtime, tls, target, *address)).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => last = error,
            Err(_elapsed) => last = EgressError::ConnectTimeout { host: host(), within },
        }
    }
    Err(last)
}

async fn connect_to(
    runtime: &IoRuntime,
    tls: &Tls,
    target: &Target,
    address: AllowedAddr,
) -> Result<Connection, EgressError> {
    let host = || target.host.as_str().to_owned();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => EgressError::ConnectRefused { host: host() },
        _ => EgressError::Connect { host: host(), problem: error.to_string() },
    };
    let address = address.socket_addr();
    let stream = TcpStream::connect(address).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    match target.scheme {
        Scheme::Http => handshake(runtime, stream, address, target).await,
        Scheme::Https => {
            let name = server_name(&target.host)?;
            let stream = tls.0.connect(name, stream).await.map_err(|error| tls_error(&error, host()))?;
            handshake(runtime, stream, address, target).await
        }
    }
}

/// Begins to speak HTTP.
async fn handshake<T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    runtime: &IoRuntime,
    stream: T,
    address: SocketAddr,
    target: &Target,
) -> Result<Connection, EgressError> {
    let made = http1::Builder::new()
        .max_headers(MAX_RESPONSE_HEADERS)
        .max_header_size(MAX_RESPONSE_HEAD_BYTES)
        .max_buf_size(READ_BUFFER_BYTES)
        .handshake(TokioIo::new(stream))
        .await;
    let (sender, connection) = made.map_err(|error| EgressError::Connect {
        host: target.host.as_str().to_owned(),
        problem: error.to_string(),
    })?;
    let driver = runtime.spawn(async move {
        // silent-ok: whoever waits for a response on this connection gets the error.
        let _ended = connection.await;
    });
    Ok(Connection { sender, address, _driver: driver })
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn server_name(host: &Host) -> Result<ServerName<'static>, EgressError> {
    match host {
        Host::Address(address, _) => Ok(ServerName::IpAddress((*address).into())),
        Host::Name(name) => ServerName::try_from(name.clone())
            .map_err(|error| EgressError::Tls { host: name.clone(), problem: error.to_string() }),
    }
}

fn tls_error(error: &io::Error, host: String) -> EgressError {
    let problem = error.to_string();
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(_)) => EgressError::Certificate { host, problem },
        Some(_) => EgressError::Tls { host, problem },
        None => EgressError::Connect { host, problem },
    }
}
