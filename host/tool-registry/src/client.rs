//! The HTTP client, its options and its limits.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use reqwest::redirect;

use crate::credentials::Credentials;
use crate::error::Error;

/// How long DNS, TCP and TLS may take together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of any registry.
#[derive(Clone)]
pub struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) options: Options,
}

/// How registries are talked to.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether without TLS.
    pub plain_http: bool,
    /// Who we are to one registry; all others are asked as nobody.
    pub credentials: Option<Credentials>,
    /// What a pull may use up.
    pub limits: Limits,
}

/// What a pull or a push may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest component.
    pub component_bytes: u64,
    /// Longest time for all of it.
    pub total: Duration,
    /// Longest time in which nothing arrives.
    pub stall: Duration,
}

impl Limits {
    /// The usual limits, with that largest component.
    pub fn of_component(component_bytes: u64) -> Self {
        Self { component_bytes, total: Duration::from_mins(10), stall: Duration::from_secs(30) }
    }
}

impl Client {
    /// Makes a client. The process must have a default provider of cryptography.
    pub fn new(options: Options) -> Result<Self, Error> {
        let http = build(!options.plain_http, None)?;
        Ok(Self { http, options })
    }
}

/// A client of one registry, or of one other host, whose addresses were looked up and checked before.
pub(crate) fn build(tls: bool, checked: Option<(&str, &[SocketAddr])>) -> Result<reqwest::Client, Error> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // reqwest would panic.
        return Err(Error::NoCryptography);
    }
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("agent-host/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        // Each is judged by `session`.
        .redirect(redirect::Policy::none())
        .referer(false)
        .no_proxy()
        // What is hashed is what was sent, whatever features another crate enables.
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .http1_only();
    if !tls {
        // Nothing to verify. The system's certificates are not loaded: a small container may not have any.
        builder = builder.tls_certs_only([]);
    }
    if let Some((host, addresses)) = checked {
        builder = builder.resolve_to_addrs(host, addresses);
    }
    builder.build().map_err(|error| Error::Client { cause: error.to_string() })
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("options", &self.options).finish_non_exhaustive()
    }
}
