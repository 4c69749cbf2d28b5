//! What differs between two versions of a component, and how grave that is for those who call it, read it and
//! run it.
//!
//! - What the model reads (names, descriptions, input schemas) is compared to the last character, the order
//!   of a JSON object's members aside: whatever differs there is at least for review.
//! - What widens what a component may reach (imports, wants, grants, the user's name) is for review.
//! - Of what a tool says of itself, whatever makes the host less careful is for review, because the host acts
//!   on it: answers of pure tools are kept, calls of read-only and idempotent ones are made again, those of
//!   destructive ones go one after another. What makes it more careful is safe: a tool that corrects itself
//!   need not wait.
//! - Arguments that were right and are refused now, tools that are gone and answers of another form are
//!   breaking.
//!
//! `schema` compares JSON Schemas, `findings` bounds what is listed.

mod findings;
mod hints;
mod schema;

use std::collections::{BTreeMap, BTreeSet};

use agent_core::words::{ComponentFacts, Impact, ToolFacts, VersionDiff};

use findings::{Findings, around_the_difference, listed, quoted};
use schema::Side;

/// A component that has grown is looked at when it is larger than this and more than twice what it was.
const GROWN_BYTES: u64 = 1 << 20;

/// What the policy in force grants to each of both versions, a text for each grant.
#[derive(Debug, Clone, Copy)]
pub struct Granted<'a> {
    pub from: &'a [String],
    pub to: &'a [String],
}

#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    pub digest: &'a str,
    pub facts: &'a ComponentFacts,
}

/// Compares two versions. Without an older one everything is new.
pub fn diff(from: Option<Compared<'_>>, to: Compared<'_>, grants: Option<Granted<'_>>) -> VersionDiff {
    let mut findings = Findings::default();
    let nothing = ComponentFacts::default();
    let old = from.map_or(&nothing, |from| from.facts);
    let new = to.facts;
    if from.is_none() {
        findings.note(Impact::Review, "component", "it is new: there is no version to compare it with");
    } else {
        compare_contract(old, new, &mut findings);
        compare_signer(old, new, &mut findings);
        compare_size(old, new, &mut findings);
    }
    compare_imports(old, new, &mut findings);
    compare_wants(old, new, &mut findings);
    compare_users(old, new, &mut findings);
    if let Some(grants) = grants {
        compare_grants(&grants, old, new, &mut findings);
    }
    compare_tools(old, new, &mut findings);
    VersionDiff {
        from: from.map(|from| from.digest.to_owned()),
        to: to.digest.to_owned(),
        facts_digest: None,
        impact: findings.impact(),
        widens: findings.widens,
        changes_what_models_read: findings.changes_what_models_read,
        findings: findings.list(),
    }
}

fn compare_contract(old: &ComponentFacts, new: &ComponentFacts, findings: &mut Findings) {
    let (before, after) = (&old.contract, &new.contract);
    if before == after {
        return;
    }
    let change = format!("it was built for {}, it is built for {}", quoted(before), quoted(after));
    if is_compatible(before, after) {
        findings.note(Impact::Safe, "contract", change + ", which are called alike");
    } else {
        let text = change + ": it is called in another way, so try its tools before it serves";
        findings.note(Impact::Review, "contract", text);
    }
}

fn compare_signer(old: &ComponentFacts, new: &ComponentFacts, findings: &mut Findings) {
    let (impact, text) = match (&old.signer, &new.signer) {
        (None, None) => return,
        (Some(before), Some(after)) if before == after => return,
        (None, Some(after)) => (Impact::Safe, format!("it is signed now, with the key {}", quoted(after))),
        (Some(before), None) => (
            Impact::Review,
            format!(
                "it is not signed any more, it was with the key {}: ask its author why, and mind that grants to that key \
                 no longer count for it",
                quoted(before)
            ),
        ),
        (Some(before), Some(after)) => (
            Impact::Review,
            format!(
                "it was signed with the key {}, it is signed with {}: make sure that its author changed the key, and \
                 look at what the policy grants to the new one",
                quoted(before),
                quoted(after)
            ),
        ),
    };
    findings.note(impact, "signer", text);
}

fn compare_size(old: &ComponentFacts, new: &ComponentFacts, findings: &mut Findings) {
    let (before, after) = (old.bytes, new.bytes);
    if before == after {
        return;
    }
    let change = format!("it had {before} bytes, it has {after}");
    if after > GROWN_BYTES && after > before.saturating_mul(2) {
        let text = change + ": look at what came in with it, such as a new library or an interpreter";
        findings.note(Impact::Review, "size", text);
    } else {
        findings.note(Impact::Safe, "size", change);
    }
}

fn compare_imports(old: &ComponentFacts, new: &ComponentFacts, findings: &mut Findings) {
    let (before, after) = (words(&old.imports), words(&new.imports));
    let replaces = |one: &str, others: &BTreeSet<&str>, same: &BTreeSet<&str>| {
        others.iter().any(|other| !same.contains(other) && is_compatible(one, other))
    };
    // Imports that the host answers come first: an author may write any number of types, which hide nothing.
    for import in new.imports.iter().filter(|import| !before.contains(import.as_str())) {
        if replaces(import, &before, &after) {
            let text = format!("it imports {} in another version that is compatible", quoted(import));
            findings.note(Impact::Safe, "imports", text);
            continue;
        }
        findings.widens = true;
        let text = format!("it imports {}, and did not before: ask what for", quoted(import));
        findings.note(Impact::Review, "imports", text);
    }
    for import in before.difference(&after) {
        if !replaces(import, &after, &before) {
            findings.note(Impact::Safe, "imports", format!("it no longer imports {}", quoted(import)));
        }
    }
}

fn compare_wants(old: &ComponentFacts, new: &ComponentFacts, findings: &mut Findings) {
    let (before, after) = (words(&old.wants), words(&new.wants));
    for want in after.difference(&before) {
        findings.widens = true;
        let text =
            format!("it wants {}, and did not before: look at what the policy grants of that", quoted(want));
        findings.note(Impact::Review, "wants", text);
    }
    for want in before.difference(&after) {
        findings.note(Impact::Safe, "wants", format!("it no longer wants {}", quoted(want)));
    }
}

fn compare_users(old: &ComponentFacts, new: &ComponentFacts, findings: &mut Findings) {
    match (old.tells_users_apart, new.tells_users_apart) {
        (false, true) => {
            findings.widens = true;
            let text = "it can tell users apart, and could not before: its answers are no longer shared between \
                        users, and it may keep what it knows of each";
            findings.note(Impact::Review, "users", text);
        }
        (true, false) => findings.note(Impact::Safe, "users", "it can no longer tell users apart"),
        (true, true) | (false, false) => {}
    }
}

fn compare_grants(grants: &Granted<'_>, old: &ComponentFacts, new: &ComponentFacts, findings: &mut Findings) {
    let (before, after) = (words(grants.from), words(grants.to));
    for grant in after.difference(&before) {
        findings.widens = true;
        let text = format!("the policy grants it {}, and not to what it is compared with", quoted(grant));
        findings.note(Impact::Review, "grants", text);
    }
    let wants_less = !words(&old.wants).is_subset(&words(&new.wants));
    for grant in before.difference(&after) {
        let change = format!(
            "the policy does not grant it {}, and grants that to what it is compared with",
            quoted(grant)
        );
        if wants_less {
            findings.note(Impact::Safe, "grants", change);
        } else {
            let text =
                change + ": calls that need it will fail, so see whether the policy should name this version";
            findings.note(Impact::Review, "grants", text);
        }
    }
}

fn compare_tools(old: &ComponentFacts, new: &ComponentFacts, findings: &mut Findings) {
    let (before, after) = (by_name(&old.tools), by_name(&new.tools));
    for (name, tool) in &before {
        if !after.contains_key(name) {
            findings.changes_what_models_read = true;
            let text = "it is gone: runs that ask for it by name are refused, and prompts that speak of it are wrong";
            findings.note(Impact::Breaking, &place_of(tool), text);
        }
    }
    for (name, tool) in &after {
        match before.get(name) {
            Some(older) => compare_tool(older, tool, findings),
            None => {
                findings.changes_what_models_read = true;
                let text = format!("it is new, and the model reads of it: {}", quoted(&tool.description));
                findings.note(Impact::Review, &place_of(tool), text);
            }
        }
    }
}

fn compare_tool(old: &ToolFacts, new: &ToolFacts, findings: &mut Findings) {
    let place = place_of(new);
    if old.description != new.description {
        findings.changes_what_models_read = true;
        let (before, after) = around_the_difference(&old.description, &new.description);
        let text = format!("the model read {}, it reads {}", quoted(&before), quoted(&after));
        findings.note(Impact::Review, &format!("{place}.description"), text);
    }
    if old.input_schema != new.input_schema {
        findings.changes_what_models_read = true;
        let place = format!("{place}.input");
        schema::compare(&old.input_schema, &new.input_schema, Side::Input, &place, findings);
    }
    let output = format!("{place}.output");
    match (&old.output_schema, &new.output_schema) {
        (Some(before), Some(after)) if before != after => {
            schema::compare(before, after, Side::Output, &output, findings);
        }
        (Some(_), None) => {
            let text = "it no longer declares what its answers look like: whoever reads them cannot rely on it, and the \
                        host no longer checks them";
            findings.note(Impact::Breaking, &output, text);
        }
        (None, Some(_)) => {
            findings.note(
                Impact::Safe,
                &output,
                "it declares what its answers look like, and the host checks it",
            );
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
    hints::compare(old, new, &place, findings);
}

fn words(texts: &[String]) -> BTreeSet<&str> {
    texts.iter().map(String::as_str).collect()
}

fn by_name(tools: &[ToolFacts]) -> BTreeMap<&str, &ToolFacts> {
    tools.iter().map(|tool| (tool.name.as_str(), tool)).collect()
}

fn place_of(tool: &ToolFacts) -> String {
    format!("tools.{}", listed([&tool.name]))
}

/// Whether two interfaces or packages are the same but for a version that is compatible by the rules of
/// semver.
fn is_compatible(one: &str, other: &str) -> bool {
    let (Some((name, version)), Some((other_name, other_version))) =
        (one.rsplit_once('@'), other.rsplit_once('@'))
    else {
        return false;
    };
    let compatible = |version: &str| {
        let mut numbers = version.split('.').map(|number| number.parse::<u64>().ok());
        match (numbers.next()??, numbers.next()??, numbers.next()??, numbers.next()) {
            (0, 0, patch, None) => Some((0, 0, patch)),
            (0, minor, _, None) => Some((0, minor, 0)),
            (major, _, _, None) => Some((major, 0, 0)),
            (_, _, _, Some(_)) => None,
        }
    };
    name == other_name && compatible(version).is_some() && compatible(version) == compatible(other_version)
}
