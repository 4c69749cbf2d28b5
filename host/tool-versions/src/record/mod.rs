//! What may be done with a component, and what its record is afterwards: every change of a
//! [`ComponentRecord`] is one call of [`apply`].
//!
//! A record is read, changed here and written by compare-and-swap; when somebody else was first it is read
//! again and decided again, so nothing here may depend on having been called before. What changes nothing is
//! not written.
//!
//! What holds for every record, whatever was done:
//! - The version that serves (`active`) is approved, and its entry is kept.
//! - `previous` has the versions that served before it, each once, the last one first, at most
//!   `draft::MOST_PREVIOUS`; their entries are kept, so a rollback finds their bytes.
//! - At most `proposals::MOST_VERSIONS` entries are kept, and at most `proposals::MOST_KNOWN` digests are
//!   remembered.
//! - A trial that runs is of a kept version that does not serve, against the one that serves.
//!
//! `proposals` takes versions in and decides what is kept, `rollback` is which version serves, `canary` is
//! how one is tried.

mod canary;
pub(super) mod draft;
pub(super) mod proposals;
mod rollback;

use agent_core::ports::{AdminError, AdminResult, TrialRequest};
use agent_core::words::{AuditLine, ComponentFacts, ComponentRecord, ComponentVersion, Millis, TrialKind};

use draft::Draft;

pub use draft::is_approved;
pub use proposals::says_nothing_new;

/// Something that is to be done with a component.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Somebody proposes a version; `approval` has decided on its status.
    Proposed(Box<ComponentVersion>),
    /// A file is proposed that was found when these digests were known. A version that was proposed while the
    /// file was being loaded is newer than it.
    Found { version: Box<ComponentVersion>, known: Vec<String> },
    /// A file of the component, which had that digest, is no longer in the tools folder.
    FileGone { digest: String },
    /// The component is an MCP server, whose tools had that digest, and is no longer in the policy.
    ServerGone { digest: String },
    /// A version that waits may serve; left out, the newest that waits.
    Approve {
        digest: Option<String>,
        /// Whether it is to serve at once. Otherwise it may be tried first.
        serve: bool,
    },
    /// A version describes itself in another way than when it was approved, and that is approved now.
    Described { digest: String, facts: Box<ComponentFacts> },
    /// The component is to serve again.
    Enable,
    /// The component is to serve no longer.
    Disable,
    /// An earlier version is to serve; left out, the last one. While a canary runs that is the version it is
    /// tried against, and only the canary ends.
    Rollback(Option<String>),
    /// A version is to be tried; left out, the newest proposal.
    Try {
        /// Names the trial; new for each.
        id: String,
        kind: TrialKind,
        request: TrialRequest,
    },
    /// The trial is to end; what serves stays.
    EndTrial,
    /// A version is to serve that is tried or was; or any that is approved, if it is named.
    Promote(Option<String>),
    /// The component is to go, with all its versions.
    Delete,
    /// The host found a trial to have failed.
    TrialFailed { trial: String, because: Vec<String> },
    /// The host found a trial to have passed.
    TrialPassed { trial: String },
    /// The host found that calls of the version that serves trap, since it came to serve then.
    Trapped { digest: String, since: Millis, because: String },
}

/// What a component's record is after a change that `by` makes, and the line for its audit trail. Nothing
/// when the change makes no difference. `by` is `user:<id>`, `policy`, `folder`, `command line` or `host`; a
/// component that nothing is known of has the default record.
pub fn apply(
    record: &ComponentRecord,
    change: Change,
    by: &str,
    now: Millis,
) -> AdminResult<Option<(ComponentRecord, AuditLine)>> {
    let exists = !record.deleted && !record.known.is_empty();
    let is_unasked = matches!(
        change,
        Change::Proposed(_)
            | Change::Found { .. }
            | Change::FileGone { .. }
            | Change::ServerGone { .. }
            | Change::TrialFailed { .. }
            | Change::TrialPassed { .. }
            | Change::Trapped { .. }
    );
    if !exists && !is_unasked {
        return Err(AdminError::UnknownComponent);
    }
    let mut draft = Draft::new(record, by, now);
    match change {
        Change::Proposed(version) => proposals::propose(&mut draft, *version, None)?,
        Change::Found { version, known } => proposals::propose(&mut draft, *version, Some(&known))?,
        Change::FileGone { digest } => rollback::file_gone(&mut draft, &digest),
        Change::ServerGone { digest } => rollback::server_gone(&mut draft, &digest),
        Change::Approve { digest, serve } => rollback::approve(&mut draft, digest, serve)?,
        Change::Described { digest, facts } => rollback::described(&mut draft, &digest, *facts)?,
        Change::Enable => rollback::enable(&mut draft),
        Change::Disable => rollback::disable(&mut draft),
        Change::Rollback(digest) => rollback::roll_back(&mut draft, digest)?,
        Change::Try { id, kind, request } => canary::begin(&mut draft, id, kind, request)?,
        Change::EndTrial => canary::end(&mut draft)?,
        Change::Promote(digest) => canary::promote(&mut draft, digest)?,
        Change::Delete => rollback::delete(&mut draft),
        Change::TrialFailed { trial, because } => canary::failed(&mut draft, &trial, because),
        Change::TrialPassed { trial } => canary::passed(&mut draft, &trial),
        Change::Trapped { digest, since, because } => {
            rollback::trapped(&mut draft, &digest, since, because);
        }
    }
    Ok(draft.finish())
}
