//! `GET /docs` and what is below: the pages of `host/docs` as people read them in a browser
//! (`/docs/api/streams`) and as programs do (`/docs/api/streams.md`), `GET /llms.txt`, which lists them, and
//! a search.
//!
//! - `sources`: the texts, which are in the binary. `pages`: what is said of each. `agent-host docs` prints
//!   them too.
//! - `links`: links between pages, as they are where a page is served. `html`: Markdown to HTML.
//! - `site`: everything that is served, each thing made for the first who asks for it. `search`: what the
//!   search looks in.
//!
//! As the console's, the pages need no token and no other network, name everything relative to their own
//! address, and run the one script that the Content-Security-Policy lets them. `GET /docs/api`, the reference
//! that is made from `/openapi.json`, is in `openapi/serve.rs`.

mod html;
mod links;
mod pages;
mod search;
mod site;
mod sources;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::Response;
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use crate::answer;
use crate::openapi::{Operation, Refused, Routes, tags};
use crate::request::Field;
use crate::request::path_id::{PathId, check_id};

pub use pages::{Page, pages};

const NOT_FOUND: &str = "Not found";

pub(crate) fn routes() -> Routes<()> {
    Routes::new()
        .get("/docs", show_index, describe_index)
        .get("/docs/{page}", show_at_the_top, describe_at_the_top)
        .get("/docs/{folder}/{page}", show_in_a_folder, describe_in_a_folder)
        .get("/llms.txt", show_list, describe_list)
}

fn describe_index() -> Operation {
    Operation::new("showDocumentation", tags::SERVICE, "The documentation of this version, for people")
        .answers_text("text/html", "A page that needs nothing but this service")
        .answers_static_text()
}

fn describe_at_the_top() -> Operation {
    Operation::new("readTopDocument", tags::SERVICE, "What the documentation has outside of its folders")
        .about("A folder's name leads to its first page.")
        .path(page(|| json!("ARCHITECTURE")))
        .answers_text("text/html", "A page")
        .answers_text("text/markdown", "A page as Markdown: its name with `.md`")
        .answers_text("text/css", "The style")
        .answers_text("text/javascript", "The script of the search")
        .answers_text("image/svg+xml", "The icon")
        .answers_object("What the search looks in: `search.json`")
        .answers_static_text()
        .answers_nothing(StatusCode::PERMANENT_REDIRECT, "It is elsewhere")
        .header(StatusCode::PERMANENT_REDIRECT, &LOCATION)
        .refuses([Refused::text(StatusCode::NOT_FOUND, NOT_FOUND)])
}

fn describe_in_a_folder() -> Operation {
    Operation::new("readDocument", tags::SERVICE, "A page of the documentation, or a picture")
        .path(Field::text("folder").about("For whom it is.").example(|| json!("api")))
        .path(page(|| json!("streams")))
        .answers_text("text/html", "A page")
        .answers_text("text/markdown", "A page as Markdown: its name with `.md`")
        .answers_text("text/plain", "A file that a page leads to")
        .answers_text("image/png", "A picture")
        .answers_text("image/svg+xml", "A picture")
        .answers_static_text()
        .refuses([Refused::text(StatusCode::NOT_FOUND, NOT_FOUND)])
}

fn describe_list() -> Operation {
    Operation::new("listDocuments", tags::SERVICE, "Every page of the documentation, for language models")
        .answers_text("text/plain", "What each page is about, and where it is as Markdown (llmstxt.org)")
        .answers_static_text()
}

fn page(example: fn() -> Value) -> Field {
    Field::text("page")
        .about("The page, as `agent-host docs` lists it; with `.md` as Markdown.")
        .example(example)
}

async fn show_index(headers: HeaderMap) -> Response {
    show("", &headers)
}

async fn show_at_the_top(page: PathId, headers: HeaderMap) -> Response {
    // The index is at `/docs` itself.
    match check_id(page).filter(|page| !page.is_empty()) {
        Some(page) => show(&page, &headers),
        None => answer::refuse(StatusCode::NOT_FOUND, NOT_FOUND),
    }
}

async fn show_in_a_folder(
    place: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    match place {
        Ok(Path((folder, page))) => show(&format!("{folder}/{page}"), &headers),
        Err(_) => answer::refuse(StatusCode::NOT_FOUND, NOT_FOUND),
    }
}

async fn show_list(headers: HeaderMap) -> Response {
    site::LIST.answer(&headers)
}

fn show(place: &str, headers: &HeaderMap) -> Response {
    match site::SITE.get(place) {
        Some(served) => served.answer(headers),
        None => answer::refuse(StatusCode::NOT_FOUND, NOT_FOUND),
    }
}
