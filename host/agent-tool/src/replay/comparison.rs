//! One call, as it went then and as it goes now: what differs.
//!
//! A difference is one of outcome, output, or of what it asked of which hosts. What it cost is shown beside
//! it and is none: times differ always.

use std::collections::BTreeSet;

use agent_core::words::{ReceiptDetail, ToolCall, ToolOutcome, ToolReceipt, ToolReturn};
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use super::answers::Used;
use super::journal::RecordedCall;

/// Lines around a change that are shown with it.
const CONTEXT_LINES: usize = 2;

/// Most lines of a difference, and most bytes of one of them.
const MOST_LINES: usize = 60;
const LINE_BYTES: usize = 400;

/// One call then and now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comparison {
    pub(super) call_id: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) verdict: Verdict,
    pub(super) then: Went,
    /// Absent if it was not made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) now: Option<Went>,
    /// A unified diff of the outputs, empty if they are the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) output_diff: Vec<String>,
}

/// What came of it.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum Verdict {
    Same,
    Differs {
        /// `outcome`, `output`, `hosts`.
        #[serde(rename = "in")]
        parts: Vec<&'static str>,
    },
    /// Whether the answers differ cannot be said.
    NotReplayed {
        why: String,
    },
    /// Then it was refused before anything ran, so there is nothing to make again.
    NothingRan {
        why: String,
    },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Went {
    pub(super) outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) component: Option<String>,
    /// Hosts with the number of requests, and refusals.
    pub(super) hosts: Vec<String>,
    pub(super) duration_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peak_memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fuel: Option<u64>,
}

/// Why a call is not made again, if it is not. `recorded` is how many of its HTTP exchanges were recorded.
pub(super) fn unfit(then: &RecordedCall, recorded: u32, mcp_servers: &BTreeSet<String>) -> Option<Verdict> {
    let receipt = &then.answer.receipt;
    let nothing_ran = |why: &str| Some(Verdict::NothingRan { why: why.to_owned() });
    let not_replayed = |why: &str| Some(Verdict::NotReplayed { why: why.to_owned() });
    match receipt.outcome {
        ToolOutcome::NotRun => return nothing_ran("the run did not make the call"),
        ToolOutcome::Interrupted => {
            return not_replayed("it was interrupted, and what it came to was never known");
        }
        ToolOutcome::InvalidArguments if !then.call.arguments.is_object() => {
            return nothing_ran("its arguments are no JSON object");
        }
        _ => {}
    }
    if then.is_wait {
        return nothing_ran("the run waited, and what was decided is the answer");
    }
    // Of a server the component is its name and the digest of its list of tools.
    let component = receipt.component.as_deref().and_then(|component| component.split_once('@'));
    if component.is_some_and(|(name, _)| mcp_servers.contains(name)) {
        return not_replayed("it is a tool of an MCP server, which is not asked");
    }
    if receipt.nested > 0 {
        return not_replayed(
            "it called other tools, and of such calls the journal has digests of the arguments only",
        );
    }
    if recorded == 0 && requests(receipt) > 0 {
        return not_replayed("its HTTP was not recorded: set TOOLS_RECORD_HTTP=on in the service");
    }
    None
}

impl Comparison {
    /// Of a call that is not made again.
    pub(super) fn not_made(then: &RecordedCall, verdict: Verdict) -> Self {
        let ToolCall { name, arguments, .. } = &then.call;
        Self {
            call_id: then.call_id.clone(),
            tool: name.clone(),
            arguments: arguments.clone(),
            verdict,
            then: Went::of(&then.answer),
            now: None,
            output_diff: vec![],
        }
    }

    pub(super) fn between(then: &RecordedCall, now: &ToolReturn, used: Used) -> Self {
        let (before, after) = (Went::of(&then.answer), Went::of(now));
        let mut parts = vec![];
        parts.extend((before.outcome != after.outcome).then_some("outcome"));
        parts.extend((then.answer.content != now.content).then_some("output"));
        parts.extend((before.hosts != after.hosts).then_some("hosts"));
        let verdict = match unsure(then, now, used) {
            _ if parts.is_empty() => Verdict::Same,
            None => Verdict::Differs { parts },
            Some(why) => {
                Verdict::NotReplayed { why: format!("{why}, and it differs in {}", parts.join(" and ")) }
            }
        };
        Self {
            now: Some(after),
            output_diff: diff(&then.answer.content, &now.content),
            ..Self::not_made(then, verdict)
        }
    }
}

/// Why a difference says nothing, if it does not.
fn unsure(then: &RecordedCall, now: &ToolReturn, used: Used) -> Option<&'static str> {
    let before = &then.answer.receipt;
    if used.cut > 0 || used.recorded < requests(before) {
        return Some("its HTTP was recorded in part only (64 KiB of a body, 64 exchanges of a call)");
    }
    let was_too_long = before.outcome == ToolOutcome::OutputLimit && now.receipt.outcome != before.outcome;
    was_too_long.then_some("its answer was too long, perhaps for the run only, and was not kept")
}

impl Went {
    fn of(answer: &ToolReturn) -> Self {
        let receipt = &answer.receipt;
        let detail = receipt.detail.as_deref();
        let outcome = receipt.outcome.as_str();
        let outcome = receipt.code().map_or_else(|| outcome.to_owned(), |code| format!("{outcome} ({code})"));
        Self {
            outcome,
            component: receipt.component.clone(),
            hosts: detail.map(hosts).unwrap_or_default(),
            duration_ms: receipt.duration_ms,
            peak_memory_bytes: detail.and_then(|detail| detail.peak_memory_bytes),
            fuel: detail.and_then(|detail| detail.fuel),
        }
    }
}

/// Sorted: hosts stand in the order of the first request, which may differ where requests are made side by
/// side.
fn hosts(detail: &ReceiptDetail) -> Vec<String> {
    let mut hosts: Vec<_> = detail
        .exchanges
        .iter()
        .map(|host| {
            let failed =
                if host.failures > 0 { format!(", {} failed", host.failures) } else { String::new() };
            let requests = if host.requests == 1 { "request" } else { "requests" };
            format!("{}://{}:{}: {} {requests}{failed}", host.scheme, host.host, host.port, host.requests)
        })
        .collect();
    hosts.sort();
    hosts.extend(detail.refusals.iter().map(|refusal| format!("refused: {refusal}")));
    hosts
}

/// How many requests went out.
pub(super) fn requests(receipt: &ToolReceipt) -> u32 {
    let Some(detail) = receipt.detail.as_deref() else { return 0 };
    let listed = detail.exchanges.iter().map(|host| host.requests);
    listed.fold(detail.unlisted_requests, u32::saturating_add)
}

/// What differs, line by line. JSON is laid out first: it mostly is one line.
fn diff(then: &str, now: &str) -> Vec<String> {
    if then == now {
        return vec![];
    }
    let (then, now) = (laid_out(then), laid_out(now));
    let diff = TextDiff::configure().timeout(std::time::Duration::from_millis(500)).diff_lines(&then, &now);
    let text = diff.unified_diff().context_radius(CONTEXT_LINES).header("then", "now").to_string();
    let mut lines: Vec<_> = text.lines().take(MOST_LINES).map(bounded).collect();
    let left = text.lines().count().saturating_sub(MOST_LINES);
    if left > 0 {
        lines.push(format!("… and {left} lines more"));
    }
    lines
}

fn laid_out(text: &str) -> String {
    let value = serde_json::from_str::<Value>(text).ok();
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.unwrap_or_else(|| text.to_owned()) + "\n"
}

fn bounded(line: &str) -> String {
    let end = line.floor_char_boundary(LINE_BYTES);
    match line.split_at_checked(end) {
        Some((kept, left)) if !left.is_empty() => format!("{kept}… and {} bytes more", left.len()),
        _ => line.to_owned(),
    }
}
