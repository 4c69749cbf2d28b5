//! Requests that are answered before any route sees them: those that are no proper HTTP, those that were sent
//! to a name that is not ours, and those that a browser sends from a page of somebody else's. Preflights of
//! pages that may call are answered here as well.
//!
//! Without this any page that a user visits could spend tokens on a service of their machine: a `POST`
//! without a special header needs no preflight, and bodies are read whatever their content type says.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr as _;

use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, CONNECTION, HOST, ORIGIN,
    TRANSFER_ENCODING,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version};

use crate::answer;
use crate::openapi::Refused;
use crate::origins::{Hosts, Origin, Origins};

/// Set by browsers, and no page can set it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The methods of all routes.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE");

/// How long browsers keep the answer to a preflight, in seconds: the longest that Chromium accepts.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// What requests are checked by.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub origins: Origins,
    pub hosts: Hosts,
    /// Whether pages of others may not even read: what only changes nothing is no danger, but a protocol may
    /// want it.
    pub checks_reads: bool,
}

/// An extension of the answer to a preflight of a page that may call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Preflight;

/// Why a request is refused. Nothing of the request is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error("the request names no host, or not one host")]
    NoHost,
    #[error("the request was sent to a name that is not ours: CORS_ORIGINS can name it")]
    StrangeHost,
    #[error("the body has a transfer coding other than chunked")]
    TransferCoding,
    #[error("a browser sent the request from an origin that CORS_ORIGINS does not name")]
    OtherOrigin,
}

impl Refusal {
    fn status_and_text(self) -> (StatusCode, &'static str) {
        match self {
            Self::NoHost => (StatusCode::BAD_REQUEST, "Bad request"),
            Self::StrangeHost | Self::OtherOrigin => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::TransferCoding => (StatusCode::NOT_IMPLEMENTED, "Transfer coding not supported"),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text) = self.status_and_text();
        let mut response = answer::fail(status, text, self);
        if self == Self::TransferCoding {
            // Where such a body ends is not known (RFC 9112, section 6.1).
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// What any route's request may be refused for, for the document.
pub(crate) fn documented() -> impl Iterator<Item = Refused> {
    [Refusal::NoHost, Refusal::StrangeHost, Refusal::TransferCoding].into_iter().map(|refusal| {
        let (status, text) = refusal.status_and_text();
        let closes = (refusal == Refusal::TransferCoding).then_some(CONNECTION);
        Refused { headers: closes.into_iter().collect(), ..Refused::text(status, text) }
    })
}

impl Rules {
    /// The answer to a request that no route is to see: one that is refused, or a preflight.
    pub(crate) fn answer<B>(&self, request: &Request<B>) -> Option<Response> {
        match self.check(request) {
            Ok(()) => self.answer_preflight(request),
            Err(refusal) => Some(refusal.into_response()),
        }
    }

    fn check<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let headers = request.headers();
        check_transfer_coding(headers)?;
        // The target's own authority counts before the header (RFC 9112, section 3.2.2).
        let host = match request.uri().authority() {
            Some(authority) => Some(without_user(authority.clone())?),
            None => find_host(headers)?,
        };
        self.check_host(request.version(), headers, host.as_ref())?;
        self.check_origin(request.method(), headers, host.as_ref())
    }

    fn check_host(
        &self,
        version: Version,
        headers: &HeaderMap,
        host: Option<&Authority>,
    ) -> Result<(), Refusal> {
        if self.hosts == Hosts::Unchecked {
            return Ok(());
        }
        if version >= Version::HTTP_11 && !headers.contains_key(HOST) {
            return Err(Refusal::NoHost);
        }
        match host {
            // HTTP/1.0 without a host, which no browser sends.
            None if !headers.contains_key(HOST) => Ok(()),
            _ if self.hosts == Hosts::Named => Ok(()),
            Some(authority) if is_local(authority.host()) || self.origins.name(authority.host()) => Ok(()),
            Some(_) | None => Err(Refusal::StrangeHost),
        }
    }

    /// Only a browser says where a request comes from, so whoever says nothing is none.
    fn check_origin(
        &self,
        method: &Method,
        headers: &HeaderMap,
        host: Option<&Authority>,
    ) -> Result<(), Refusal> {
        if method.is_safe() && !self.checks_reads {
            return Ok(());
        }
        let origin = headers.get(ORIGIN);
        let is_ours = match headers.get(SEC_FETCH_SITE) {
            // `none` is a user's own doing, such as a bookmark.
            Some(site) => site == "same-origin" || site == "none",
            None => origin.is_none_or(|origin| is_same(origin, host)),
        };
        match is_ours || origin.is_some_and(|origin| self.origins.allow(origin)) {
            true => Ok(()),
            false => Err(Refusal::OtherOrigin),
        }
    }

    /// The answer to a browser that asks whether a page may call. Pages that may not get none of these
    /// headers, from whoever answers `OPTIONS`, and that is a no.
    fn answer_preflight<B>(&self, request: &Request<B>) -> Option<Response> {
        let headers = request.headers();
        let is_preflight =
            request.method() == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !is_preflight || !headers.get(ORIGIN).is_some_and(|origin| self.origins.allow(origin)) {
            return None;
        }
        let mut response = StatusCode::NO_CONTENT.into_response();
        response.extensions_mut().insert(Preflight);
        let answer = response.headers_mut();
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        answer.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        // Any header may be sent: none means anything that the page could not say otherwise.
        if let Some(wanted) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
        Some(response)
    }
}

/// The one host that is named; none when there is no header, or an empty one.
fn find_host(headers: &HeaderMap) -> Result<Option<Authority>, Refusal> {
    let mut hosts = headers.get_all(HOST).into_iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(Refusal::NoHost);
    }
    match host {
        Some(host) if !host.is_empty() => {
            let authority = Authority::try_from(host.as_bytes()).map_err(|_| Refusal::NoHost)?;
            without_user(authority).map(Some)
        }
        Some(_) | None => Ok(None),
    }
}

/// A user before the host is no part of a header or of `:authority` (RFC 9113, section 8.3.1).
fn without_user(authority: Authority) -> Result<Authority, Refusal> {
    if authority.as_str().contains('@') { Err(Refusal::NoHost) } else { Ok(authority) }
}

/// Of the transfer codings hyper takes all that end in `chunked` for that one alone. RFC 9112, section 6.1:
/// one that is not understood is 501.
fn check_transfer_coding(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).into_iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Refusal::TransferCoding),
    }
}

fn is_local(host: &str) -> bool {
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    host.eq_ignore_ascii_case("localhost")
        || Ipv4Addr::from_str(host).is_ok()
        || literal.is_some_and(|host| Ipv6Addr::from_str(host).is_ok())
}

fn is_same(origin: &HeaderValue, host: Option<&Authority>) -> bool {
    let origin = origin.to_str().ok().and_then(|text| text.parse::<Origin>().ok());
    origin.zip(host).is_some_and(|(origin, host)| origin.is(host))
}
