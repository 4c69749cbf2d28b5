//! Whether a proposed version may serve at once or waits for an operator's approval.
//!
//! An approval is for bytes and for how they describe themselves: other bytes wait even where nothing that
//! can be seen of them has changed, because the same description may stand before any code. The rules are
//! tried in the order in which they stand in [`review`]; `diff` says what differs.

use agent_core::words::{ComponentRecord, ComponentVersion, Impact, Millis, VersionDiff, VersionStatus};

/// Most reasons of one version: the rest is in the diff.
const MOST_REASONS: usize = 8;

/// What decides about a proposal beside its component's record.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// Whether approvals are asked for (`TOOLS_APPROVAL`).
    pub required: bool,
    /// Whether the policy in force names the version's digest, or the key that signed it.
    pub named_in_policy: bool,
    /// How the version differs from the one that serves, [`baseline`].
    pub diff: &'a VersionDiff,
    pub now: Millis,
}

/// The version that a proposal is compared with: the one that serves, or served last. Without one everything
/// is new.
pub fn baseline(record: Option<&ComponentRecord>) -> Option<&ComponentVersion> {
    let record = record?;
    // One whose file was taken away is still what somebody looked at.
    let active = record.active.as_ref().or(record.previous.first())?;
    record.versions.iter().find(|version| version.digest == *active)
}

/// Decides about a proposal.
pub fn review(record: Option<&ComponentRecord>, circumstances: &Circumstances<'_>) -> VersionStatus {
    let approved = |by: &str| VersionStatus::Approved { by: by.to_owned(), at: circumstances.now };
    if !circumstances.required {
        return approved("off");
    }
    if circumstances.named_in_policy {
        return approved("policy");
    }
    VersionStatus::Waiting { because: reasons_to_wait(record, circumstances.diff) }
}

fn reasons_to_wait(record: Option<&ComponentRecord>, diff: &VersionDiff) -> Vec<String> {
    let serves = baseline(record).map(|version| version.digest.as_str());
    if diff.from.as_deref() != serves {
        return vec!["it was not compared with the version that serves now: propose it again".into()];
    }
    if serves.is_none() && record.is_some_and(|record| record.deleted) {
        return vec!["the component was deleted, so it counts as new".into()];
    }
    let mut grave = diff.findings.iter().filter(|finding| finding.impact > Impact::Safe);
    let mut reasons: Vec<String> = grave
        .by_ref()
        .take(MOST_REASONS)
        .map(|finding| format!("{}: {}", finding.place, finding.text))
        .collect();
    let rest = grave.count();
    if rest > 0 {
        reasons.push(format!("and {rest} more: see the diff"));
    }
    if reasons.is_empty() {
        reasons.push("its bytes are others than those that were approved: see the diff".into());
    }
    reasons
}
