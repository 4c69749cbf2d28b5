//! Host names and addresses as policy lines and requests write them, in one canonical form.
//!
//! [`parse`] is used for both sides, so that a rule and a request cannot disagree about what a spelling
//! means: names are lower case and in punycode, one trailing dot is dropped, and every spelling of an IP
//! address that a resolver would take (decimal, octal, hexadecimal, full-width digits) is the address. What
//! cannot be made canonical is refused.
//!
//! Which address a name has, and whether that one may be reached, is not known here: the connector checks it.

use std::fmt;

use url::Host;

/// Most bytes of a host as it is written. Names have 253; brackets and a trailing dot come on top.
const MOST_BYTES: usize = 256;

/// Most bytes of a name and of one of its labels (RFC 1035, 2.3.4).
const MOST_NAME_BYTES: usize = 253;
const MOST_LABEL_BYTES: usize = 63;

/// Which hosts a line is about. In order of how much that narrows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// `*`: every public host. Takes no secret and never reaches a private address.
    Any,
    /// `*.example.org`: every name below this one, at any depth. Neither the name itself nor an IP address.
    Below(String),
    /// One name or address.
    Exact(Host),
}

/// Why a text is no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostFault {
    #[error("the host is empty")]
    Empty,
    #[error("the host has more than {MOST_BYTES} bytes")]
    TooLong,
    #[error("there is a user or password before the host")]
    UserInfo,
    #[error("the address has a zone id")]
    ZoneId,
    #[error("the host is percent-encoded")]
    PercentEncoded,
    #[error("the host holds {0:?}")]
    Character(char),
    #[error("the host has a port in it")]
    Port,
    #[error("an IPv6 address needs brackets")]
    Unbracketed,
    #[error("the host is no IPv6 address")]
    NotIpv6,
    #[error("the host ends in a number but is no IPv4 address")]
    NotIpv4,
    #[error("the host is no name of the internet")]
    NotAName,
    #[error("a part of the host between two dots is empty or has more than {MOST_LABEL_BYTES} bytes")]
    Label,
    #[error("a `*` is allowed alone or as the first part, before a name of at least two parts")]
    Wildcard,
}

/// The host in canonical form. Without a port, a user and a wildcard.
pub fn parse(text: &str) -> Result<Host, HostFault> {
    if text.is_empty() {
        return Err(HostFault::Empty);
    }
    if text.len() > MOST_BYTES {
        return Err(HostFault::TooLong);
    }
    if text.contains('@') {
        return Err(HostFault::UserInfo);
    }
    let is_bracketed = text.starts_with('[');
    if text.contains('%') {
        return Err(if is_bracketed { HostFault::ZoneId } else { HostFault::PercentEncoded });
    }
    let is_odd = |c: &char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '\\' | '?' | '#');
    if let Some(odd) = text.chars().find(is_odd) {
        return Err(HostFault::Character(odd));
    }
    if is_bracketed {
        return Host::parse(text).map_err(|_| HostFault::NotIpv6);
    }
    match text.matches(':').count() {
        0 => {}
        1 => return Err(HostFault::Port),
        _ => return Err(HostFault::Unbracketed),
    }
    match Host::parse(text) {
        Ok(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            let is_label = |label: &str| (1..=MOST_LABEL_BYTES).contains(&label.len());
            if name.contains('*') {
                Err(HostFault::Wildcard)
            } else if !name.split('.').all(is_label) {
                Err(HostFault::Label)
            } else if name.len() > MOST_NAME_BYTES {
                Err(HostFault::TooLong)
            } else {
                Ok(Host::Domain(name.to_owned()))
            }
        }
        Ok(address) => Ok(address),
        Err(url::ParseError::InvalidIpv4Address) => Err(HostFault::NotIpv4),
        Err(_) => Err(HostFault::NotAName),
    }
}

impl HostPattern {
    /// A host, `*.` and a name, or `*`.
    pub fn parse(text: &str) -> Result<Self, HostFault> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let Some(parent) = text.strip_prefix("*.") else { return parse(text).map(Self::Exact) };
        match parse(parent)? {
            // Everything below one of these would be nearly everything.
            Host::Domain(name) if name.contains('.') => Ok(Self::Below(name)),
            Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_) => Err(HostFault::Wildcard),
        }
    }

    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Below(parent), Host::Domain(name)) => is_below(name, parent),
            (Self::Below(_), Host::Ipv4(_) | Host::Ipv6(_)) => false,
            (Self::Exact(own), host) => own == host,
        }
    }

    /// Whether every host of `other` is one of these.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Below(parent), Self::Below(name)) => name == parent || is_below(name, parent),
            (_, Self::Exact(host)) => self.matches(host),
            (Self::Below(_) | Self::Exact(_), Self::Any) | (Self::Exact(_), Self::Below(_)) => false,
        }
    }
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).and_then(|rest| rest.strip_suffix('.')).is_some_and(|rest| !rest.is_empty())
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Below(parent) => write!(f, "*.{parent}"),
            Self::Exact(host) => write!(f, "{host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_host_is_the_host() {
        let rows = [
            ("example.org", "example.org"),
            ("Search.EXAMPLE.org.", "search.example.org"),
            ("localhost", "localhost"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("ＥＸＡＭＰＬＥ．org", "example.org"),
            ("example。org", "example.org"),
            ("a_b.example.org", "a_b.example.org"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("１２７.0.0.1", "127.0.0.1"),
            ("[0:0:0:0:0:0:0:1]", "[::1]"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("[::ffff:127.0.0.1]", "[::ffff:7f00:1]"),
        ];
        for (text, canonical) in rows {
            assert_eq!(parse(text).map(|host| host.to_string()).as_deref(), Ok(canonical), "{text}");
            assert_eq!(parse(canonical), parse(text), "{text}: the canonical form is one");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        let long = "a.".repeat(150);
        let label = format!("{}.org", "a".repeat(64));
        let rows = [
            ("", HostFault::Empty),
            (&long, HostFault::TooLong),
            (&label, HostFault::Label),
            ("example..org", HostFault::Label),
            (".example.org", HostFault::Label),
            ("example.org..", HostFault::Label),
            (".", HostFault::Label),
            ("user@example.org", HostFault::UserInfo),
            ("[fe80::1%25eth0]", HostFault::ZoneId),
            ("[fe80::1%eth0]", HostFault::ZoneId),
            ("ex%61mple.org", HostFault::PercentEncoded),
            ("example.org/x", HostFault::Character('/')),
            ("example.org\\x", HostFault::Character('\\')),
            ("exam ple.org", HostFault::Character(' ')),
            ("example.org\r\nx: y", HostFault::Character('\r')),
            ("example.org:443", HostFault::Port),
            ("::1", HostFault::Unbracketed),
            ("[::1", HostFault::NotIpv6),
            ("[example.org]", HostFault::NotIpv6),
            ("[::1]:443", HostFault::NotIpv6),
            ("1.2.3.4.5", HostFault::NotIpv4),
            ("256.1.1.1", HostFault::NotIpv4),
            ("example.0x7f", HostFault::NotIpv4),
            ("exam|ple.org", HostFault::NotAName),
            ("xn--zzzzzz-.org", HostFault::NotAName),
            ("a*.org", HostFault::Wildcard),
        ];
        for (text, fault) in rows {
            assert_eq!(parse(text), Err(fault), "{text}");
        }
    }

    #[test]
    fn wildcards_stand_for_names_below_and_nothing_else() {
        let below = HostPattern::parse("*.Example.org").unwrap();
        assert_eq!(below.to_string(), "*.example.org");
        let rows = [
            ("a.example.org", true),
            ("a.b.example.org", true),
            ("example.org", false),
            ("badexample.org", false),
            ("a.example.org.evil.test", false),
            ("192.0.2.1", false),
            ("[2001:db8::1]", false),
        ];
        for (host, is_match) in rows {
            assert_eq!(below.matches(&parse(host).unwrap()), is_match, "{host}");
            assert!(HostPattern::Any.matches(&parse(host).unwrap()), "{host}");
        }
        for text in
            ["*.org", "**.example.org", "*.*.example.org", "a.*.example.org", "*.127.0.0.1", "*.", "*a"]
        {
            let fault = HostPattern::parse(text).unwrap_err();
            assert!(matches!(fault, HostFault::Wildcard | HostFault::Empty), "{text}: {fault}");
        }
    }

    #[test]
    fn a_pattern_covers_what_it_matches_all_of() {
        let covers =
            |a: &str, b: &str| HostPattern::parse(a).unwrap().covers(&HostPattern::parse(b).unwrap());
        let rows = [
            ("*", "*", true),
            ("*", "*.example.org", true),
            ("*", "192.0.2.1", true),
            ("*.example.org", "*.example.org", true),
            ("*.example.org", "*.a.example.org", true),
            ("*.a.example.org", "*.example.org", false),
            ("*.example.org", "a.example.org", true),
            ("*.example.org", "example.org", false),
            ("*.example.org", "*", false),
            ("example.org", "example.org", true),
            ("example.org", "*.example.org", false),
        ];
        for (a, b, expected) in rows {
            assert_eq!(covers(a, b), expected, "{a} covers {b}");
        }
    }
}
