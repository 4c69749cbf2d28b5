//! An `[[mcp]]`: a server of the Model Context Protocol whose tools are served.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use url::{Host, Url};

use super::component::read_digests;
use super::reader::{Reader, Section, Table, Word};
use super::{approve, secret};
use crate::audience::Audience;
use crate::model::host::{self, HostPattern};
use crate::model::path::PathPrefix;
use crate::model::{Binding, CallLimits, ComponentPolicy, HttpRule, McpRule, McpTransport, Scheme};

const KEYS: [&str; 15] = [
    "name",
    "digest",
    "users",
    "tiers",
    "roles",
    "url",
    "plain-http",
    "private",
    "command",
    "args",
    "env",
    "allow",
    "limits",
    "secret",
    "approve",
];

const NAME: &str = "1 to 24 of a-z, 0-9, '_' and '-', a letter first";
const URL: &str = "an address without user, query and fragment, such as \"https://mcp.example.org/mcp\"";
const COMMAND: &str = "the absolute path of a program, such as \"/usr/bin/node\"";
const ALLOW: &str = "names of tools as the server has them: 1 to 128 of A-Z, a-z, 0-9, '_', '-', '.' and '/'";

/// Most tools of one server: what one component may have.
const MOST_TOOLS: usize = 64;

/// The bounds of the limits. The first two are those of components.
const BOUNDS: [(&str, RangeInclusive<u64>); 4] = [
    ("timeout-ms", 1..=3_600_000),
    ("output-bytes", 1..=1 << 20),
    ("memory-bytes", 16 << 20..=64 << 30),
    ("concurrency", 1..=64),
];

/// Bytes of all requests and responses of one call: a handshake, the call, and what the server says
/// meanwhile.
const HTTP_BYTES: u64 = 8 << 20;

/// Requests of one call: a handshake and the call in up to three attempts, an answer to each ping, which some
/// servers send every few seconds of a long call, and one for each time that a stream is resumed.
const HTTP_REQUESTS: u32 = 256;

/// The entry, unless something is missing without which there is none.
pub(super) fn read(reader: &mut Reader<'_>, table: Table<'_, '_>) -> Option<ComponentPolicy> {
    let section = Section::open(reader, table, "in an mcp", &KEYS);
    let name = section.name(reader, "mcp", NAME, is_server_name);
    let digests = read_digests(reader, &section);
    let audience = Audience {
        users: section.names(reader, "users"),
        tiers: section.names(reader, "tiers"),
        roles: section.names(reader, "roles"),
    };
    let reached = read_transport(reader, &section);
    let allow = read_allow(reader, &section);
    let (limits, concurrency) = read_limits(reader, &section);
    let approve = approve::read(reader, &section);
    // What a secret may say depends on how the server is reached.
    let (transport, rule) = reached?;
    let secrets = secret::read_of_server(reader, &section, rule.as_ref().map(|rule| &rule.host));
    let mut entry = ComponentPolicy::bare(name?, "");
    entry.binding = Binding { digests, signers: BTreeSet::new() };
    (entry.audience, entry.limits, entry.secrets) = (audience, limits, secrets);
    entry.approve = approve;
    entry.http = rule.into_iter().collect();
    entry.mcp = Some(McpRule { transport, allow, concurrency });
    Some(entry)
}

fn is_server_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    let begins = name.bytes().next().is_some_and(|first| first.is_ascii_lowercase());
    begins && name.len() <= 24 && name.bytes().all(is_plain)
}

/// How the server is reached, and the only requests that it may be sent.
fn read_transport(
    reader: &mut Reader<'_>,
    section: &Section<'_, '_>,
) -> Option<(McpTransport, Option<HttpRule>)> {
    let of = |keys: &[&'static str]| keys.iter().copied().filter(|key| section.has(key)).collect::<Vec<_>>();
    match (section.has("url"), section.has("command")) {
        (true, false) => {
            for key in of(&["args", "env"]) {
                reader.report(section.at(key), format!("{key} beside url"), "allowed: beside command");
            }
            let (url, rule) = read_url(reader, section)?;
            Some((McpTransport::Http { url }, Some(rule)))
        }
        (false, true) => {
            for key in of(&["plain-http", "private"]) {
                reader.report(section.at(key), format!("{key} beside command"), "allowed: beside url");
            }
            Some((read_command(reader, section)?, None))
        }
        (true, true) => {
            let found = "the mcp has an url and a command";
            reader.report(section.at("command"), found, "allowed: one of them");
            None
        }
        (false, false) => {
            let found = "the mcp has neither url nor command";
            reader.report_missing(section.at, found, "add: url = \"https://…\" or command = \"/…\"");
            None
        }
    }
}

fn read_url(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> Option<(String, HttpRule)> {
    let plain = section.flag(reader, "plain-http").unwrap_or(false);
    let private = section.flag(reader, "private").unwrap_or(false);
    let word = section.text(reader, "url")?;
    let url = Url::parse(word.text).ok().filter(|url| {
        let is_bare = url.username().is_empty() && url.password().is_none();
        is_bare && url.query().is_none() && url.fragment().is_none()
    });
    let scheme = url.as_ref().and_then(|url| Scheme::parse(url.scheme()));
    let host = url.as_ref().and_then(Url::host).and_then(|host| canonical(&host));
    let path = url.as_ref().and_then(path_of);
    let (Some(url), Some(scheme), Some(host), Some(path)) = (url, scheme, host, path) else {
        section.refuse_text(reader, "url", word, URL);
        return None;
    };
    if scheme == Scheme::Http && !plain {
        reader.report(
            word.at,
            "url: found an address over http, where anybody on the way reads and changes what is said",
            "allowed: https, or add plain-http = true",
        );
        return None;
    }
    let port = url.port().unwrap_or(scheme.default_port());
    // A message is a POST, the end of a session a DELETE. A GET resumes a stream of events.
    let methods = ["DELETE", "GET", "POST"].map(str::to_owned).into();
    let rule = HttpRule { host: HostPattern::Exact(host), scheme, port, path, methods, private };
    Some((url.to_string(), rule))
}

/// A slash at the end belongs to the address; what may be requested is the same with and without.
fn path_of(url: &Url) -> Option<PathPrefix> {
    match url.path().trim_end_matches('/') {
        "" => Some(PathPrefix::root()),
        path => PathPrefix::parse(path).ok(),
    }
}

/// In the form in which rules compare hosts.
fn canonical(host: &Host<&str>) -> Option<Host> {
    host::parse(&host.to_string()).ok()
}

fn read_command(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> Option<McpTransport> {
    let word = section.text(reader, "command")?;
    if !word.text.starts_with('/') || word.text.contains('\0') {
        section.refuse_text(reader, "command", word, COMMAND);
        return None;
    }
    let refuse_nul = |reader: &mut Reader<'_>, key: &str, word: Word<'_>| {
        if word.text.contains('\0') {
            section.refuse_text(reader, key, word, "texts without NUL");
        }
        word.text.to_owned()
    };
    let words = section.list(reader, "args").unwrap_or_default();
    let arguments = words.into_iter().map(|word| refuse_nul(reader, "args", word)).collect();
    let mut environment = BTreeMap::new();
    if let Some(table) = section.table(reader, "env", "a table, { NAME = \"…\" }") {
        // Somebody may write a secret there.
        let values = Section::open_map(table).hidden();
        for (key, value) in values.entries() {
            if !secret::is_variable(key.text) {
                reader.report(
                    key.at,
                    "env: found a key that is no variable",
                    format!("allowed: {}", secret::VARIABLE),
                );
            } else if let Some(word) = values.read_text(reader, &format!("env.{}", key.text), value) {
                environment.insert(key.text.to_owned(), refuse_nul(reader, "env", word));
            }
        }
    }
    Some(McpTransport::Command { program: word.text.to_owned(), arguments, environment })
}

fn read_allow(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> BTreeSet<String> {
    if !section.has("allow") {
        let remedy = format!("add: allow = [\"…\"], {ALLOW}");
        reader.report_missing(section.at, "the mcp allows no tool", remedy);
    }
    let words = section.list(reader, "allow").unwrap_or_default();
    if words.len() > MOST_TOOLS {
        let found = format!("allow: found {} tools", words.len());
        reader.report(section.at("allow"), found, format!("allowed: up to {MOST_TOOLS}"));
    }
    for word in &words {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
        if !(1..=128).contains(&word.text.len()) || !word.text.bytes().all(is_plain) {
            section.refuse_text(reader, "allow", *word, ALLOW);
        }
    }
    words.into_iter().map(|word| word.text.to_owned()).collect()
}

fn read_limits(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> (CallLimits, Option<u32>) {
    let mut limits = CallLimits { http_bytes: HTTP_BYTES, requests: HTTP_REQUESTS, ..CallLimits::default() };
    let written = "a table, { timeout-ms = 5000 }";
    let Some(table) = section.table(reader, "limits", written) else { return (limits, None) };
    let table = Section::open(reader, table, "in limits", &BOUNDS.map(|(key, _)| key));
    let [timeout_ms, output_bytes, memory_bytes, concurrency] =
        BOUNDS.map(|(key, bounds)| table.number(reader, key, bounds));
    (limits.timeout_ms, limits.output_bytes, limits.memory_bytes) = (timeout_ms, output_bytes, memory_bytes);
    (limits, concurrency.and_then(|number| u32::try_from(number).ok()))
}
