//! One `[[case.http]]`: a request that is awaited and what it is answered with.

use serde_json::Value;

use super::node::{Kind, Node, Problems};
use super::read::Table;
use crate::upstream::{HttpLine, Mock};

/// Longest that an answer is held back: an hour, as the longest time-out of a tool.
const MOST_DELAY_MS: u64 = 3_600_000;

/// Reads a line; what is wrong is reported.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Option<HttpLine> {
    let mut table = Table::open(node, "a [[case.http]]", problems)?;
    let url = table.text("url", problems);
    let method = table.text("method", problems).unwrap_or_else(|| "GET".to_owned()).to_ascii_uppercase();
    let status = table.number("status", (200, 599), problems);
    let mut headers = read_headers(&mut table, problems);
    let body = table.text("body", problems);
    let json = table.take("json").map(Node::to_json);
    let fails = table.text("fails", problems);
    let delay_ms = table.number("delay-ms", (0, MOST_DELAY_MS), problems).unwrap_or(0);
    table.refuse_others(problems);
    let answers = [body.is_some(), json.is_some(), fails.is_some()];
    if answers.iter().filter(|given| **given).count() > 1 {
        problems.report(node.line, "body, json and fails stand beside one another: a request has one answer");
    }
    if fails.is_some() && (status.is_some() || !headers.is_empty()) {
        problems.report(node.line, "status or headers beside fails: a request that fails has no answer");
    }
    let Some(url) = url else {
        problems.report(
            node.line,
            "a [[case.http]] without url: write the one that the tool asks for, query included",
        );
        return None;
    };
    if !url.starts_with("https://") && !url.starts_with("http://") {
        problems.report(node.line, format!("the url {url:?} begins with neither https:// nor http://"));
    }
    let answer = match fails {
        Some(reason) => Mock::Fails(reason),
        None => {
            let is_typed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            if json.is_some() && !is_typed {
                headers.push(("content-type".to_owned(), "application/json".to_owned()));
            }
            let body = json.map(|json| json.to_string()).or(body).unwrap_or_default();
            let status = status.and_then(|status| u16::try_from(status).ok()).unwrap_or(200);
            Mock::Response { status, headers, body: body.into_bytes() }
        }
    };
    Some(HttpLine { line: node.line, method, url, answer, delay_ms })
}

fn read_headers(table: &mut Table<'_>, problems: &mut Problems) -> Vec<(String, String)> {
    let Some(node) = table.take("headers") else { return vec![] };
    let Kind::Table(entries) = &node.kind else {
        problems.report(node.line, "headers is no table: write { content-type = \"text/plain\" }");
        return vec![];
    };
    let mut headers = vec![];
    for (name, value) in entries {
        match value.to_json() {
            Value::String(text) => headers.push((name.to_ascii_lowercase(), text)),
            _ => problems
                .report(value.line, format!("the header {name} is {}, and should be a text", value.sort())),
        }
    }
    headers
}
