//! `GET /openapi.json` and `GET /docs`: texts that are made once, for the first who asks, so that a start does not wait for
//! them.
//!
//! The page is one file with its script and its style in it. Its Content-Security-Policy names the two by their digests
//! and lets it read from this service only, so it works without any other network and runs nothing else.

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::document::document;
use super::operation::{Operation, Parameter, tags};
use super::routes::{Described, Routes};
use crate::answer;

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const PAGE: &str = include_str!("page.html");

/// The routes of the document of these routes, of itself and of the page. `more` is what is said of every route.
pub(crate) fn serve(mut described: Vec<Described>, more: fn(Operation) -> Operation) -> Router {
    let own = Routes::<()>::new().get("/openapi.json", || async {}, describe_document()).get(
        "/docs",
        || async {},
        describe_page(),
    );
    described.extend(own.split().1);
    let described: Vec<_> = described.into_iter().map(|route| route.map(more)).collect();
    let document = Text::made_by(move || {
        // A document is always JSON.
        let document = serde_json::to_vec(&document(&described)).unwrap_or_default();
        Text::new(answer::JSON, document.into(), None)
    });
    let page = Text::made_by(|| {
        let page = PAGE.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", SCRIPT);
        Text::new(HTML, page.into(), HeaderValue::try_from(policy()).ok())
    });
    Router::new()
        .route("/openapi.json", routing::get(show).with_state(document))
        .route("/docs", routing::get(show).with_state(page))
}

fn describe_document() -> Operation {
    cached(Operation::new("readOpenApi", tags::SERVICE, "This document"))
        .answers_object("An OpenAPI 3.1 document of everything that this process serves")
        .header(StatusCode::OK, &ETAG)
        .header(StatusCode::OK, &CACHE_CONTROL)
}

fn describe_page() -> Operation {
    cached(Operation::new("showReference", tags::SERVICE, "This document as a page, for people"))
        .answers_text("text/html", "A page that needs nothing but this service")
        .header(StatusCode::OK, &ETAG)
        .header(StatusCode::OK, &CACHE_CONTROL)
}

fn cached(operation: Operation) -> Operation {
    let schema = json!({ "type": "string", "examples": ["*"] });
    let description = "The `ETag` of a copy that the client has.";
    operation
        .parameter(Parameter::header("If-None-Match", description, schema))
        .answers_nothing(StatusCode::NOT_MODIFIED, "The copy is the newest")
        .header(StatusCode::NOT_MODIFIED, &ETAG)
        .header(StatusCode::NOT_MODIFIED, &CACHE_CONTROL)
}

/// A text that does not change while the process runs.
#[derive(Debug)]
struct Text {
    body: Bytes,
    tag: String,
    headers: HeaderMap,
}

/// A text that the first reader makes.
type Lazy = Arc<LazyLock<Text, Box<dyn FnOnce() -> Text + Send>>>;

impl Text {
    fn made_by(make: impl FnOnce() -> Self + Send + 'static) -> Lazy {
        Arc::new(LazyLock::new(Box::new(make)))
    }

    fn new(content_type: HeaderValue, body: Bytes, policy: Option<HeaderValue>) -> Self {
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
        Self { body, tag, headers }
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

async fn show(State(text): State<Lazy>, headers: HeaderMap) -> Response {
    if text.is_known(&headers) {
        let mut kept = text.headers.clone();
        kept.remove(CONTENT_TYPE);
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    (text.headers.clone(), text.body.clone()).into_response()
}

/// What the page may do: run its own script, show its own style, and read from this service.
fn policy() -> String {
    let digest = |text: &str| STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        digest(SCRIPT),
        digest(STYLE)
    )
}
