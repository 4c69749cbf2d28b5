//! A `[[component]]`: which files are meant, who may use them, and what belongs to them.

use std::collections::{BTreeMap, BTreeSet};

use agent_core::words::{is_component_name, is_tool_name};

use super::reader::{Reader, Section, Table};
use super::{approve, http, limits, secret};
use crate::audience::Audience;
use crate::model::{Binding, ComponentPolicy, DEFAULT_KEY_VALUE_BYTES, KeyValueRule, Scope};
use crate::signature::SignerKey;
use crate::text::brief;

const KEYS: [&str; 15] = [
    "name",
    "digest",
    "signer",
    "users",
    "tiers",
    "roles",
    "toolbox",
    "ask",
    "config",
    "rename",
    "limits",
    "key-value",
    "http",
    "secret",
    "approve",
];

const KEY_VALUE_KEYS: [&str; 2] = ["scope", "bytes"];

const NAME: &str = "the file's name without .wasm: 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'";
const DIGEST: &str = "\"sha256:\" and 64 hex digits, as `sha256sum` prints them, or a list of these";
const SIGNER: &str = "\"ed25519:\" and 64 hex digits, as `agent-tool sign` prints them, or a list of these";

/// Most `config` values of a component.
const MOST_CONFIG: usize = 100;

/// Most tools of a component, and what their names are made of.
const MOST_RENAMED: usize = 64;
const TOOL: &str = "names of tools: a letter a-z and then up to 62 of a-z, 0-9 and '_'";

/// Most bytes that may be kept.
const MOST_KEY_VALUE_BYTES: u64 = 1 << 30;

/// The entry, unless something is missing without which there is none.
pub(super) fn read(reader: &mut Reader<'_>, table: Table<'_, '_>) -> Option<ComponentPolicy> {
    let section = Section::open(reader, table, "in a component", &KEYS);
    let name = section.name(reader, "component", NAME, is_component_name);
    let binding = read_binding(reader, &section, name);
    let audience = Audience {
        users: section.names(reader, "users"),
        tiers: section.names(reader, "tiers"),
        roles: section.names(reader, "roles"),
    };
    let toolbox = section.flag(reader, "toolbox").unwrap_or(false);
    let ask = section.flag(reader, "ask").unwrap_or(false);
    let config = read_config(reader, &section);
    let rename = read_rename(reader, &section);
    let limits = limits::read(reader, &section);
    let key_value = read_key_value(reader, &section);
    let approve = approve::read(reader, &section);
    let before = reader.count();
    let http = http::read_all(reader, &section);
    // Whether the hosts of secrets are granted cannot be said when lines are wrong.
    let granted = (reader.count() == before).then_some(&http);
    let secrets = secret::read_all(reader, &section, granted);
    Some(ComponentPolicy {
        name: name?.to_owned(),
        binding: binding?,
        audience,
        toolbox,
        ask,
        config,
        rename,
        limits,
        key_value,
        http,
        secrets,
        approve,
        mcp: None,
    })
}

fn read_binding(reader: &mut Reader<'_>, section: &Section<'_, '_>, name: Option<&str>) -> Option<Binding> {
    if !section.has("digest") && !section.has("signer") {
        let (whose, file) = match name {
            Some(name) => (format!("the component {name:?}"), format!("{name}.wasm")),
            None => ("the component".to_owned(), "<its name>.wasm".to_owned()),
        };
        reader.report_missing(
            section.at,
            format!(
                "{whose} has neither digest nor signer, so every file of its name would have these grants"
            ),
            format!(
                "add: digest = \"sha256:…\" with what `sha256sum {file}` prints, or signer = \"ed25519:…\""
            ),
        );
        return None;
    }
    let mut binding = Binding { digests: read_digests(reader, section), ..Binding::default() };
    for word in section.one_or_more(reader, "signer").unwrap_or_default() {
        match SignerKey::parse(word.text) {
            Some(key) => _ = binding.signers.insert(key),
            None => section.refuse_text(reader, "signer", word, SIGNER),
        }
    }
    let is_whole = section.has("digest") != binding.digests.is_empty()
        && section.has("signer") != binding.signers.is_empty();
    is_whole.then_some(binding)
}

pub(super) fn read_digests(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> BTreeSet<String> {
    let mut digests = BTreeSet::new();
    for word in section.one_or_more(reader, "digest").unwrap_or_default() {
        match parse_digest(word.text) {
            Some(digest) => _ = digests.insert(digest),
            None => section.refuse_text(reader, "digest", word, DIGEST),
        }
    }
    digests
}

/// In the form in which the host writes digests.
fn parse_digest(text: &str) -> Option<String> {
    let digits = text.strip_prefix("sha256:")?;
    let is_digest = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_digest.then(|| format!("sha256:{}", digits.to_ascii_lowercase()))
}

fn read_config(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> BTreeMap<String, String> {
    let Some(table) = section.table(reader, "config", "a table, { key = \"…\" }") else {
        return BTreeMap::new();
    };
    if table.keys.len() > MOST_CONFIG {
        reader.report(
            table.at,
            format!("config: found {} keys", table.keys.len()),
            format!("allowed: up to {MOST_CONFIG}"),
        );
        return BTreeMap::new();
    }
    // The values are the component's business, and may be what belongs into a secret.
    let values = Section::open_map(table).hidden();
    let mut config = BTreeMap::new();
    for (key, value) in values.entries() {
        if key.text.is_empty() || key.text.len() > 128 {
            reader.report(
                key.at,
                "config: found a key of no or many bytes",
                "allowed: keys of 1 to 128 bytes",
            );
        } else if let Some(word) =
            values.read_text(reader, &format!("config.{}", key.text.escape_debug()), value)
        {
            config.insert(key.text.to_owned(), word.text.to_owned());
        }
    }
    config
}

/// Reads the other names of tools. That the component has the tools is found out when it is loaded.
fn read_rename(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> BTreeMap<String, String> {
    let written = "a table of names, { old = \"new\" }";
    let Some(table) = section.table(reader, "rename", written) else { return BTreeMap::new() };
    if table.keys.len() > MOST_RENAMED {
        let found = format!("rename: found {} names", table.keys.len());
        reader.report(table.at, found, format!("allowed: up to {MOST_RENAMED}"));
        return BTreeMap::new();
    }
    let names = Section::open_map(table);
    let mut rename = BTreeMap::new();
    for (old, value) in names.entries() {
        let key = format!("rename.{}", old.text.escape_debug());
        let Some(new) = names.read_text(reader, &key, value) else { continue };
        for word in [old, new].into_iter().filter(|word| !is_tool_name(word.text)) {
            names.refuse_text(reader, "rename", word, TOOL);
        }
        if rename.values().any(|other| other == new.text) {
            let found = format!("rename: two tools would be {}", brief(new.text));
            reader.report(new.at, found, "allowed: another name for each");
        }
        rename.insert(old.text.to_owned(), new.text.to_owned());
    }
    rename
}

fn read_key_value(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> Option<KeyValueRule> {
    let written = "a table, { scope = \"component\" or \"user\", bytes = … }";
    let table = section.table(reader, "key-value", written)?;
    let section = Section::open(reader, table, "in key-value", &KEY_VALUE_KEYS);
    let words = Scope::ALL.map(Scope::as_str);
    let mut scope = Scope::Component;
    match section.text(reader, "scope") {
        Some(word) => match Scope::ALL.into_iter().find(|scope| scope.as_str() == word.text) {
            Some(found) => scope = found,
            None => {
                _ = reader.report_unknown(
                    word.at,
                    format!("unknown scope {}", brief(word.text)),
                    word.text,
                    &words,
                )
            }
        },
        // Whether users share what is kept is nothing to be guessed.
        None if !section.has("scope") => reader.report_missing(
            section.at,
            "key-value has no scope",
            "add: scope = \"user\" (each user has their own) or \"component\" (all callers share it)",
        ),
        None => {}
    }
    let bytes = section.number(reader, "bytes", 1..=MOST_KEY_VALUE_BYTES).unwrap_or(DEFAULT_KEY_VALUE_BYTES);
    Some(KeyValueRule { scope, bytes })
}
