//! The versions of components: what every replica agrees on.
//!
//! A record is one document that is changed by compare-and-swap: whoever changes it reads it, decides, and
//! writes it with the revision that was read; of two at once the second is told so and decides again.
//! Components are kept beside it under the digests of their bytes.

pub mod stored;

use std::collections::BTreeMap;
use std::time::Duration;

use boxed_async::boxed_async;
use bytes::Bytes;

use crate::words::{AuditLine, ComponentRecord, TrialCounts};

/// Longest name of a component, in bytes.
pub const MOST_NAME_BYTES: usize = 64;

/// Longest record, in bytes of its JSON.
pub const MOST_RECORD_BYTES: usize = 4 << 20;

/// Longest line of an audit trail, in bytes of its JSON.
pub const MOST_AUDIT_LINE_BYTES: usize = 16 << 10;

/// Longest digest, and longest id of a trial, in bytes.
pub const MOST_ID_BYTES: usize = 256;

/// Largest component, in bytes.
pub const MOST_COMPONENT_BYTES: usize = 64 << 20;

/// Largest signature, in bytes.
pub const MOST_SIGNATURE_BYTES: usize = 64 << 10;

/// Most lines of one reading of an audit trail.
pub const MOST_AUDIT_LINES: u32 = 1000;

/// Keeps what every replica agrees on about components. Every operation fails within a time limit of the
/// store when that does not answer.
///
/// Names, digests and ids are plain text to a store. What is longer than the constants of this file is
/// [`VersionsError::TooLarge`] where it would be written, and was never there where it is read.
///
/// Writes are not cancellation-safe: dropped, or failed with [`VersionsError::Unavailable`], one may have
/// been carried out or not, but never in part and never twice.
#[boxed_async]
pub trait ToolVersions: Send + Sync {
    /// A number that rises with every write of a record: whoever knows the records of this number has nothing
    /// to read.
    async fn revision(&self) -> VersionsResult<u64>;

    /// Every record, by component, each with its own revision, and the number that
    /// [`revision`](Self::revision) had then or before. A record that cannot be read is left out and logged
    /// as a warning, so that one damaged record does not take the others away; [`record`](Self::record) fails
    /// for it, and it still counts for [`write`](Self::write) and [`prune`](Self::prune).
    async fn records(&self) -> VersionsResult<Records>;

    /// One record. `None` when there never was one.
    async fn record(&self, name: &str) -> VersionsResult<Option<Versioned>>;

    /// Writes a record and the line that says who changed what, both or neither, if its revision is
    /// `expected`, where 0 means that there is none. Returns its new revision. [`VersionsError::Conflict`] if
    /// it is another one: nothing was written then. A record that could not be read back is refused as
    /// [`VersionsError::Unreadable`].
    async fn write(
        &self,
        name: &str,
        expected: u64,
        record: &ComponentRecord,
        audit: &AuditLine,
    ) -> VersionsResult<u64>;

    /// Keeps a component's bytes under `sha256:…` of them, and its signature under that and the name, which
    /// it is over. Bytes that are kept already stay as they are; a signature replaces that of the same name.
    /// Either way the bytes count as kept now, for [`prune`](Self::prune).
    async fn keep(&self, name: &str, digest: &str, component: &KeptComponent) -> VersionsResult;

    /// Keeps a component's bytes in the place of those that are kept under the digest and are damaged, which
    /// [`keep`](Self::keep) leaves as they are. Signatures stay.
    async fn replace(&self, name: &str, digest: &str, component: &KeptComponent) -> VersionsResult;

    /// The bytes that are kept under a digest, with the signature of that name. The caller checks the digest:
    /// a store is not trusted with it.
    async fn component(&self, name: &str, digest: &str) -> VersionsResult<Option<KeptComponent>>;

    /// How many bytes all components have that are kept, whether or not a record names them.
    async fn kept_bytes(&self) -> VersionsResult<u64>;

    /// Removes components that no record names among its versions or as the one that serves, and that were
    /// last kept `grace` ago or longer. Says how many. Removes counts of trials that no record has, too.
    /// Whoever keeps a component and writes the record that names it within `grace` never loses it, whoever
    /// prunes at the same time.
    async fn prune(&self, grace: Duration) -> VersionsResult<u64>;

    /// Adds what one replica counted to the counts of a trial, and says the sums. Counts of a trial whose id
    /// no record has may be removed at any time.
    async fn add_counts(&self, trial: &str, counts: &TrialCounts) -> VersionsResult<TrialCounts>;

    /// The last lines about a component, newest first: at most `most`, and at most [`MOST_AUDIT_LINES`]. A
    /// line that cannot be read is left out and logged.
    async fn audit(&self, name: &str, most: u32) -> VersionsResult<Vec<AuditLine>>;

    /// Whether records that other processes write are announced here, so that [`announced`](Self::announced)
    /// ends with each. Programs of earlier releases announce nothing.
    fn is_announced(&self) -> bool {
        false
    }

    /// Waits for such an announcement, or until [`is_announced`](Self::is_announced) says something else. For
    /// one caller at a time. Cancellation-safe.
    async fn announced(&self) {
        std::future::pending().await
    }

    /// Listens to announcements, for ever. Nothing is announced unless this runs.
    async fn listen(&self) {
        std::future::pending().await
    }
}

/// The records of all components.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    /// Rises with every write.
    pub revision: u64,
    /// By name.
    pub components: BTreeMap<String, Versioned>,
}

/// A record and its revision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Versioned {
    /// The record's own, from 1.
    pub revision: u64,
    /// What it says.
    pub record: ComponentRecord,
}

/// A component's bytes and its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptComponent {
    /// The component.
    pub bytes: Bytes,
    /// What lay beside it as `<name>.wasm.sig`.
    pub signature: Option<Bytes>,
}

/// The result of an operation on a store of tool versions.
pub type VersionsResult<T = ()> = Result<T, VersionsError>;

/// Why versions cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum VersionsError {
    /// Somebody else wrote it meanwhile.
    #[error("somebody else changed the component at the same time")]
    Conflict,
    /// The name, the record, the audit line or the bytes are longer than the store takes.
    #[error("{0}")]
    TooLarge(String),
    /// The store cannot be reached or did not answer. The operation may have been carried out or not, never
    /// in part.
    #[error("the store of tool versions is not available: {0}")]
    Unavailable(String),
    /// What is kept cannot be read: it is damaged, or a newer version of the service wrote it.
    #[error("what is kept of component {name} cannot be read: {problem}")]
    Unreadable {
        /// The component, the digest of the version, or the trial.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
}
