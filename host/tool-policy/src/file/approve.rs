//! `approve`: which calls somebody has to approve, a word or a table.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::words::{Deciders, OnExpiry};
use json_schema::{Schema, SchemaBudget};

use super::reader::{Reader, Section, Word};
use crate::model::approve::{ApproveRule, ApproveWhen, DEFAULT_WITHIN_S, PassSchema};

const KEYS: [&str; 10] =
    ["when", "unhinted", "pass", "users", "tiers", "roles", "count", "own", "within-s", "on-expiry"];

const WHEN: &str = "\"always\" or \"destructive\"";
const ON_EXPIRY: &str = "\"reject\" or \"approve\"";

/// Most people who have to agree.
const MOST_DECIDERS: u64 = 16;

/// Longest wait in seconds: a year.
const LONGEST_WAIT_S: u64 = 366 * 24 * 60 * 60;

/// How long a schema may take to be read.
const SCHEMA_TIME: Duration = Duration::from_secs(1);

/// The rule, if there is one. What is wrong with it is reported, and then nothing of the file counts.
pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> Option<ApproveRule> {
    if !section.is_table("approve") {
        let word = section.text(reader, "approve")?;
        return read_when(reader, section, "approve", word).map(ApproveRule::new);
    }
    let table = section.table(reader, "approve", "a word, or a table, { when = \"always\", own = false }")?;
    let section = Section::open(reader, table, "in approve", &KEYS);
    if !section.has("when") {
        reader.report_missing(section.at, "approve does not say when", format!("add: when = {WHEN}"));
    }
    let when = section.text(reader, "when").and_then(|word| read_when(reader, &section, "when", word));
    let unhinted = section.flag(reader, "unhinted").unwrap_or(false);
    let pass = section.text(reader, "pass").and_then(|word| read_pass(reader, word));
    let mut names = |key| section.names(reader, key).unwrap_or_default();
    let (users, tiers, roles): (BTreeSet<_>, _, _) = (names("users"), names("tiers"), names("roles"));
    let count = section.number(reader, "count", 1..=MOST_DECIDERS).unwrap_or(1);
    let own = section.flag(reader, "own").unwrap_or(true);
    let within_s = section.number(reader, "within-s", 1..=LONGEST_WAIT_S).unwrap_or(DEFAULT_WITHIN_S);
    let on_expiry = match section.text(reader, "on-expiry") {
        None => OnExpiry::Reject,
        Some(word) => match word.text {
            "reject" => OnExpiry::Reject,
            "approve" => OnExpiry::Approve,
            _ => {
                section.refuse_text(reader, "on-expiry", word, ON_EXPIRY);
                OnExpiry::Reject
            }
        },
    };
    // The bounds fit.
    let count = u32::try_from(count).unwrap_or(1);
    let deciders = Deciders { users, tiers, roles, count, own };
    Some(ApproveRule { unhinted, pass, deciders, within_s, on_expiry, ..ApproveRule::new(when?) })
}

fn read_when(
    reader: &mut Reader<'_>,
    section: &Section<'_, '_>,
    key: &str,
    word: Word<'_>,
) -> Option<ApproveWhen> {
    match word.text {
        "always" => Some(ApproveWhen::Always),
        "destructive" => Some(ApproveWhen::Destructive),
        _ => {
            section.refuse_text(reader, key, word, WHEN);
            None
        }
    }
}

fn read_pass(reader: &mut Reader<'_>, word: Word<'_>) -> Option<PassSchema> {
    match Schema::read(word.text, &mut SchemaBudget::until(Instant::now() + SCHEMA_TIME)) {
        Ok(schema) => Some(PassSchema { text: word.text.to_owned(), schema: Arc::new(schema) }),
        Err(why) => {
            reader.report(
                word.at,
                format!("pass: the schema {why}"),
                r#"allowed: a JSON Schema in quotes, '{"properties": {"euros": {"maximum": 50}}}'"#,
            );
            None
        }
    }
}
