//! Where a connection goes: scheme, host and port.

use std::net::IpAddr;

use url::Url;

use crate::error::ConnectError;
use crate::ssrf_guard::{self, Reach};

/// Where a connection goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Whether over TLS.
    pub scheme: Scheme,
    /// A name or an address.
    pub host: Host,
    /// Of the URL, or the scheme's own.
    pub port: u16,
}

/// What requests are made over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// TLS.
    Https,
    /// Plain TCP.
    Http,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// In lower case.
    Name(String),
    /// With its shortest text.
    Address(IpAddr, String),
}

impl Origin {
    /// Origin of a URL, if the URL is one of HTTP.
    pub fn of(url: &Url) -> Option<Self> {
        let scheme = Scheme::parse(url.scheme())?;
        let host = match url.host()? {
            url::Host::Domain(name) => Host::Name(name.to_owned()),
            url::Host::Ipv4(address) => Host::from(IpAddr::V4(address)),
            url::Host::Ipv6(address) => Host::from(IpAddr::V6(address)),
        };
        Some(Self { scheme, host, port: url.port().unwrap_or(scheme.default_port()) })
    }

    /// Whether the host may be reached, if it is an address.
    pub fn check_literal(&self, reach: Reach) -> Result<(), ConnectError> {
        match &self.host {
            Host::Name(_) => Ok(()),
            Host::Address(address, _) => {
                ssrf_guard::check(&[*address], self.port, reach).map(drop).map_err(ConnectError::Forbidden)
            }
        }
    }

    /// The host, and the port if it is not the scheme's.
    pub fn authority(&self) -> String {
        let host = match &self.host {
            Host::Address(IpAddr::V6(_), text) => format!("[{text}]"),
            Host::Name(text) | Host::Address(IpAddr::V4(_), text) => text.clone(),
        };
        if self.port == self.scheme.default_port() { host } else { format!("{host}:{}", self.port) }
    }
}

impl Scheme {
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Https, Self::Http].into_iter().find(|scheme| scheme.as_str() == name)
    }

    /// As a URL has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }

    /// The port that a URL leaves away.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

impl Host {
    /// The name, or the address without brackets.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Name(text) | Self::Address(_, text) => text,
        }
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Address(address, address.to_string())
    }
}
