//! `[[component.http]]`: requests that are allowed.

use std::collections::BTreeSet;

use super::reader::{Reader, Refused, Section, Table};
use crate::model::host::HostPattern;
use crate::model::path::PathPrefix;
use crate::model::{HttpRule, Scheme, default_methods};
use crate::text::brief;

const KEYS: [&str; 6] = ["scheme", "host", "port", "methods", "path", "private"];

/// Methods that a misspelt one is compared with. Others are allowed too.
const USUAL_METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

pub(super) const HOST: &str = "a name (\"api.example.org\"), an address (\"192.0.2.1\", \"[2001:db8::1]\"), \
     every name below one (\"*.example.org\") or every public host (\"*\")";
const METHOD: &str = "methods in upper case, such as \"GET\"";
const PATH: &str = "a path of whole segments that begins with a slash, such as \"/search\"";

const WILDCARD: &str =
    "a path is no pattern: \"/search\" is everything below it too, so leave out the asterisks";

/// Most lines of one component: every request is compared with them.
const MOST_LINES: usize = 200;

pub(super) fn read_all(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> BTreeSet<HttpRule> {
    let lines = section.tables(reader, "http", "[[component.http]]", MOST_LINES);
    lines.into_iter().filter_map(|table| read(reader, table)).collect()
}

fn read(reader: &mut Reader<'_>, table: Table<'_, '_>) -> Option<HttpRule> {
    let section = Section::open(reader, table, "in http", &KEYS);
    let host = read_host(reader, &section);
    let scheme = read_scheme(reader, &section);
    let port = section.number(reader, "port", 1..=u16::MAX.into()).and_then(|port| u16::try_from(port).ok());
    let methods = read_methods(reader, &section);
    let path = read_path(reader, &section);
    let private = section.flag(reader, "private").unwrap_or(false);
    if private && host == Some(HostPattern::Any) {
        reader.report(
            section.at("private"),
            "private = true for the host \"*\", which is every public host",
            "allowed: private = true for hosts that are named",
        );
    }
    let scheme = scheme.unwrap_or(Scheme::Https);
    let port = port.unwrap_or(scheme.default_port());
    Some(HttpRule { host: host?, scheme, port, path, methods, private })
}

fn read_host(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> Option<HostPattern> {
    if !section.has("host") {
        reader.report_missing(section.at, "http has no host", format!("add: host = \"…\", {HOST}"));
    }
    let word = section.text(reader, "host")?;
    match HostPattern::parse(word.text) {
        Ok(host) => Some(host),
        Err(fault) => {
            section.refuse_because(reader, word, &Refused { key: "host", why: &fault, allowed: HOST });
            None
        }
    }
}

fn read_scheme(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> Option<Scheme> {
    let word = section.text(reader, "scheme")?;
    let scheme = Scheme::ALL.into_iter().find(|scheme| scheme.as_str() == word.text);
    if scheme.is_none() {
        let found = format!("unknown scheme {}", brief(word.text));
        reader.report_unknown(word.at, found, word.text, &Scheme::ALL.map(Scheme::as_str));
    }
    scheme
}

fn read_methods(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> BTreeSet<String> {
    let Some(words) = section.list(reader, "methods") else { return default_methods() };
    for word in &words {
        let method = word.text;
        let is_plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        match method {
            "CONNECT" | "TRACE" => reader.report(
                word.at,
                format!(
                    "methods: found {method:?}, which {}",
                    if method == "TRACE" { "sends secrets back" } else { "opens a tunnel" }
                ),
                format!("allowed: {METHOD}, but neither CONNECT nor TRACE"),
            ),
            _ if (1..=32).contains(&method.len()) && method.bytes().all(is_plain) => {}
            _ if method.len() <= 32 && USUAL_METHODS.contains(&method.to_ascii_uppercase().as_str()) => {
                let found = format!("unknown method {}", brief(method));
                reader.report_unknown(word.at, found, method, &USUAL_METHODS);
            }
            _ => section.refuse_text(reader, "methods", *word, METHOD),
        }
    }
    words.into_iter().map(|word| word.text.to_owned()).collect()
}

fn read_path(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> PathPrefix {
    let Some(word) = section.text(reader, "path") else { return PathPrefix::root() };
    // Taken literally it would grant nothing that anybody asks for.
    let is_wildcard = |segment: &str| !segment.is_empty() && segment.bytes().all(|byte| byte == b'*');
    if word.text.split('/').any(is_wildcard) {
        section.refuse_because(reader, word, &Refused { key: "path", why: &WILDCARD, allowed: PATH });
    }
    PathPrefix::parse(word.text).unwrap_or_else(|fault| {
        section.refuse_because(reader, word, &Refused { key: "path", why: &fault, allowed: PATH });
        PathPrefix::root()
    })
}
