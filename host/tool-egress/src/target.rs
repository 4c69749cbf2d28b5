//! Where a request goes, read from its URI: one meaning, or a refusal.
//!
//! A URI that two readers could understand differently is refused here, before rules are asked: user names,
//! numbers that `getaddrinfo` takes for addresses (`2130706433`, `0x7f.1`, `0177.0.0.1`), IPv6 zones, names
//! with a dot at the end. What is sent as `Host` comes from here, never from the guest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::uri::PathAndQuery;
use http::{HeaderValue, Uri};
use outbound::{Host, Origin, Scheme};

use crate::error::InvalidUri;

pub(crate) const MAX_URI_BYTES: usize = 8 * 1024;

/// Longest name, RFC 1035.
const MAX_NAME_BYTES: usize = 253;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub origin: Origin,
    pub path_and_query: PathAndQuery,
}

impl Target {
    pub(crate) fn parse(uri: &Uri) -> Result<Self, InvalidUri> {
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(InvalidUri::NotAbsolute);
        };
        let scheme = Scheme::parse(scheme).ok_or(InvalidUri::Scheme)?;
        if authority.as_str().contains('@') {
            return Err(InvalidUri::Userinfo);
        }
        let host = parse_host(authority.host())?;
        let port = match authority.as_str().get(authority.host().len()..) {
            Some("") => scheme.default_port(),
            Some(port) => parse_port(port)?,
            None => return Err(InvalidUri::Port),
        };
        let path_and_query = match uri.path_and_query() {
            None => PathAndQuery::from_static("/"),
            Some(query) if query.as_str().starts_with('?') => {
                PathAndQuery::try_from(format!("/{}", query.as_str())).map_err(|_| InvalidUri::Path)?
            }
            Some(asked) => asked.clone(),
        };
        // Anything else could be sent as another form of request target: `*`, or a URL for a proxy.
        if !path_and_query.as_str().starts_with('/') {
            return Err(InvalidUri::Path);
        }
        if authority.as_str().len() + path_and_query.as_str().len() > MAX_URI_BYTES {
            return Err(InvalidUri::TooLong(MAX_URI_BYTES));
        }
        Ok(Self { origin: Origin { scheme, host, port }, path_and_query })
    }

    pub(crate) fn host_header(&self) -> Result<HeaderValue, InvalidUri> {
        HeaderValue::try_from(self.origin.authority()).map_err(|_| InvalidUri::Host)
    }
}

fn parse_host(text: &str) -> Result<Host, InvalidUri> {
    if let Some(inside) = text.strip_prefix('[') {
        let inside = inside.strip_suffix(']').ok_or(InvalidUri::Ipv6)?;
        let address: Ipv6Addr = inside.parse().map_err(|_| InvalidUri::Ipv6)?;
        return Ok(Host::from(IpAddr::V6(address)));
    }
    let name = text.to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    if is_number(last) {
        let address: Ipv4Addr = name.parse().map_err(|_| InvalidUri::NumericHost)?;
        return Ok(Host::from(IpAddr::V4(address)));
    }
    if name.len() > MAX_NAME_BYTES || !name.split('.').all(is_label) {
        return Err(InvalidUri::Host);
    }
    Ok(Host::Name(name))
}

/// What `inet_aton` would take for a part of an address: decimal, octal or hexadecimal.
fn is_number(label: &str) -> bool {
    let digits = label.strip_prefix("0x").unwrap_or(label);
    let hexadecimal = digits.len() < label.len();
    (hexadecimal || !label.is_empty())
        && digits
            .bytes()
            .all(|byte| if hexadecimal { byte.is_ascii_hexdigit() } else { byte.is_ascii_digit() })
}

/// Underscores are in use, though not in host names of RFC 1123.
fn is_label(label: &str) -> bool {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len())
        && label.bytes().all(valid)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// With the colon before it.
fn parse_port(text: &str) -> Result<u16, InvalidUri> {
    let digits = text.strip_prefix(':').ok_or(InvalidUri::Port)?;
    let decimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(port) if decimal && port > 0 => Ok(port),
        _ => Err(InvalidUri::Port),
    }
}
