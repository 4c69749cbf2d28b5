//! The HTTP client, its options and its limits.

use std::time::Duration;

use outbound::{PoolBounds, Tls};

use crate::credentials::Credentials;
use crate::error::Error;

/// How long DNS, TCP and TLS may take together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Client {
    pub(crate) http: outbound::Client,
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
    /// Makes a client.
    pub fn new(options: Options) -> Result<Self, Error> {
        let tls = match Tls::system() {
            // Where there is nothing to verify: a small container may not have any certificates.
            Err(_error) if options.plain_http => None,
            tls => Some(tls.map_err(|error| Error::Client { cause: error.to_string() })?),
        };
        Ok(Self { http: outbound::Client::new(tls, CONNECT_TIMEOUT, PoolBounds::default()), options })
    }
}
