//! `GET /console`: the page by which administrators look at the service: runs, jobs, tools, limits, and a
//! place to try a prompt and a tool. host/docs/operate/console.md says how it is used.
//!
//! The page and its modules are texts in the binary, written by hand: no build step, no other network. They
//! hold no data, so everybody may read them; what they show comes from `/admin/` and `/api/` with the token
//! that the person at the page enters. The policy lets the page run its own modules and ask this service, and
//! nothing else; texts get into the page as text only, which the policy enforces as well (trusted types).
//!
//! The page names everything relative to its own address, so it also works below a proxy's prefix.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::answer;
use crate::openapi::{Operation, Refused, Routes, tags};
use crate::pages::static_text::{HTML, StaticText};
use crate::request::path_id::{PathId, check_id};
use crate::request::{Field, Kind};

const NOT_FOUND: &str = "Not found";

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// What the page loads: name, media type, text.
const FILES: [(&str, &str, &str); 12] = [
    ("api.js", SCRIPT, include_str!("api.js")),
    ("app.js", SCRIPT, include_str!("app.js")),
    ("dom.js", SCRIPT, include_str!("dom.js")),
    ("icon.svg", ICON, include_str!("icon.svg")),
    ("jobs.js", SCRIPT, include_str!("jobs.js")),
    ("run.js", SCRIPT, include_str!("run.js")),
    ("runs.js", SCRIPT, include_str!("runs.js")),
    ("service.js", SCRIPT, include_str!("service.js")),
    ("style.css", STYLE, include_str!("style.css")),
    ("tools.js", SCRIPT, include_str!("tools.js")),
    ("try.js", SCRIPT, include_str!("try.js")),
    ("waits.js", SCRIPT, include_str!("waits.js")),
];

/// What the page may do.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
);

static PAGE: LazyLock<StaticText> =
    LazyLock::new(|| StaticText::new(HTML, Bytes::from_static(include_bytes!("page.html")), Some(POLICY)));

static LOADED: LazyLock<BTreeMap<&str, StaticText>> = LazyLock::new(|| {
    let text = |(name, media, text): (&'static str, &'static str, &'static str)| {
        (name, StaticText::new(HeaderValue::from_static(media), text.into(), None))
    };
    FILES.into_iter().map(text).collect()
});

pub(crate) fn routes() -> Routes<()> {
    Routes::new().get("/console", show_page, describe_page).get("/console/{file}", show_file, describe_file)
}

fn describe_page() -> Operation {
    Operation::new("showConsole", tags::SERVICE, "The console, a page for administrators")
        .about("The page holds no data; what it shows it asks for with the token that is entered there.")
        .answers_text("text/html", "A page that needs nothing but this service")
        .answers_static_text()
}

const FILE: Field = Field::new(
    "file",
    Kind::Word { words: || FILES.iter().map(|(name, ..)| *name).collect(), most_quoted: 0 },
)
.about("Which part.");

fn describe_file() -> Operation {
    Operation::new("readConsoleFile", tags::SERVICE, "What the console's page is made of")
        .path(FILE)
        .answers_text("text/javascript", "A module")
        .answers_text("text/css", "The style")
        .answers_text("image/svg+xml", "The icon")
        .answers_static_text()
        .refuses([Refused::text(StatusCode::NOT_FOUND, NOT_FOUND)])
}

async fn show_page(headers: HeaderMap) -> Response {
    PAGE.answer(&headers)
}

async fn show_file(file: PathId, headers: HeaderMap) -> Response {
    match check_id(file).and_then(|name| LOADED.get(&*name)) {
        Some(text) => text.answer(&headers),
        None => answer::refuse(StatusCode::NOT_FOUND, NOT_FOUND),
    }
}
