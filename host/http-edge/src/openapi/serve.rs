//! `GET /openapi.json` and `GET /docs/api`: texts that are made once, for the first who asks, so that a start
//! does not wait for them.
//!
//! The page is one file with its script and its style in it. Its Content-Security-Policy names the two by
//! their digests and lets it read from this service only, so it works without any other network and runs
//! nothing else.

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::response::Response;
use axum::{Router, routing};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest as _, Sha256};

use super::document::document;
use super::operation::{Operation, tags};
use super::routes::{Described, Routes};
use crate::answer;
use crate::pages::static_text::{HTML, StaticText};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const PAGE: &str = include_str!("page.html");

/// What is said of the routes of the document and of the page.
pub(crate) fn routes() -> Vec<Described> {
    let routes = Routes::<()>::new().get("/openapi.json", || async {}, describe_document);
    routes.get("/docs/api", || async {}, describe_page).split().1
}

/// The routes of the document of these routes, and of the page. `more` is what is said of every route.
/// Request bodies have at most so many bytes.
pub(crate) fn serve(
    described: Arc<[Described]>,
    max_body_bytes: usize,
    more: fn(Operation) -> Operation,
) -> Router {
    let document = made_by(move || {
        // A document is always JSON.
        let document = serde_json::to_vec(&document(&described, max_body_bytes, more)).unwrap_or_default();
        StaticText::new(answer::JSON, document.into(), None)
    });
    let page = made_by(|| {
        let page = PAGE.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", SCRIPT);
        StaticText::new(HTML, page.into(), HeaderValue::try_from(policy()).ok())
    });
    Router::new()
        .route("/openapi.json", routing::get(show).with_state(document))
        .route("/docs/api", routing::get(show).with_state(page))
}

fn describe_document() -> Operation {
    Operation::new("readOpenApi", tags::SERVICE, "This document")
        .answers_object("An OpenAPI 3.1 document of everything that this process serves")
        .answers_static_text()
}

fn describe_page() -> Operation {
    Operation::new("showReference", tags::SERVICE, "This document as a page, for people")
        .answers_text("text/html", "A page that needs nothing but this service")
        .answers_static_text()
}

/// Something that the first reader makes.
pub(crate) type Lazy<T> = Arc<LazyLock<T, Box<dyn FnOnce() -> T + Send>>>;

pub(super) fn made_by<T>(make: impl FnOnce() -> T + Send + 'static) -> Lazy<T> {
    Arc::new(LazyLock::new(Box::new(make)))
}

async fn show(State(text): State<Lazy<StaticText>>, headers: HeaderMap) -> Response {
    text.answer(&headers)
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
