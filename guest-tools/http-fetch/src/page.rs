//! What is shown of a response, by its content type.

use std::collections::BTreeMap;

use agent_tool_sdk::Failure;
use agent_tool_sdk::http::Response;
use schemars::JsonSchema;
use serde::Serialize;

use crate::address::resolve;
use crate::{charset, html};

/// Characters at the beginning in which a control character tells that it is no text.
const LOOKED_AT: usize = 1000;

/// What was at the URL.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Page {
    /// HTTP status.
    status: u16,
    content_type: String,
    /// Where to ask instead: the server redirects there.
    #[serde(skip_serializing_if = "Option::is_none")]
    redirect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Of HTML the readable text, in which [1] stands behind the words of a link.
    text: String,
    /// What the links in `text` stand for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    links: BTreeMap<usize, String>,
    truncated: bool,
    /// The `start` to read on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_start: Option<usize>,
}

/// Which part of a text is wanted, in characters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) start: usize,
    pub(crate) most: usize,
}

/// What a content type is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    /// JSON, XML and whatever else is text: as it is.
    Text,
    /// What the bytes look like.
    Unknown,
    Binary,
}

/// Makes a page of a response.
pub(crate) fn read(url: &str, response: &Response, part: Part) -> Result<Page, Failure> {
    let stated = response.header("content-type").unwrap_or_default();
    let content_type = stated.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let mut page = Page { status: response.status, content_type, ..Page::default() };
    if (300..400).contains(&response.status)
        && let Some(location) = response.header("location")
    {
        page.redirect = Some(resolve(url, &location).unwrap_or(location));
        return Ok(page);
    }
    let form = form_of(&page.content_type);
    if form == Form::Binary && !response.body.is_empty() {
        return Err(refuse_binary(&page.content_type, response));
    }
    let text = charset::decode(&response.body, &stated).map_err(|charset| {
        let message = format!("the page is written in `{charset}`, which this tool cannot read: it reads UTF-8, UTF-16, ISO 8859-1, \
                               ISO 8859-15 and windows-1252");
        Failure::new("unsupported", message)
    })?;
    if is_binary(&text) {
        return Err(refuse_binary(&page.content_type, response));
    }
    let is_html = form == Form::Html || (form == Form::Unknown && looks_like_html(&text));
    let (text, links) = if is_html {
        let readable = html::read(url, &text);
        page.title = readable.title;
        (readable.text, readable.links)
    } else {
        (text, Vec::new())
    };
    page.show(&text, &links, part, response.truncated);
    Ok(page)
}

impl Page {
    fn show(&mut self, text: &str, links: &[String], part: Part, is_cut: bool) {
        self.text = text.chars().skip(part.start).take(part.most).collect();
        let shown = self.text.chars().count();
        let end = part.start + shown;
        let has_more = text.chars().nth(end).is_some();
        self.truncated = has_more || is_cut;
        self.next_start = has_more.then_some(end);
        self.links = (1_usize..)
            .zip(links)
            .filter(|(number, _)| self.text.contains(&format!("[{number}]")))
            .map(|(number, link)| (number, link.clone()))
            .collect();
    }
}

fn form_of(content_type: &str) -> Form {
    let (kind, form) = content_type.split_once('/').unwrap_or((content_type, ""));
    match (kind, form) {
        ("text", "html") | ("application", "xhtml+xml") => Form::Html,
        ("text", _) => Form::Text,
        (
            "application",
            "json" | "xml" | "javascript" | "x-javascript" | "ecmascript" | "yaml" | "x-yaml" | "toml",
        ) => Form::Text,
        ("application", form)
            if ["json", "+json", "+xml", "+yaml", "graphql", "sql", "x-sh"]
                .iter()
                .any(|end| form.ends_with(end)) =>
        {
            Form::Text
        }
        ("application", "pdf" | "zip" | "gzip" | "x-tar" | "x-7z-compressed" | "wasm" | "msword") => {
            Form::Binary
        }
        ("application", form) if form.starts_with("vnd.") => Form::Binary,
        ("image", "svg+xml") => Form::Text,
        ("image" | "audio" | "video" | "font" | "model", _) => Form::Binary,
        _ => Form::Unknown,
    }
}

fn refuse_binary(content_type: &str, response: &Response) -> Failure {
    let kind = if content_type.is_empty() { "binary data" } else { content_type };
    let at_least = if response.truncated { "at least " } else { "" };
    let kilobytes = response.body.len().div_ceil(1024);
    let status = response.status;
    let message = format!(
        "there is {kind} at this URL ({at_least}{kilobytes} KiB, HTTP {status}), and this tool reads text only: HTML, JSON, XML and \
         plain text"
    );
    Failure::new("unsupported", message)
}

/// Control characters that no text has.
fn is_binary(text: &str) -> bool {
    text.chars().take(LOOKED_AT).any(|one| matches!(one, '\0'..='\x08' | '\x0e'..='\x1a' | '\x1c'..='\x1f'))
}

fn looks_like_html(text: &str) -> bool {
    let beginning: String = text.trim_start().chars().take(100).collect::<String>().to_ascii_lowercase();
    ["<!doctype html", "<html", "<head", "<body"].iter().any(|tag| beginning.starts_with(tag))
}

#[cfg(test)]
mod tests {
    use agent_tool_sdk::http::Response;

    use super::{Part, read};

    const ALL: Part = Part { start: 0, most: 1000 };

    fn response(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Response { status, headers, body: body.to_vec(), truncated: false }
    }

    fn shown(content_type: &str, body: &[u8], part: Part) -> String {
        let headers = [("content-type", content_type)];
        let page = read("https://example.org/a", &response(200, &headers, body), part).unwrap();
        serde_json::to_string(&page).unwrap()
    }

    #[test]
    fn pages_are_shown_by_their_content_type() {
        for (content_type, body, page) in [
            (
                "text/html; charset=utf-8",
                "<title>T</title><p>See <a href=b>this</a>",
                r#"{"status":200,"content_type":"text/html","title":"T","text":"See this [1]","links":{"1":"https://example.org/b"},"truncated":false}"#,
            ),
            (
                "Application/JSON",
                "{\"a\": [1]}",
                r#"{"status":200,"content_type":"application/json","text":"{\"a\": [1]}","truncated":false}"#,
            ),
            (
                "application/rss+xml",
                "<a>x</a>",
                r#"{"status":200,"content_type":"application/rss+xml","text":"<a>x</a>","truncated":false}"#,
            ),
            (
                "",
                "<!DOCTYPE html><b>x</b>",
                r#"{"status":200,"content_type":"","text":"x","truncated":false}"#,
            ),
            (
                "application/octet-stream",
                "a\tb\n",
                r#"{"status":200,"content_type":"application/octet-stream","text":"a\tb\n","truncated":false}"#,
            ),
            ("image/png", "", r#"{"status":200,"content_type":"image/png","text":"","truncated":false}"#),
        ] {
            assert_eq!(shown(content_type, body.as_bytes(), ALL), page, "{content_type}");
        }
    }

    #[test]
    fn long_pages_are_read_in_parts() {
        let body = "<a href=x>ab</a> <a href=y>é</a>".as_bytes();
        assert_eq!(
            shown("text/html", body, Part { start: 0, most: 7 }),
            r#"{"status":200,"content_type":"text/html","text":"ab [1] ","links":{"1":"https://example.org/x"},"truncated":true,"next_start":7}"#
        );
        assert_eq!(
            shown("text/html", body, Part { start: 7, most: 7 }),
            r#"{"status":200,"content_type":"text/html","text":"é [2]","links":{"2":"https://example.org/y"},"truncated":false}"#
        );
        assert!(
            shown("text/html", body, Part { start: 99, most: 7 }).contains(r#""text":"","truncated":false"#)
        );
    }

    #[test]
    fn a_redirect_says_where_to_ask() {
        let redirect = response(302, &[("location", "../b?c"), ("content-type", "text/html")], b"<p>Moved");
        let page = read("https://example.org/x/a", &redirect, ALL).unwrap();
        assert_eq!(page.redirect.as_deref(), Some("https://example.org/b?c"));
        assert_eq!((page.status, page.text.as_str()), (302, ""));
    }

    #[test]
    fn what_is_no_text_is_refused_by_name() {
        for (content_type, body, reason) in [
            (
                "image/png",
                &b"\x89PNG"[..],
                "there is image/png at this URL (1 KiB, HTTP 200), and this tool reads text only",
            ),
            ("application/pdf", b"%PDF", "there is application/pdf at this URL"),
            ("text/html", b"a\0b", "there is text/html at this URL"),
            ("", b"\x7fELF\x02\x01", "there is binary data at this URL"),
            ("text/html; charset=big5", b"x", "the page is written in `big5`, which this tool cannot read"),
        ] {
            let headers = [("content-type", content_type)];
            let refusal = read("https://example.org/", &response(200, &headers, body), ALL).unwrap_err();
            assert!(refusal.code == "unsupported" && refusal.message.starts_with(reason), "{refusal:?}");
        }
    }
}
