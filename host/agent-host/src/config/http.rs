//! How the service is reached.

use std::net::IpAddr;
use std::time::Duration;

use http_edge::{Origins, RateLimit, RateLimits};

use super::reader::{Reader, Reported};
use super::variable::Variable;
use super::variables::{
    BODY_TIMEOUT_MS, CORS_ORIGINS, HOST, MAX_BODY_BYTES, MAX_CONNECTIONS, PORT, RATE_LIMIT_IP,
    RATE_LIMIT_IP_WINDOW_S, RATE_LIMIT_PREMIUM, RATE_LIMIT_USER, RATE_LIMIT_USER_WINDOW_S, SHUTDOWN_DRAIN_MS,
    TRUST_PROXY,
};

/// How the service is reached.
#[derive(Debug, Clone)]
pub struct Http {
    /// An IP address, or a name that is resolved when the socket is bound (`HOST`).
    pub host: String,
    /// 0 for any free one (`PORT`).
    pub port: u16,
    /// Most bytes of a request body (`MAX_BODY_BYTES`).
    pub max_body_bytes: usize,
    /// How long a client may take to send a body (`BODY_TIMEOUT_MS`).
    pub body_timeout: Duration,
    /// How many proxies are believed (`TRUST_PROXY`).
    pub trusted_proxies: usize,
    /// Most connections at once, if it is set (`MAX_CONNECTIONS`).
    pub max_connections: Option<usize>,
    /// Whose pages may call from a browser (`CORS_ORIGINS`).
    pub origins: Origins,
    /// How often one may call (`RATE_LIMIT_…`).
    pub rates: RateLimits,
    /// How long connections are accepted after a signal to stop (`SHUTDOWN_DRAIN_MS`).
    pub drain: Duration,
}

impl Http {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let host = reader.value(&HOST, parse_host);
        let port = reader.number(&PORT);
        let max_body_bytes = reader.number(&MAX_BODY_BYTES);
        let body_timeout = reader.duration(&BODY_TIMEOUT_MS);
        let trusted_proxies = reader.number(&TRUST_PROXY);
        let max_connections = reader.optional_number(&MAX_CONNECTIONS);
        let origins = reader.optional(&CORS_ORIGINS, |list| Origins::parse(list).ok());
        let rates = read_rates(reader);
        let drain = reader.duration(&SHUTDOWN_DRAIN_MS);
        Ok(Self {
            host: host?,
            port: port?,
            max_body_bytes: max_body_bytes?,
            body_timeout: body_timeout?,
            trusted_proxies: trusted_proxies?,
            max_connections: max_connections?,
            origins: origins?.unwrap_or_default(),
            rates: rates?,
            drain: drain?,
        })
    }
}

fn read_rates(reader: &mut Reader<'_>) -> Result<RateLimits, Reported> {
    let mut period = |variable: &Variable| reader.number(variable).map(Duration::from_secs);
    let (of_addresses, of_users) = (period(&RATE_LIMIT_IP_WINDOW_S), period(&RATE_LIMIT_USER_WINDOW_S));
    let address = reader.number(&RATE_LIMIT_IP);
    let user = reader.number(&RATE_LIMIT_USER);
    let premium_requests = reader.number(&RATE_LIMIT_PREMIUM);
    Ok(RateLimits {
        address: RateLimit { requests: address?, period: of_addresses? },
        user: RateLimit { requests: user?, period: of_users? },
        premium_requests: premium_requests?,
    })
}

/// An address as `(host, port)` can be bound: an IPv6 address has no brackets, a name has no port.
fn parse_host(text: &str) -> Option<String> {
    let is_name = text.len() <= 253
        && text.split('.').all(|label| {
            let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            (1..=63).contains(&label.len()) && label.bytes().all(inside)
        });
    (is_name || text.parse::<IpAddr>().is_ok()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_or_names() {
        for (text, usable) in [
            ("0.0.0.0", true),
            ("::", true),
            ("::1", true),
            ("localhost", true),
            ("my_host-1.example.org", true),
            ("[::1]", false),
            ("localhost:3000", false),
            ("http://localhost", false),
            ("a..b", false),
            ("a b", false),
            ("", false),
        ] {
            assert_eq!(parse_host(text).is_some(), usable, "{text:?}");
        }
    }
}
