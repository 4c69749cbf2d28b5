//! The case file: which calls to make, what they may reach, and what they should answer.
//!
//! ```toml
//! component = "dist/rates.wasm"     # optional: where the component is, from this file
//!
//! [[case]]
//! name = "reads a rate"
//! tool = "rate"                     # optional when the component has one tool
//! arguments = { from = "EUR" }
//! expect = { contains = "1.1" }     # output, json, contains, matches, error: what is given must all be so
//! config = { endpoint = "https://api.example.org" }
//! secrets = ["api-key"]             # names that exist
//!
//! [[case.http]]                     # answered in this order; what no line answers fails the case
//! url = "https://api.example.org/rates?base=EUR"
//! json = { rate = 1.1 }             # or body, or fails = "connection-refused"; delay-ms waits first
//! ```
//!
//! Questions of the tool (`agent:tool/ask`) are answered by `[[case.answer]]` in their order: `value`, or
//! `rejected = true`, and a part of the `question`, if only that is meant.
//!
//! No key is skipped: one that is misspelt would be a check that somebody believes in.

mod answer;
mod http;
mod node;
mod read;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::expectation::Expectation;
use crate::people::AnswerLine;
use crate::upstream::HttpLine;
use node::Kind;
use read::Table;

pub use node::Problems;

/// Most bytes of a case file.
pub const MOST_BYTES: usize = 4 << 20;

const MOST_CASES: usize = 10_000;

#[derive(Debug, Clone, Default)]
pub struct CaseFile {
    /// Where the component is, relative to the file.
    pub component: Option<String>,
    /// The cases, in their order.
    pub cases: Vec<Case>,
}

/// One call and what it should answer.
#[derive(Debug, Clone)]
pub struct Case {
    /// Unique in the file.
    pub name: String,
    pub line: usize,
    /// The tool to call; absent when the component has only one.
    pub tool: Option<String>,
    pub arguments: Map<String, Value>,
    /// What it should answer.
    pub expect: Expectation,
    /// What its requests are answered with.
    pub http: Vec<HttpLine>,
    pub answers: Vec<AnswerLine>,
    /// What its configuration holds.
    pub config: BTreeMap<String, String>,
    /// Names of the secrets that there are.
    pub secrets: BTreeSet<String>,
}

/// Reads a case file, or says everything that is wrong with it.
pub fn parse(text: &str) -> Result<CaseFile, Problems> {
    let mut problems = Problems::default();
    if text.len() > MOST_BYTES {
        problems.report(1, format!("the file has {} bytes; it may have {MOST_BYTES}", text.len()));
        return Err(problems);
    }
    let document = node::parse(text)?;
    let Some(mut top) = Table::open(&document, "the file", &mut problems) else { return Err(problems) };
    let component = top.text("component", &mut problems);
    let mut cases: Vec<Case> = vec![];
    for node in top.list("case", "write each as [[case]]", &mut problems) {
        let Some(case) = read_case(node, cases.len(), &mut problems) else { continue };
        if let Some(first) = cases.iter().find(|other| other.name == case.name) {
            let text = format!(
                "the name {:?} is taken by the case of line {}: names tell cases apart",
                case.name, first.line
            );
            problems.report(case.line, text);
        }
        cases.push(case);
    }
    if cases.len() > MOST_CASES {
        problems.report(1, format!("the file has {} cases; it may have {MOST_CASES}", cases.len()));
    }
    top.refuse_others(&mut problems);
    problems.finish(CaseFile { component, cases })
}

fn read_case(node: &node::Node, before: usize, problems: &mut Problems) -> Option<Case> {
    let mut table = Table::open(node, "a case", problems)?;
    let name = table.text("name", problems).unwrap_or_else(|| format!("case {}", before + 1));
    let tool = table.text("tool", problems);
    let arguments = match table.take("arguments") {
        None => Map::new(),
        Some(node) => match node.to_json() {
            Value::Object(members) => members,
            _ => {
                problems.report(
                    node.line,
                    format!("arguments is {}: write a table, such as {{ a = 1 }}", node.sort()),
                );
                Map::new()
            }
        },
    };
    let expect =
        table.take("expect").map(|node| Expectation::read(&node.to_json()).map_err(|text| (node.line, text)));
    let expect = match expect {
        None => {
            problems.report(
                node.line,
                format!("the case {name:?} expects nothing: add expect = {{ output = \"…\" }}, or json, contains, matches, error"),
            );
            Expectation::default()
        }
        Some(Ok(expect)) => expect,
        Some(Err((line, text))) => {
            problems.report(line, format!("expect of the case {name:?}: {text}"));
            Expectation::default()
        }
    };
    let lines = table.list("http", "write each as [[case.http]]", problems);
    let http = lines.iter().filter_map(|line| http::read(line, problems)).collect();
    let answers = table.list("answer", "write each as [[case.answer]]", problems);
    let answers = answers.iter().filter_map(|answer| answer::read(answer, problems)).collect();
    let config = read_config(&mut table, problems);
    let secrets = read_secrets(&mut table, problems);
    table.refuse_others(problems);
    Some(Case { name, line: node.line, tool, arguments, expect, http, answers, config, secrets })
}

fn read_config(table: &mut Table<'_>, problems: &mut Problems) -> BTreeMap<String, String> {
    let Some(node) = table.take("config") else { return BTreeMap::new() };
    let Kind::Table(entries) = &node.kind else {
        problems.report(
            node.line,
            format!("config is {}: write a table of texts, such as {{ endpoint = \"…\" }}", node.sort()),
        );
        return BTreeMap::new();
    };
    let mut config = BTreeMap::new();
    for (key, value) in entries {
        match value.to_json() {
            Value::String(text) => _ = config.insert(key.clone(), text),
            _ => problems.report(
                value.line,
                format!("config.{key} is {}: values of the configuration are texts", value.sort()),
            ),
        }
    }
    config
}

/// Names, as a list or as the keys of a table. Values are never taken: no secret belongs into the file.
fn read_secrets(table: &mut Table<'_>, problems: &mut Problems) -> BTreeSet<String> {
    let Some(node) = table.take("secrets") else { return BTreeSet::new() };
    match &node.kind {
        Kind::Table(entries) => {
            for (key, value) in entries.iter().filter(|(_, value)| value.to_json() != Value::Bool(true)) {
                let text = format!(
                    "secrets.{key} is {}: write {key} = true; values do not belong into the file",
                    value.sort()
                );
                problems.report(value.line, text);
            }
            entries.keys().cloned().collect()
        }
        Kind::List(items) => items
            .iter()
            .filter_map(|item| match item.to_json() {
                Value::String(name) => Some(name),
                _ => {
                    problems.report(
                        item.line,
                        format!("secrets has {}: write names, such as [\"api-key\"]", item.sort()),
                    );
                    None
                }
            })
            .collect(),
        Kind::Scalar(_) => {
            problems.report(node.line, "secrets is no list: write names, such as [\"api-key\"]");
            BTreeSet::new()
        }
    }
}

#[cfg(test)]
mod tests;
