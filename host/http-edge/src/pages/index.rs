//! `GET /`: what this is and where its endpoints are, for somebody who has only the address. Programs get
//! JSON, and browsers, which name `text/html` in `Accept`, a page.

use std::fmt::Write as _;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer;
use crate::middleware::compression::KeptCodings;
use crate::openapi::{Lazy, Operation, tags};
use crate::pages::static_text::HTML;

/// What this is.
#[derive(Serialize, ToSchema)]
#[schema(as = FrontPage)]
struct Page<'a> {
    /// What it calls itself.
    #[schema(example = "agent-host")]
    service: &'static str,
    /// Of the program.
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// Everything that is served.
    endpoints: &'a [Endpoint],
}

/// A method of a path.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Endpoint {
    /// How it is called.
    #[schema(example = "GET")]
    pub(crate) method: String,
    /// Where it is.
    #[schema(example = "/metrics")]
    pub(crate) path: String,
    /// What it is for.
    #[schema(example = "Metrics for Prometheus")]
    pub(crate) what: String,
}

pub(crate) fn describe() -> Operation {
    Operation::new("showIndex", tags::SERVICE, "What this is and where its endpoints are")
        .answers::<Page<'static>>(StatusCode::OK, "The endpoints of what is served")
        .answers_text("text/html", "The same as a page, for whoever names `text/html` in `Accept`")
}

/// The page in its forms, for the first who asks.
pub(crate) type Index = Lazy<Forms>;

/// The page in its two forms. Each is made once: strangers who read it slowly hold no copies of it.
pub(crate) struct Forms {
    json: Kept,
    html: Kept,
}

/// A text, and what it was compressed to.
struct Kept {
    text: Bytes,
    codings: KeptCodings,
}

impl Forms {
    pub(crate) fn of(endpoints: &[Endpoint]) -> Self {
        let page = Page { service: "agent-host", version: env!("CARGO_PKG_VERSION"), endpoints };
        // Texts are always JSON.
        let json = serde_json::to_vec(&page).unwrap_or_default();
        Self { json: Kept::new(json), html: Kept::new(page.as_html()) }
    }
}

impl Kept {
    fn new(text: impl Into<Bytes>) -> Self {
        Self { text: text.into(), codings: KeptCodings::default() }
    }
}

pub(crate) async fn show_index(State(index): State<Index>, headers: HeaderMap) -> Response {
    let (kept, mut answer) = if accepts_html(&headers) {
        let about = [(CONTENT_TYPE, HTML), (CONTENT_SECURITY_POLICY, POLICY)];
        (&index.html, (about, index.html.text.clone()).into_response())
    } else {
        (&index.json, answer::json_bytes(StatusCode::OK, index.json.text.clone()))
    };
    answer.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    answer.extensions_mut().insert(kept.codings.clone());
    answer
}

/// Whether `Accept` names `text/html` by itself, as browsers do.
fn accepts_html(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let essence = |range: &str| range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    values.flat_map(|value| value.split(',')).any(|range| essence(range) == "text/html")
}

/// Nothing runs on the page, and nothing is loaded.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

impl Page<'_> {
    fn as_html(&self) -> String {
        let Self { service, version, endpoints } = self;
        let mut rows = String::new();
        for Endpoint { method, path, what } in *endpoints {
            let (shown, what) = (escaped(path), escaped(what));
            // What has no parameters can be looked at. Writing to a string cannot fail.
            let _ = match method.as_str() {
                "GET" if !path.contains(['{', '?']) => {
                    writeln!(rows, "<tr><td>GET<td><a href=\"{shown}\">{shown}</a><td>{what}")
                }
                method => writeln!(rows, "<tr><td>{method}<td>{shown}<td>{what}"),
            };
        }
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{service}</title>\n\
             <h1>{service} {version}</h1>\n<table>\n<caption>What is served</caption>\n\
             <tr><th scope=\"col\">Method<th scope=\"col\">Path<th scope=\"col\">What for\n{rows}</table>\n</html>\n"
        )
    }
}

/// A text as HTML has it, also within double quotes.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn all_who_ask_read_the_same_text() {
        let index: Index = Arc::new(LazyLock::new(Box::new(|| Forms::of(&[]))));
        for accept in ["text/html", "application/json"] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            let read = async || {
                let answer = show_index(State(index.clone()), headers.clone()).await;
                answer.into_body().collect().await.unwrap().to_bytes()
            };
            let (one, other) = (read().await, read().await);
            assert!(!one.is_empty() && one.as_ptr() == other.as_ptr(), "{accept}");
        }
    }
}
