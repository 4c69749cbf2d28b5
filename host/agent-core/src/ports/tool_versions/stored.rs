//! How records, audit lines and counts look in a store: as JSON, within the limits of the port. Every store
//! uses this, so that all of them take and refuse the same.

use std::collections::BTreeSet;

use super::{
    KeptComponent, MOST_AUDIT_LINE_BYTES, MOST_COMPONENT_BYTES, MOST_ID_BYTES, MOST_NAME_BYTES,
    MOST_RECORD_BYTES, MOST_SIGNATURE_BYTES, VersionsError, VersionsResult,
};
use crate::words::{AuditLine, ComponentRecord, TrialCounts};

/// A record as it is stored. It is read back here once: numbers that JSON has no form for, or schemas that
/// are nested deeper than a reader follows, would make a record that nobody can read.
pub fn encode_record(name: &str, record: &ComponentRecord) -> VersionsResult<String> {
    check_size("the name of the component", name.len(), MOST_NAME_BYTES)?;
    let json = serde_json::to_string(record).map_err(|error| unreadable(name, &error))?;
    check_size("the record of the component", json.len(), MOST_RECORD_BYTES)?;
    decode_record(name, &json)?;
    Ok(json)
}

/// The record that [`encode_record`] was given.
pub fn decode_record(name: &str, json: &str) -> VersionsResult<ComponentRecord> {
    serde_json::from_str(json).map_err(|error| unreadable(name, &error))
}

/// An audit line as it is stored.
pub fn encode_audit_line(name: &str, line: &AuditLine) -> VersionsResult<String> {
    let json = serde_json::to_string(line).map_err(|error| unreadable(name, &error))?;
    check_size("the audit line", json.len(), MOST_AUDIT_LINE_BYTES)?;
    Ok(json)
}

/// The line that [`encode_audit_line`] was given.
pub fn decode_audit_line(name: &str, json: &str) -> VersionsResult<AuditLine> {
    serde_json::from_str(json).map_err(|error| unreadable(name, &error))
}

/// Counts as they are stored.
pub fn encode_counts(trial: &str, counts: &TrialCounts) -> VersionsResult<String> {
    serde_json::to_string(counts).map_err(|error| unreadable(trial, &error))
}

/// The counts that [`encode_counts`] was given.
pub fn decode_counts(trial: &str, json: &str) -> VersionsResult<TrialCounts> {
    serde_json::from_str(json).map_err(|error| unreadable(trial, &error))
}

/// Refuses the id of a trial that is too long.
pub fn check_trial(id: &str) -> VersionsResult {
    check_size("the id of the trial", id.len(), MOST_ID_BYTES)
}

/// Refuses a component that is too large.
pub fn check_component(name: &str, digest: &str, component: &KeptComponent) -> VersionsResult {
    check_size("the name of the component", name.len(), MOST_NAME_BYTES)?;
    let signature = component.signature.as_ref().map_or(0, |signature| signature.len());
    check_size("the digest of the component", digest.len(), MOST_ID_BYTES)?;
    check_size("the component", component.bytes.len(), MOST_COMPONENT_BYTES)?;
    check_size("the signature of the component", signature, MOST_SIGNATURE_BYTES)
}

/// The digests whose components must stay: those of the versions, and what serves. A digest that is too long
/// is left out: nothing can be kept under it.
pub fn needed_digests(record: &ComponentRecord) -> BTreeSet<&str> {
    let versions = record.versions.iter().map(|version| &version.digest);
    let digests = versions.chain(&record.active).map(String::as_str);
    digests.filter(|digest| digest.len() <= MOST_ID_BYTES).collect()
}

fn check_size(what: &str, bytes: usize, most: usize) -> VersionsResult {
    if bytes <= most {
        return Ok(());
    }
    Err(VersionsError::TooLarge(format!("{what} has {bytes} bytes; at most {most} are kept")))
}

fn unreadable(name: &str, error: &serde_json::Error) -> VersionsError {
    VersionsError::Unreadable { name: name.to_owned(), problem: error.to_string() }
}
