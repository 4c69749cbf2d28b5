//! Which other origins browsers may call from, and under which names a listener answers.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use http::HeaderValue;
use http::uri::Authority;

/// Origins whose pages may call the service (`CORS_ORIGINS`). Clones share them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(Arc<[Origin]>);

/// A scheme, a host and a port, as browsers write them into `Origin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    https: bool,
    /// In lower case.
    host: String,
    port: u16,
}

/// A text that is no origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an origin such as https://app.example or http://localhost:5173")]
pub struct NotAnOrigin;

/// Under which names requests are answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hosts {
    /// Under any or none: requests do not come from a socket.
    #[default]
    Unchecked,
    /// Under any, but HTTP/1.1 has to name one (RFC 9112, section 3.2).
    Named,
    /// The listener's address is a loopback one, which only a browser of this machine or a client beside it
    /// reaches: as `localhost`, as an IP address, or under the host of one of [`Origins`]. Any other name was
    /// pointed at this machine by somebody who wants to be taken for us (DNS rebinding).
    Loopback,
}

impl Origins {
    /// Allows these origins and no others.
    pub fn new(origins: impl IntoIterator<Item = Origin>) -> Self {
        Self(origins.into_iter().collect())
    }

    /// Reads them from a list with commas.
    pub fn parse(list: &str) -> Result<Self, NotAnOrigin> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        Ok(Self::new(names.map(str::parse).collect::<Result<Vec<_>, _>>()?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an `Origin` header names one of them.
    pub(crate) fn allow(&self, header: &HeaderValue) -> bool {
        let origin = header.to_str().ok().and_then(|text| text.parse::<Origin>().ok());
        origin.is_some_and(|origin| self.0.contains(&origin))
    }

    /// Whether one of them has that host, on whichever port.
    pub(crate) fn name(&self, host: &str) -> bool {
        self.0.iter().any(|origin| origin.host.eq_ignore_ascii_case(host))
    }
}

impl Origin {
    /// Whether it is where a request with that authority was sent to. A proxy may have taken TLS away, so the
    /// scheme says nothing; a port that is not named is the one of the origin's scheme.
    pub(crate) fn is(&self, authority: &Authority) -> bool {
        let port = port_of(authority, self.default_port());
        self.host.eq_ignore_ascii_case(authority.host()) && port == Some(self.port)
    }

    fn default_port(&self) -> u16 {
        if self.https { 443 } else { 80 }
    }
}

/// The port that is named, or else the default; none when what is named is no port.
fn port_of(authority: &Authority, default: u16) -> Option<u16> {
    match authority.as_str().strip_prefix(authority.host()) {
        Some("") => Some(default),
        Some(_) | None => authority.port_u16(),
    }
}

impl FromStr for Origin {
    type Err = NotAnOrigin;

    /// Exactly the form of RFC 6454, section 6.2: no path, not even a slash, no wildcard, no user.
    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        let text = text.to_ascii_lowercase();
        let (https, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err(NotAnOrigin),
        };
        let authority: Authority = rest.parse().map_err(|_| NotAnOrigin)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
        let host = authority.host();
        if host.is_empty() || !rest.bytes().all(plain) || rest.ends_with(':') {
            return Err(NotAnOrigin);
        }
        let port = port_of(&authority, if https { 443 } else { 80 }).ok_or(NotAnOrigin)?;
        Ok(Self { https, host: host.to_owned(), port })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.https { "https" } else { "http" }, self.host)?;
        if self.port == self.default_port() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_what_browsers_write() {
        for text in [
            "https://app.example",
            "http://localhost:5173",
            "https://app.example:8443",
            "http://127.0.0.1:3000",
            "http://[::1]:3000",
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().to_string(), text);
        }
        assert_eq!("HTTPS://App.Example:443".parse::<Origin>().unwrap().to_string(), "https://app.example");
        for text in [
            "",
            "*",
            "null",
            "app.example",
            "ftp://app.example",
            "https://",
            "https://app.example/",
            "https://app.example/path",
            "https://*.app.example",
            "https://u@app.example",
            "https://app.example:",
            "https://app.example:99999",
            "https://app.example?x",
            "https:// app.example",
        ] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }

    #[test]
    fn lists_may_have_blanks_and_a_last_comma() {
        let origins = Origins::parse(" https://a.example ,http://localhost:5173, ").unwrap();
        let allows = |text: &str| origins.allow(&HeaderValue::from_str(text).unwrap());
        assert!(
            allows("https://a.example") && allows("https://A.example:443") && allows("http://localhost:5173")
        );
        assert!(!allows("http://a.example") && !allows("http://localhost") && !allows("null"));
        assert!(origins.name("LOCALHOST") && !origins.name("b.example"));
        assert_eq!(Origins::parse("https://a.example, *"), Err(NotAnOrigin));
        assert!(Origins::parse("").unwrap().is_empty());
    }

    #[test]
    fn an_origin_is_that_of_the_host_whatever_the_proxy_did_to_the_scheme() {
        let is = |origin: &str, host: &str| origin.parse::<Origin>().unwrap().is(&host.parse().unwrap());
        assert!(is("https://a.example", "a.example") && is("https://a.example", "A.example:443"));
        assert!(is("http://a.example", "a.example:80") && is("http://a.example:3000", "a.example:3000"));
        assert!(!is("http://a.example:3000", "a.example") && !is("http://a.example", "a.example:3000"));
        assert!(!is("http://a.example", "a.example:99999") && !is("http://a.example", "a.example:"));
        assert!(!is("http://b.example", "a.example") && !is("http://a.example.evil", "a.example"));
    }
}
