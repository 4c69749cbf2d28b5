//! Which headers pass: from the guest to the server, and back.
//!
//! What frames a message or speaks of the connection is the host's: it is left away where that changes
//! nothing for the guest, and refused where the guest must have meant something by it.

use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName,
    HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

use crate::error::EgressError;
use crate::secret_scan::Scanner;
use crate::target::Target;

/// Most headers of a request.
const MAX_HEADERS: usize = 64;

/// Most bytes of a request's headers.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// What of a coding's name is repeated in an error.
const MAX_CODING_CHARS: usize = 40;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// Refused: a guest that sets one wants another host, another framing, a proxy or another protocol.
const REFUSED: [HeaderName; 6] =
    [PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, PROXY_CONNECTION, TRANSFER_ENCODING, UPGRADE, HTTP2_SETTINGS];

/// Refused as well: servers and frameworks take them for another method, path, host or client than the rules
/// have seen.
const OVERRIDES: [&str; 8] = [
    "forwarded",
    "x-host",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// How the others of them begin.
const OVERRIDE_PREFIXES: [&str; 2] = ["x-forwarded-", "x-original-"];

/// Left away: connections are the host's, and it answers `100 Continue` by itself.
const REMOVED: [HeaderName; 6] = [CONNECTION, KEEP_ALIVE, TE, TRAILER, EXPECT, ACCEPT_ENCODING];

/// Left away from responses: they speak of a connection that the guest has no part in.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The headers that are sent for those of a guest, credentials not yet among them, and the length of the body
/// if the guest gave it.
pub(crate) fn for_request(
    mut headers: HeaderMap,
    target: &Target,
) -> Result<(HeaderMap, Option<u64>), EgressError> {
    if headers.len() > MAX_HEADERS || bytes_of(&headers) > MAX_HEADER_BYTES {
        return Err(EgressError::HeadersTooLarge { most: MAX_HEADERS, bytes: MAX_HEADER_BYTES });
    }
    let overrides = |name: &&HeaderName| {
        let name = name.as_str();
        OVERRIDES.contains(&name) || OVERRIDE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    if let Some(name) = headers.keys().find(|name| REFUSED.contains(name) || overrides(name)) {
        return Err(EgressError::Header(name.to_string()));
    }
    let host = target.host_header().map_err(EgressError::InvalidUri)?;
    if headers.get_all(HOST).iter().any(|given| !given.as_bytes().eq_ignore_ascii_case(host.as_bytes())) {
        return Err(EgressError::Header(HOST.to_string()));
    }
    for name in &REMOVED {
        headers.remove(name);
    }
    let length = content_length(&headers)?;
    headers.insert(HOST, host);
    // What comes compressed cannot be scanned for secrets.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok((headers, length))
}

/// Refuses a response whose body cannot be scanned.
pub(crate) fn check_coding(headers: &HeaderMap, host: &str, scanner: &Scanner) -> Result<(), EgressError> {
    let coding_of = |value: &HeaderValue| {
        let text = String::from_utf8_lossy(value.as_bytes());
        scanner.scan_text(&text).chars().take(MAX_CODING_CHARS).collect::<String>()
    };
    let host = || host.to_owned();
    for value in headers.get_all(TRANSFER_ENCODING) {
        // `gzip, chunked` would leave the body compressed.
        if !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") {
            return Err(EgressError::TransferCoding { host: host(), coding: coding_of(value) });
        }
    }
    for value in headers.get_all(CONTENT_ENCODING) {
        let coding = value.as_bytes().trim_ascii();
        if !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity") {
            return Err(EgressError::ContentCoding { host: host(), coding: coding_of(value) });
        }
    }
    Ok(())
}

/// How many values of secrets were replaced in what a server answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub all: u64,
    /// Replaced values of secrets that the request did not have.
    pub unused: u64,
}

/// The headers that a guest gets for those of a response, and what was replaced in them. `used` names the
/// secrets of the request, `rewritten` says that the body may become longer or shorter.
pub(crate) fn for_response(
    headers: &HeaderMap,
    scanner: &Scanner,
    used: &[String],
    rewritten: bool,
) -> (HeaderMap, Replaced) {
    let (mut scanned, mut replaced) = (HeaderMap::with_capacity(headers.len()), Replaced::default());
    for (name, value) in headers {
        let framing = rewritten && *name == CONTENT_LENGTH;
        if framing || HOP_BY_HOP.contains(name) || scanner.find(name.as_str().as_bytes()).is_some() {
            continue;
        }
        let (bytes, found) = scanner.scan_whole(value.as_bytes());
        let is_as_it_was = found.is_none();
        if let Some(found) = found {
            replaced.all += found.matches();
            replaced.unused += found.matches_beside(used);
        }
        // The mark holds characters of a name from the policy: one that no header takes leaves the header
        // away.
        if let Ok(value) = if is_as_it_was { Ok(value.clone()) } else { HeaderValue::from_bytes(&bytes) } {
            scanned.append(name.clone(), value);
        }
    }
    (scanned, replaced)
}

/// What headers take in a message, about.
pub(crate) fn bytes_of(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + b": \r\n".len()).sum()
}

/// One number, or none.
fn content_length(headers: &HeaderMap) -> Result<Option<u64>, EgressError> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let digits = |value: &HeaderValue| value.as_bytes().iter().all(u8::is_ascii_digit);
    match value.to_str().ok().and_then(|text| text.parse().ok()) {
        Some(length) if digits(value) && values.next().is_none() => Ok(Some(length)),
        _ => Err(EgressError::Header(CONTENT_LENGTH.to_string())),
    }
}
