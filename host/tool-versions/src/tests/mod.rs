//! What the rules say: tables of what an operator meets, and properties of everything else.

mod approval;
mod component;
mod diff;
mod record;
mod record_invariants;
mod rollback;
mod schema_diff;
mod user_shares;
mod verdicts;

use std::collections::BTreeMap;

use agent_core::words::{
    ComponentFacts, ComponentVersion, Finding, Impact, Millis, ToolFacts, VersionDiff, VersionSource,
    VersionStatus,
};
use serde_json::json;

use crate::diff::Compared;

const NOW: Millis = 1_000;

fn of_version<'a>(digest: &'a str, facts: &'a ComponentFacts) -> Compared<'a> {
    Compared { digest, facts }
}

/// The digest of a version, by a letter or a number.
fn digest(name: impl std::fmt::Display) -> String {
    format!("sha256:{name}")
}

fn facts() -> ComponentFacts {
    ComponentFacts {
        bytes: 100_000,
        contract: "agent:tool@0.1.1".into(),
        imports: vec!["agent:tool/log@0.1.1".into()],
        tools: vec![tool()],
        ..ComponentFacts::default()
    }
}

fn tool() -> ToolFacts {
    ToolFacts {
        name: "add".into(),
        description: "Adds two numbers.".into(),
        input_schema: json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}),
        output_schema: None,
        hints: BTreeMap::new(),
    }
}

/// A version that waits, or one that `by` approved.
fn version(name: impl std::fmt::Display, source: VersionSource, by: Option<&str>) -> ComponentVersion {
    let status = match by {
        Some(by) => VersionStatus::Approved { by: by.into(), at: NOW },
        None => VersionStatus::Waiting { because: vec!["it is new".into()] },
    };
    ComponentVersion { digest: digest(name), source, proposed_at: NOW, status, facts: facts() }
}

fn upload() -> VersionSource {
    VersionSource::Upload { user_id: "anna".into() }
}

fn lines(diff: &VersionDiff) -> Vec<String> {
    diff.findings
        .iter()
        .map(|Finding { impact, place, text }| format!("{impact:?} {place}: {text}"))
        .collect()
}

fn places(diff: &VersionDiff) -> Vec<(Impact, &str)> {
    diff.findings.iter().map(|finding| (finding.impact, finding.place.as_str())).collect()
}
