//! What every store of tool versions promises: `ToolVersions`.

mod audit;
mod components;
mod counts;
mod pruning;
mod records;
mod writers;

use std::sync::Arc;

use agent_core::ports::ToolVersions;
use agent_core::ports::tool_versions::{KeptComponent, VersionsError};
use agent_core::words::{
    AuditLine, ComponentFacts, ComponentRecord, ComponentVersion, Thresholds, Trial, TrialCounts, TrialKind,
    TrialState, VersionSource, VersionStatus,
};
use boxed_async::boxed_async;
use bytes::Bytes;

pub(crate) use audit::*;
pub(crate) use components::*;
pub(crate) use counts::*;
pub(crate) use pruning::*;
pub(crate) use records::*;
pub(crate) use writers::*;

/// An empty store.
pub(crate) struct Bench {
    /// As this process has it.
    pub(crate) store: Arc<dyn ToolVersions>,
    /// As another process has it.
    pub(crate) peer: Arc<dyn ToolVersions>,
    /// What the port has no words for. It lives as long as the store has to.
    pub(crate) behind: Box<dyn BehindTheStore>,
}

/// What happens to a store behind its back.
#[boxed_async]
pub(crate) trait BehindTheStore: Send + Sync {
    /// The record of [`DAMAGED`] cannot be read any more.
    async fn damage(&self);

    /// What was kept was kept an hour earlier.
    async fn an_hour_passes(&self);
}

/// The component whose record is damaged.
pub(crate) const DAMAGED: &str = "damaged";

/// A test of every case. The argument is the path of an `async fn() -> Bench`.
macro_rules! test_all {
    ($test:ident $benches:tt) => {
        crate::contract::$test! { tool_versions, $benches:
            // records
            an_empty_store_knows_nothing,
            a_record_is_read_as_it_was_written,
            a_write_wants_the_revision_that_is_there,
            the_revision_of_the_store_rises_with_every_write,
            names_are_plain_text,
            what_is_too_long_is_not_written,
            a_record_that_could_not_be_read_back_is_refused,
            a_damaged_record_takes_no_other_away,
            // writers
            of_sixteen_writers_at_once_one_wins_each_revision,
            no_write_of_sixteen_writers_is_lost,
            records_and_revision_are_of_one_moment,
            // audit
            audit_lines_come_newest_first,
            audit_lines_are_in_the_order_of_the_writes,
            // components
            a_component_is_read_as_it_was_kept,
            a_component_of_forty_megabytes_is_read_as_it_was_kept,
            a_component_kept_again_has_the_new_signature,
            a_signature_is_of_one_name,
            the_bytes_of_all_components_are_added_up,
            a_component_that_is_too_large_is_not_kept,
            a_component_kept_by_two_at_once_is_kept_once,
            // pruning
            what_no_record_names_is_removed_after_the_grace,
            what_a_record_names_stays,
            what_a_damaged_record_names_stays,
            a_record_that_is_written_keeps_its_components_from_the_pruner,
            a_component_kept_again_escapes_the_pruner,
            a_component_that_is_removed_while_it_is_read_is_whole_or_absent,
            // counts
            counts_are_added_each_to_its_own,
            counts_of_eight_replicas_at_once_all_count,
            nothing_is_added_to_read_the_counts,
            counts_that_no_record_names_are_removed,
            counts_of_first_calls_stay_while_that_version_serves,
        }
    };
}
pub(crate) use test_all;

pub(crate) fn component(bytes: &[u8], signature: Option<&[u8]>) -> KeptComponent {
    KeptComponent { bytes: Bytes::copy_from_slice(bytes), signature: signature.map(Bytes::copy_from_slice) }
}

/// A record whose versions have these digests.
pub(crate) fn record_of<D: Into<String>>(digests: impl IntoIterator<Item = D>) -> ComponentRecord {
    let version = |digest: D| ComponentVersion {
        digest: digest.into(),
        source: VersionSource::Folder,
        proposed_at: 1,
        status: VersionStatus::Approved { by: "first".into(), at: 1 },
        facts: ComponentFacts::default(),
    };
    ComponentRecord {
        enabled: true,
        versions: digests.into_iter().map(version).collect(),
        ..ComponentRecord::default()
    }
}

/// A trial that goes on.
pub(crate) fn trial(id: &str) -> Trial {
    Trial {
        id: id.into(),
        kind: TrialKind::Canary,
        digest: "sha256:new".into(),
        against: "sha256:old".into(),
        share: 0.05,
        thresholds: Thresholds::default(),
        by: "user:u1".into(),
        since: 1,
        state: TrialState::Running,
    }
}

pub(crate) fn line(action: &str) -> AuditLine {
    AuditLine { at: 1, by: "user:u1".into(), action: action.into(), digest: None, detail: String::new() }
}

/// Every operation says that the store cannot be reached, and no secret.
pub(crate) async fn check_unavailable(store: &dyn ToolVersions) {
    let mut counts = TrialCounts::default();
    counts.new.calls = 1;
    // Refused connections are tried again until the time is over: nobody has to wait for that.
    tokio::time::pause();
    let errors = [
        store.revision().await.unwrap_err(),
        store.records().await.unwrap_err(),
        store.record("echo").await.unwrap_err(),
        store.write("echo", 0, &record_of([""; 0]), &line("proposed")).await.unwrap_err(),
        store.keep("echo", "sha256:x", &component(b"1", None)).await.unwrap_err(),
        store.component("echo", "sha256:x").await.unwrap_err(),
        store.kept_bytes().await.unwrap_err(),
        store.prune(std::time::Duration::ZERO).await.unwrap_err(),
        store.add_counts("t1", &counts).await.unwrap_err(),
        store.add_counts("t1", &TrialCounts::default()).await.unwrap_err(),
        store.audit("echo", 10).await.unwrap_err(),
    ];
    tokio::time::resume();
    for error in errors {
        assert!(matches!(error, VersionsError::Unavailable(_)), "{error:?}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
