//! The policy file: its text becomes a [`Policy`], or everything that is wrong with it at once.
//!
//! One file per kind of line declares its keys and reads them: `component`, `mcp_servers`, `limits`, `http`,
//! `secret`. `name`: what they may be called. `reader` takes values out of tables and collects problems,
//! `problem` is how they are said. Nothing is guessed and no key is skipped: a word that is misspelt would
//! otherwise be a grant that somebody believes in.
//!
//! What does not belong here: reading the file, and the values of secrets.

mod approve;
mod component;
mod http;
mod limits;
mod mcp_servers;
mod problem;
mod reader;
mod secret;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::DeTable;

use super::entries::Policy;
use super::model::ComponentPolicy;

pub use problem::Problems;

use reader::{Reader, Section, Table};

pub const MOST_BYTES: usize = 1 << 20;

/// Most components that a policy names.
const MOST_COMPONENTS: usize = 1000;

/// Most syntax errors that are said. A file that is something else has one in every line.
const MOST_SYNTAX_ERRORS: usize = 100;

/// Most bytes of a text of which all syntax errors are said; of longer ones the first. The parser takes some
/// 300 bytes of memory for each, and each byte can be one.
const MOST_BYTES_RECOVERED: usize = 64 << 10;

/// Most MCP servers that a policy names: each is asked for its tools again and again.
const MOST_SERVERS: usize = 32;

/// The keys at the top.
const KEYS: [&str; 3] = ["component", "mcp", "rollback-on-traps"];

pub fn parse(text: &str) -> Result<Policy, Problems> {
    let mut reader = Reader::new(text);
    if text.len() > MOST_BYTES {
        reader.report(0, format!("found {} bytes", text.len()), format!("allowed: up to {MOST_BYTES} bytes"));
        return reader.finish(Policy::empty());
    }
    let (document, errors) = match DeTable::parse(text) {
        Ok(document) => (document, vec![]),
        Err(_) if text.len() <= MOST_BYTES_RECOVERED => DeTable::parse_recoverable(text),
        Err(first) => (Spanned::new(0..0, DeTable::new()), vec![first]),
    };
    for error in errors.iter().take(MOST_SYNTAX_ERRORS) {
        reader.report_broken(error.span().map_or(0, |span| span.start), error.message());
    }
    let top = Section::open(&mut reader, Table { keys: document.get_ref(), at: 0 }, "in the file", &KEYS);
    let rolls_back_on_traps = top.flag(&mut reader, "rollback-on-traps").unwrap_or(true);
    let tables = top.tables(&mut reader, "component", "[[component]]", MOST_COMPONENTS);
    let mut entries = Vec::with_capacity(tables.len());
    for table in tables {
        if let Some(entry) = component::read(&mut reader, table) {
            entries.push((table.at, entry));
        }
    }
    for table in top.tables(&mut reader, "mcp", "[[mcp]]", MOST_SERVERS) {
        if let Some(entry) = mcp_servers::read(&mut reader, table) {
            entries.push((table.at, entry));
        }
    }
    check_bindings(&mut reader, &entries);
    check_servers(&mut reader, &entries);
    reader.finish(entries).map(|entries| {
        Policy::new(entries.into_iter().map(|(_, entry)| entry)).with_rollback_on_traps(rolls_back_on_traps)
    })
}

/// Refuses entries of which one component could have either.
fn check_bindings(reader: &mut Reader<'_>, entries: &[(usize, ComponentPolicy)]) {
    let mut named: BTreeMap<&str, Vec<(usize, &ComponentPolicy)>> = BTreeMap::new();
    for (at, entry) in entries {
        let others = named.entry(&entry.name).or_default();
        let overlap =
            others.iter().find_map(|(other, named)| Some((*other, named.binding.overlap(&entry.binding)?)));
        if let Some((other, binding)) = overlap {
            let (line, _) = reader.place(other);
            reader.report(
                *at,
                format!(
                    "the component {:?} with {binding} is in the file twice, first at line {line}",
                    entry.name
                ),
                "put its lines together",
            );
        }
        others.push((*at, entry));
    }
}

/// Refuses an MCP server that has the name of something else, and two whose tools would have one prefix.
fn check_servers(reader: &mut Reader<'_>, entries: &[(usize, ComponentPolicy)]) {
    let prefix = |name: &str| name.replace('-', "_");
    for (at, entry) in entries.iter().filter(|(_, entry)| entry.mcp.is_some()) {
        let is_same = |other: &ComponentPolicy| match other.mcp {
            Some(_) => prefix(&other.name) == prefix(&entry.name),
            None => other.name == entry.name,
        };
        let other = entries.iter().find(|(other, entry)| other != at && is_same(entry));
        if let Some((other, _)) = other {
            let (line, _) = reader.place(*other);
            reader.report(
                *at,
                format!("the name of the MCP server {:?} is also that of line {line}", entry.name),
                "give each its own name: the names of its tools begin with it",
            );
        }
    }
}
