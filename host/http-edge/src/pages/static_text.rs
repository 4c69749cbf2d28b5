//! A text that does not change while the process runs, such as a page: answered with a tag, so that who has a
//! copy is not sent it again.

use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest as _, Sha256};

use crate::middleware::compression::{self, KeptCodings};

pub(crate) const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// The text, and what is said with it.
#[derive(Debug)]
pub(crate) struct StaticText {
    body: Bytes,
    tag: String,
    headers: HeaderMap,
    codings: KeptCodings,
}

impl StaticText {
    /// A page has a Content-Security-Policy.
    pub(crate) fn new(content_type: HeaderValue, body: Bytes, policy: Option<HeaderValue>) -> Self {
        // Weak: the same text is sent in several content codings.
        let tag = format!("W/\"{}\"", URL_SAFE_NO_PAD.encode(Sha256::digest(&body)));
        let mut headers = HeaderMap::from_iter([
            (CONTENT_TYPE, content_type),
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        ]);
        headers.extend(policy.map(|policy| (CONTENT_SECURITY_POLICY, policy)));
        // Letters and quotes are always fit for a header.
        headers.extend(HeaderValue::try_from(&tag).ok().map(|tag| (ETAG, tag)));
        // The compressing layer would say so beside the text, but a 304 has to say so as well.
        if compression::is_compressible(&headers, body.len()) {
            headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        }
        Self { body, tag, headers, codings: KeptCodings::default() }
    }

    /// The text, or 304 for whoever has it.
    pub(crate) fn answer(&self, headers: &HeaderMap) -> Response {
        if self.is_known(headers) {
            let mut kept = self.headers.clone();
            kept.remove(CONTENT_TYPE);
            return (StatusCode::NOT_MODIFIED, kept).into_response();
        }
        let mut answer = (self.headers.clone(), self.body.clone()).into_response();
        answer.extensions_mut().insert(self.codings.clone());
        answer
    }

    /// `If-None-Match` (RFC 9110, section 13.1.2), by weak comparison.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let lines = headers.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
        lines
            .flat_map(|line| line.split(','))
            .any(|tag| tag.trim() == "*" || opaque(tag) == opaque(&self.tag))
    }
}
