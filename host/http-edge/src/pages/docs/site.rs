//! Everything below `/docs`, by what is behind it. A page is rendered for the first who asks for it, so that
//! a start does not wait for any, and no request renders one again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::pages::{INDEX, Page, pages};
use super::sources::{PICTURES, TEXTS, place};
use super::{html, links, search};
use crate::answer;
use crate::pages::index::escaped;
use crate::pages::static_text::{HTML, StaticText};

const MARKDOWN: HeaderValue = HeaderValue::from_static("text/markdown; charset=utf-8");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const STYLE: HeaderValue = HeaderValue::from_static("text/css; charset=utf-8");
const ICON: HeaderValue = HeaderValue::from_static("image/svg+xml");
const SCRIPT: HeaderValue = HeaderValue::from_static("text/javascript; charset=utf-8");

/// What a page may do.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
);

/// One thing that is served.
pub(super) enum Served {
    Text(LazyLock<StaticText, Box<dyn FnOnce() -> StaticText + Send>>),
    /// The page is elsewhere: the address, seen from where it was looked for.
    Moved(HeaderValue),
}

impl Served {
    fn text(make: impl FnOnce() -> StaticText + Send + 'static) -> Self {
        Self::Text(LazyLock::new(Box::new(make)))
    }

    /// A text that need not be made.
    fn fixed(media: HeaderValue, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::text(|| StaticText::new(media, bytes, None))
    }

    pub(super) fn answer(&self, headers: &HeaderMap) -> Response {
        match self {
            Self::Text(text) => text.answer(headers),
            Self::Moved(to) => (StatusCode::PERMANENT_REDIRECT, [(LOCATION, to.clone())]).into_response(),
        }
    }
}

pub(super) static SITE: LazyLock<BTreeMap<String, Served>> = LazyLock::new(|| {
    let style = concat!(include_str!("../../openapi/page.css"), include_str!("docs.css"));
    let mut site = BTreeMap::from([
        ("style.css".to_owned(), Served::fixed(STYLE, style)),
        ("icon.svg".to_owned(), Served::fixed(ICON, include_str!("../console/icon.svg"))),
        ("search.js".to_owned(), Served::fixed(SCRIPT, include_str!("search.js"))),
        (
            "search.json".to_owned(),
            Served::text(|| StaticText::new(answer::JSON, search::index().into(), None)),
        ),
        (INDEX.to_owned(), Served::Moved(HeaderValue::from_static("../docs"))),
    ]);
    for page in pages() {
        site.insert(format!("{}.md", page.name), Served::fixed(MARKDOWN, page.markdown.as_str()));
        let name = if page.name == INDEX { "" } else { &page.name };
        site.insert(name.to_owned(), Served::text(|| show(page)));
        let folder = page.folder();
        // `/docs/api` is the reference of the API. A name of a folder is always fit for a header.
        let first = HeaderValue::try_from(format!("{folder}/{INDEX}")).ok();
        if let (Some(first), false) = (first, folder.is_empty()) {
            site.entry(folder.to_owned()).or_insert(Served::Moved(first));
        }
    }
    for (source, text) in TEXTS.iter().filter(|(source, _)| !source.ends_with(".md")) {
        site.insert(place(source).to_owned(), Served::fixed(PLAIN, *text));
    }
    for (source, bytes) in PICTURES {
        let media = if source.ends_with(".svg") { "image/svg+xml" } else { "image/png" };
        site.insert(place(source).to_owned(), Served::fixed(HeaderValue::from_static(media), *bytes));
    }
    site
});

/// `/llms.txt`, in the form of llmstxt.org.
pub(super) static LIST: LazyLock<StaticText> = LazyLock::new(|| {
    let mut list = String::from("# agent-host\n\n");
    let mut folder = "";
    for page in pages() {
        if page.name == INDEX {
            list.push_str("> agent-host serves a tool-using language-model agent over HTTP. These are the pages of its documentation.\n\n");
        }
        if page.folder() != folder {
            folder = page.folder();
            // Writing to a string cannot fail.
            let _ = write!(list, "\n## {folder}\n\n");
        }
        let Page { name, title, about, .. } = page;
        let _ = writeln!(list, "- [{title}](docs/{name}.md): {about}");
    }
    list.push_str(
        "\n## API\n\n- [OpenAPI](openapi.json): everything that this process serves, as OpenAPI 3.1\n",
    );
    StaticText::new(PLAIN, list.into(), None)
});

/// A page as HTML, with the list of all pages beside it.
fn show(page: &Page) -> StaticText {
    // What is in front of `/docs/`, seen from the page.
    let (root, own) = match page.name.as_str() {
        INDEX => ("docs/", "docs/README.md".to_owned()),
        name => {
            (if page.folder().is_empty() { "" } else { "../" }, links::relative(name, &format!("{name}.md")))
        }
    };
    let content = html::render(&page.markdown, if page.name == INDEX { root } else { "" });
    let shown = include_str!("page.html")
        .replace("{title}", &escaped(&page.title))
        .replace("{root}", root)
        .replace("{markdown}", &own)
        .replace("{list}", &list(page, root))
        .replace("{content}", &content);
    StaticText::new(HTML, shown.into(), Some(POLICY))
}

/// Every page by its folder, each a link.
fn list(shown: &Page, root: &str) -> String {
    let mut list = String::new();
    let mut folder = "";
    for page in pages() {
        if page.folder() != folder {
            folder = page.folder();
            let _ = writeln!(list, "<h2>{folder}</h2>");
        }
        let here = if page.name == shown.name { " aria-current=\"page\"" } else { "" };
        let (place, title) =
            if page.name == INDEX { ("../docs", "Contents") } else { (&*page.name, &*page.title) };
        let _ = writeln!(list, "<a href=\"{root}{place}\"{here}>{}</a>", escaped(title));
    }
    list
}
