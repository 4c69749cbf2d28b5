//! `[[component.secret]]`: what the host adds to requests, and to which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use agent_core::words::is_component_name;

use super::http::HOST;
use super::reader::{Reader, Refused, Section, Word};
use crate::model::host::HostPattern;
use crate::model::{HttpRule, Placement, Scheme, SecretRule, SecretSource};

pub(super) const VARIABLE: &str =
    "the name of an environment variable: A-Z, a-z, 0-9 and '_', no digit first";

/// Keys of a secret of an MCP server: it is sent to that server and to nobody else.
const SERVER_KEYS: [&str; 7] = ["name", "env", "file", "header", "query", "basic", "prefix"];
const CHILD_KEYS: [&str; 4] = ["name", "env", "file", "variable"];

const KEYS: [&str; 8] = ["name", "env", "file", "header", "query", "basic", "prefix", "hosts"];
const SOURCES: [&str; 2] = ["env", "file"];
const PLACES: [&str; 3] = ["header", "query", "basic"];

/// Headers that belong to the connection or that the host writes itself (RFC 9110, 7.6.1).
const OWNED_HEADERS: [&str; 14] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const NAME: &str = "1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', not beginning with '.'";
const HEADER: &str = "a header's name, such as \"Authorization\"";

const MOST_SECRETS: usize = 50;

/// The secrets by name. `granted` is absent when it is not known.
pub(super) fn read_all(
    reader: &mut Reader<'_>,
    section: &Section<'_, '_>,
    granted: Option<&BTreeSet<HttpRule>>,
) -> BTreeMap<String, SecretRule> {
    let tables = section.tables(reader, "secret", "[[component.secret]]", MOST_SECRETS);
    let mut secrets: BTreeMap<String, SecretRule> = BTreeMap::new();
    for table in tables {
        let shown = Section::open(reader, table, "in secret", &KEYS);
        // What is a secret's name or place might be the secret by mistake.
        let section = shown.hidden();
        let name = shown.name(reader, "secret", NAME, is_secret_name);
        let source = read_source(reader, &section);
        let placement = read_placement(reader, &section);
        let hosts = read_hosts(reader, &shown, granted);
        let (Some(name), Some(source), Some(placement)) = (name, source, placement) else { continue };
        if secrets.contains_key(name) {
            reader.report(
                section.at("name"),
                format!("the secret {name:?} is there twice"),
                "name each once",
            );
            continue;
        }
        let rule = SecretRule { source, placement, hosts };
        if let Some((other, _)) = secrets.iter().find(|(_, other)| collide(other, &rule)) {
            reader.report(
                section.at,
                format!("the secrets {other:?} and {name:?} have one place in requests to the same host"),
                "give each another place or other hosts",
            );
        }
        secrets.insert(name.to_owned(), rule);
    }
    secrets
}

/// Whether some request would have both in one place.
fn collide(one: &SecretRule, other: &SecretRule) -> bool {
    let share = |a: &HostPattern| other.hosts.iter().any(|b| a.covers(b) || b.covers(a));
    place(one) == place(other) && one.hosts.iter().any(share)
}

fn place(rule: &SecretRule) -> String {
    match &rule.placement {
        Placement::Header { name, .. } => format!("header {name}"),
        Placement::Basic { .. } => "header authorization".to_owned(),
        Placement::Query(key) => format!("query {key}"),
        Placement::Variable(name) => format!("variable {name}"),
    }
}

/// The one key of `keys` that is there.
fn only<'k>(
    reader: &mut Reader<'_>,
    section: &Section<'_, '_>,
    keys: &[&'k str],
    found: &str,
    remedy: &str,
) -> Option<&'k str> {
    let present: Vec<_> = keys.iter().copied().filter(|key| section.has(key)).collect();
    match present.as_slice() {
        [] => {
            reader.report_missing(section.at, format!("the secret has no {found}"), format!("add: {remedy}"))
        }
        [only] => return Some(only),
        several => {
            let found = format!("the secret has {} for its {found}", several.join(" and "));
            reader.report(section.at, found, format!("allowed: one of {}", keys.join(", ")));
        }
    }
    None
}

/// The secrets of an MCP server. With a host they are added to requests to it, without one they are
/// environment variables of a child process.
pub(super) fn read_of_server(
    reader: &mut Reader<'_>,
    section: &Section<'_, '_>,
    host: Option<&HostPattern>,
) -> BTreeMap<String, SecretRule> {
    let tables = section.tables(reader, "secret", "[[mcp.secret]]", MOST_SECRETS);
    let keys: &[&str] = if host.is_some() { &SERVER_KEYS } else { &CHILD_KEYS };
    let mut secrets: BTreeMap<String, SecretRule> = BTreeMap::new();
    for table in tables {
        let shown = Section::open(reader, table, "in secret", keys);
        let section = shown.hidden();
        let name = shown.name(reader, "secret", NAME, is_secret_name);
        let source = read_source(reader, &section);
        let placement = match host {
            Some(_) => read_placement(reader, &section),
            None => read_variable(reader, &section),
        };
        let (Some(name), Some(source), Some(placement)) = (name, source, placement) else { continue };
        let rule = SecretRule { source, placement, hosts: host.cloned().into_iter().collect() };
        let has_place = secrets.values().any(|other| place(other) == place(&rule));
        if has_place || secrets.contains_key(name) {
            let found = format!("the secret {name:?} or its place is there twice");
            reader.report(section.at, found, "give each another name and another place");
        }
        secrets.insert(name.to_owned(), rule);
    }
    secrets
}

fn read_variable(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> Option<Placement> {
    if !section.has("variable") {
        reader.report_missing(
            section.at,
            "the secret has no variable",
            "add: variable = \"…\", the environment variable of the child process that is to hold it",
        );
    }
    let word = section.text(reader, "variable")?;
    if !is_variable(word.text) {
        section.refuse_text(reader, "variable", word, VARIABLE);
        return None;
    }
    Some(Placement::Variable(word.text.to_owned()))
}

/// Whether an environment variable can have this name.
pub(super) fn is_variable(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_plain) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

fn read_source(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> Option<SecretSource> {
    let remedy = "env = \"…\" (an environment variable) or file = \"…\" (a file, or a folder with a \
                  file of the secret's name)";
    let key = only(reader, section, &SOURCES, "source", remedy)?;
    let word = section.text(reader, key)?;
    if key == "file" {
        if word.text.is_empty() || word.text.contains('\0') {
            section.refuse_text(reader, "file", word, "the path of a file or a folder");
            return None;
        }
        return Some(SecretSource::File(PathBuf::from(word.text)));
    }
    if !is_variable(word.text) {
        section.refuse_text(reader, "env", word, "the name of an environment variable, never its value");
        return None;
    }
    Some(SecretSource::Env(word.text.to_owned()))
}

fn read_placement(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> Option<Placement> {
    let remedy = "header = \"…\", query = \"…\" (a parameter) or basic = \"…\" (a user)";
    let key = only(reader, section, &PLACES, "place in a request", remedy)?;
    if section.has("prefix") && key != "header" {
        reader.report(section.at("prefix"), format!("prefix beside {key}"), "allowed: prefix beside header");
    }
    let word = section.text(reader, key)?;
    match key {
        "header" => read_header(reader, section, word),
        "query" if word.text.is_empty() || word.text.chars().any(char::is_control) => {
            section.refuse_text(reader, "query", word, "the name of a parameter");
            None
        }
        "query" => Some(Placement::Query(word.text.to_owned())),
        // The first colon ends the user (RFC 7617, 2).
        _ if word.text.contains(':') || word.text.chars().any(char::is_control) => {
            section.refuse_text(reader, "basic", word, "a user's name without a colon");
            None
        }
        _ => Some(Placement::Basic { user: word.text.to_owned() }),
    }
}

fn read_header(reader: &mut Reader<'_>, section: &Section<'_, '_>, word: Word<'_>) -> Option<Placement> {
    let name = word.text.to_ascii_lowercase();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !(1..=128).contains(&name.len()) || !name.bytes().all(is_token) {
        section.refuse_text(reader, "header", word, HEADER);
        return None;
    }
    if OWNED_HEADERS.contains(&name.as_str()) {
        reader.report(
            word.at,
            format!("header: the host itself writes {name:?}"),
            format!("allowed: {HEADER}, but none of {}", OWNED_HEADERS.join(", ")),
        );
        return None;
    }
    let mut prefix = "";
    if let Some(word) = section.text(reader, "prefix") {
        let is_value = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        if word.text.bytes().all(is_value) {
            prefix = word.text;
        } else {
            section.refuse_text(reader, "prefix", word, "printable ASCII");
        }
    }
    Some(Placement::Header { name, prefix: prefix.to_owned() })
}

fn read_hosts(
    reader: &mut Reader<'_>,
    section: &Section<'_, '_>,
    granted: Option<&BTreeSet<HttpRule>>,
) -> BTreeSet<HostPattern> {
    if !section.has("hosts") {
        reader.report_missing(
            section.at,
            "the secret has no hosts",
            "add: hosts = [\"…\"], the hosts of http lines that it is sent to",
        );
    }
    let mut hosts = BTreeSet::new();
    for word in section.list(reader, "hosts").unwrap_or_default() {
        match HostPattern::parse(word.text) {
            Ok(HostPattern::Any) => reader.report(
                word.at,
                "hosts: found \"*\", so that every host would be sent the secret",
                "allowed: hosts by their names, or below a name",
            ),
            Ok(host) => {
                let is_granted = |rule: &HttpRule| rule.host != HostPattern::Any && rule.host.covers(&host);
                if !granted.is_none_or(|granted| granted.iter().any(is_granted)) {
                    reader.report_missing(
                        word.at,
                        format!("hosts: no http line of this component names {:?}", host.to_string()),
                        format!(
                            "add: a [[component.http]] with host = {:?} (https, unless the line says scheme = {:?})",
                            host.to_string(),
                            Scheme::Http.as_str(),
                        ),
                    );
                }
                hosts.insert(host);
            }
            Err(fault) => {
                section.refuse_because(reader, word, &Refused { key: "hosts", why: &fault, allowed: HOST })
            }
        }
    }
    hosts
}

/// Whether a secret can have this name: it may be that of a file, which is not to be hidden.
fn is_secret_name(name: &str) -> bool {
    is_component_name(name) && !name.starts_with('.')
}
