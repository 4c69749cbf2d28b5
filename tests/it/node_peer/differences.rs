//! Where agent-host chose otherwise than the Node deployment: the one table. How answers are compared does
//! not belong here.

use acceptance::Answer;
use serde_json::Value;

/// A row of the table. The documentation of each says what was chosen and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    // Differences that may be between any two answers.
    /// We do not say what we are made with. host/docs/interface/node-clients.md#response-headers.
    PoweredBy,
    /// How long an idle connection stays open is not announced
    /// (host/docs/interface/node-clients.md#response-headers).
    KeepAlive,
    /// Answers of an agent are not fetched again, so they carry no weak `ETag`
    /// (host/docs/interface/node-clients.md#response-headers).
    Etag,
    /// host/docs/interface/node-clients.md#response-headers.
    RequestId,
    /// Times that go on between the two requests: seconds to the end of a window, and the date
    /// (host/docs/interface/node-clients.md#response-headers).
    Clock,
    /// What is measured or made up anew each time: latencies, uptimes, timestamps, ids of runs
    /// (host/docs/interface/node-clients.md#response-headers).
    Measured,
    /// host/docs/interface/node-clients.md#validation-issues: zod 3's issues plus zod 4's `origin`.
    Origin,
    /// Beside the empty 401 and 403 stands what RFC 6750 wants there
    /// (host/docs/interface/node-clients.md#response-headers).
    Challenge,
    /// What is large is compressed for whoever asks for it, so that caches have to look at what was asked for
    /// (host/docs/interface/node-clients.md#response-headers).
    Compression,

    // The differences from here on are between answers to one kind of request, and the test of that kind
    // names them.
    /// host/docs/interface/node-clients.md#bodies: 400 instead of 500.
    MalformedJson,
    /// host/docs/interface/node-clients.md#bodies: 413 instead of 500.
    TooLarge,
    /// host/docs/interface/node-clients.md#bodies: the body is read all the same.
    ContentType,
    /// host/docs/interface/node-clients.md#rate-windows: JSON instead of the library's own text.
    UserWindow,
    /// host/docs/interface/node-clients.md#bodies: JSON instead of a page.
    UnknownPath,
    /// host/docs/interface/node-clients.md#bodies: 405 with `Allow` instead of 404.
    WrongMethod,
    /// `/` names the endpoints instead of being a 404 (host/docs/interface/node-clients.md#bodies).
    FrontPage,
    /// host/docs/interface/node-clients.md#bodies: another one is a 415 instead of a 500, and `br` is taken.
    Coding,
    /// What `OPTIONS` allows stands in `Allow` alone, and not in a page as well
    /// (host/docs/interface/node-clients.md#bodies).
    OptionsPage,
    /// host/docs/interface/node-clients.md#queue: 202 with `Location` instead of 200.
    JobAccepted,
    /// host/docs/interface/node-clients.md#queue: a job has a query, or it is a 400.
    JobWithoutQuery,
    /// host/docs/interface/node-clients.md#tokens: 403 before anything else is looked at.
    NoUsableId,
    /// host/docs/interface/node-clients.md#circuit-breaker: a 503 that is never kept, instead of a 200 that
    /// is.
    OpenCircuit,
    /// host/docs/interface/node-clients.md#rate-windows: with `Retry-After`, as every 429 here.
    ProviderLimited,
    /// Outside production both say what went wrong, each in its own words
    /// (host/docs/interface/node-clients.md#bodies).
    ErrorText,
    /// An answer to `/metrics` has no length beforehand, or a different one
    /// (host/docs/interface/node-clients.md#metrics).
    Scrape,
}

use Difference as D;

impl Difference {
    /// What may be between any two answers.
    pub(super) const EVERYWHERE: [Self; 9] = [
        D::PoweredBy,
        D::KeepAlive,
        D::Etag,
        D::RequestId,
        D::Clock,
        D::Measured,
        D::Origin,
        D::Challenge,
        D::Compression,
    ];

    /// Whether this is why a field is one thing on Node and another with us; absent is `None`.
    pub(super) fn explains(self, field: &str, node: Option<&str>, ours: Option<&str>) -> bool {
        if Self::EVERYWHERE.contains(&self) {
            self.explains_anywhere(field, node, ours)
        } else {
            self.explains_where_named(field, node, ours)
        }
    }

    fn explains_anywhere(self, field: &str, node: Option<&str>, ours: Option<&str>) -> bool {
        match (self, field, node, ours) {
            (D::PoweredBy, "header x-powered-by", Some("Express"), None)
            | (D::KeepAlive, "header keep-alive", Some("timeout=5"), None)
            | (D::KeepAlive, "header connection", Some("keep-alive"), None)
            | (D::Etag, "header etag", Some(_), None)
            | (D::RequestId, "header x-request-id", None, Some(_))
            | (D::Challenge, "header www-authenticate", None, Some(_))
            | (D::Compression, "header vary", None, Some("accept-encoding"))
            | (D::Clock, "header date", Some(_), Some(_)) => true,
            (
                D::Clock,
                "header retry-after" | "header ratelimit-reset" | "header x-ratelimit-reset",
                Some(node),
                Some(ours),
            ) => are_close(node, ours),
            (D::Measured, "body.id" | "body.timestamp", Some(node), Some(ours)) => shape(node) == shape(ours),
            (D::Measured, field, Some(node), Some(ours)) => {
                (field == "body.uptime" || field.ends_with(".latency")) && are_numbers(node, ours)
            }
            (D::Origin, field, None, Some(r#""string""# | r#""number""#)) => {
                field.starts_with("body.error[") && field.ends_with(".origin")
            }
            _ => false,
        }
    }

    fn explains_where_named(self, field: &str, node: Option<&str>, ours: Option<&str>) -> bool {
        match (self, field, node, ours) {
            (D::MalformedJson, "status", Some("500"), Some("400"))
            | (D::MalformedJson, "body.error", Some(INTERNAL), Some(r#""Invalid input""#))
            | (D::TooLarge, "status", Some("500"), Some("413"))
            | (D::TooLarge, "body.error", Some(INTERNAL), Some(r#""Payload too large""#))
            // The rest of such a body is not read, so the connection ends with it.
            | (D::TooLarge, "header connection", Some("keep-alive"), Some("close"))
            | (D::ProviderLimited, "header retry-after", None, Some(_))
            | (D::ContentType, "status", Some("400" | "500"), Some("200"))
            | (D::UserWindow, "header content-type", Some(HTML), Some(JSON))
            | (D::UserWindow, "body", Some("Too many requests, please try again later."), None)
            | (D::UserWindow, "body.error", None, Some(r#""Rate limit exceeded""#))
            | (D::UnknownPath, "body.error", None, Some(r#""Not found""#))
            | (D::WrongMethod, "status", Some("404"), Some("405"))
            | (D::WrongMethod, "header allow", None, Some(_))
            | (D::WrongMethod, "body.error", None, Some(r#""Method not allowed""#))
            | (D::FrontPage, "status", Some("404"), Some("200"))
            | (D::FrontPage, "header vary", None, Some(_))
            | (D::Coding, "status", Some("500"), Some("415" | "400"))
            | (D::Coding, "header accept-encoding", None, Some("gzip, deflate, br"))
            | (D::OptionsPage, "header content-type", Some(HTML), None)
            | (D::OptionsPage, "body", Some("POST"), Some(""))
            | (D::JobAccepted, "status", Some("200"), Some("202"))
            | (D::JobAccepted, "header location", None, Some(_))
            | (D::JobWithoutQuery, "status", Some("200"), Some("400"))
            | (D::JobWithoutQuery, "body.jobId", Some(_), None)
            | (D::NoUsableId, "status", Some(_), Some("403"))
            | (D::NoUsableId, "header content-type", Some(_), None)
            | (D::NoUsableId, "body", None, Some(""))
            | (D::OpenCircuit, "status", Some("200"), Some("503"))
            | (D::OpenCircuit, "header retry-after", None, Some(_))
            | (D::OpenCircuit, "body.cached", Some(_), None)
            | (D::Scrape, "body", Some(_), Some(_)) => true,
            (D::Coding, field, ..) => field.starts_with("body."),
            (D::FrontPage, field, None, Some(_)) if field.starts_with("body.") => true,
            (D::UnknownPath | D::WrongMethod | D::FrontPage, field, node, ours) => {
                is_page_and_not_json(field, node, ours)
            }
            (D::ContentType, field, ..) => field.starts_with("body."),
            (D::JobWithoutQuery, field, None, Some(_)) => field.starts_with("body.error"),
            (D::NoUsableId, field, Some(_), None) => {
                field.starts_with("body.") || field.starts_with("header x-ratelimit-")
            }
            (D::ErrorText, "body.error", Some(node), Some(ours)) => !node.is_empty() && !ours.is_empty(),
            _ => false,
        }
    }

    /// Whether the length of a body is part of the difference. Elsewhere it follows from the body.
    pub(super) fn frees_length(self) -> bool {
        self == D::Scrape
    }
}

const INTERNAL: &str = r#""Internal server error""#;
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json; charset=utf-8";

/// What Express makes of an error on its own, and we do not.
fn is_page_and_not_json(field: &str, node: Option<&str>, ours: Option<&str>) -> bool {
    matches!(
        (field, node, ours),
        ("header content-security-policy" | "header x-content-type-options" | "body", Some(_), None)
            | ("header content-type", Some(HTML), Some(JSON))
    )
}

/// Whether two numbers are those of requests that were made right after one another.
fn are_close(node: &str, ours: &str) -> bool {
    const SECONDS: u64 = 10;
    let (node, ours): (Result<u64, _>, Result<u64, _>) = (node.parse(), ours.parse());
    matches!((node, ours), (Ok(node), Ok(ours)) if node.abs_diff(ours) <= SECONDS)
}

fn are_numbers(node: &str, ours: &str) -> bool {
    [node, ours].iter().all(|text| text.parse::<f64>().is_ok_and(|number| number >= 0.0))
}

/// A text with every hexadecimal digit alike: two ids, or two times, of one form have one shape.
fn shape(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_hexdigit() { '0' } else { c }).collect()
}

/// The answer as one text, for whoever looks into a difference that is in no row.
pub(super) fn show(answer: &Answer) -> String {
    let headers = answer.headers.iter().map(|(name, value)| format!("{name}: {value:?}\n"));
    let body = serde_json::from_str::<Value>(&answer.body).map_or_else(
        |_| answer.body.clone(),
        |body| serde_json::to_string_pretty(&body).expect("JSON can be written"),
    );
    format!("{}\n{}\n{body}\n", answer.status, headers.collect::<String>())
}

/// The links and their anchors are held by the tests of documents.
#[test]
fn the_page_for_clients_of_node_names_every_difference() {
    let source = include_str!("differences.rs");
    let body = source.split("enum Difference {").nth(1).unwrap().split("\n}").next().unwrap();
    let (mut documented, mut variants, mut without) = (String::new(), 0, vec![]);
    for line in body.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("//") {
            documented.push_str(line);
            continue;
        }
        variants += 1;
        if !documented.contains(concat!("host/docs/interface/", "node-clients.md#")) {
            without.push(line);
        }
        documented.clear();
    }
    assert!(variants > 20, "the variants are found: {variants}");
    assert!(without.is_empty(), "host/docs/interface/node-clients.md names a place for each: {without:?}");
}
