//! Looking after the tools while they serve: what an operator may ask and do.

use boxed_async::boxed_async;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::words::{
    AuditLine, ComponentRecord, FoundDescription, Thresholds, TrialCounts, TrialKind, VersionDiff,
};

/// Shows and changes which versions of components serve. A change is made as a whole or not at all, also when
/// its future is dropped.
#[boxed_async]
pub trait ToolAdmin: Send + Sync {
    /// Every component, by name; deleted ones are left out.
    async fn list(&self) -> AdminResult<Vec<ComponentView>>;

    async fn get(&self, name: &str) -> AdminResult<ComponentView>;

    /// What differs between two of its versions, by default between the one that serves and the newest
    /// proposal. An approved version that is compared with itself is loaded: the difference is between what
    /// was approved of it and how it describes itself now.
    async fn diff(&self, name: &str, from: Option<&str>, to: Option<&str>) -> AdminResult<VersionDiff>;

    /// Who did what, newest first.
    async fn audit(&self, name: &str) -> AdminResult<Vec<AuditLine>>;

    /// Proposes a version: it is loaded, described and compared, and kept if it can serve. Whether it serves
    /// now or waits for an approval stands in the answer.
    async fn upload(&self, name: &str, upload: Upload, operator: Operator<'_>) -> AdminResult<ComponentView>;

    /// Does something, and returns what is so after it.
    async fn act(
        &self,
        name: &str,
        action: AdminAction,
        operator: Operator<'_>,
    ) -> AdminResult<ComponentView>;

    /// Most bytes of an upload.
    fn most_upload_bytes(&self) -> u64;
}

/// Who changes something, and what they have seen.
#[derive(Debug, Clone, Copy)]
pub struct Operator<'a> {
    /// Id of the user; what is done is recorded under it.
    pub by: &'a str,
    /// The revisions of the component that the change may be made to; any when absent.
    pub expected: Option<&'a [u64]>,
}

/// A version that somebody proposes.
#[derive(Debug, Clone)]
pub struct Upload {
    /// The component.
    pub bytes: Bytes,
    /// What signs it, as in `<name>.wasm.sig`.
    pub signature: Option<Bytes>,
}

/// What can be done with a component. A digest that is left out is the obvious one: that of the newest
/// proposal, of the version that served before, of the version that is tried.
#[derive(Debug, Clone, PartialEq)]
pub enum AdminAction {
    /// Lets a version serve that waits.
    Approve {
        /// The version.
        digest: Option<String>,
        /// The digest of the facts that were looked at. An approved version that describes itself otherwise
        /// now is approved anew only with the digest of how it does.
        facts: Option<String>,
        /// Whether it serves at once. Otherwise it can be tried first.
        serve: bool,
    },
    /// Has the component serve again after `Disable`.
    Enable,
    /// Has it serve no longer; its versions stay.
    Disable,
    /// Has an earlier version serve.
    Rollback(Option<String>),
    /// Tries a version beside the one that serves, or for a share of the runs.
    Try(TrialKind, TrialRequest),
    /// Ends a trial; what serves stays.
    EndTrial,
    /// Ends a trial and has the version serve that was tried.
    Promote(Option<String>),
    /// Removes the component and all its versions.
    Delete,
}

/// How a version is to be tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TrialOptions {
    /// The share of calls or runs that it gets.
    pub share: f64,
    /// When it has failed or passed.
    pub thresholds: Thresholds,
}

/// Which version is to be tried, and how.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrialRequest {
    /// The version.
    pub digest: Option<String>,
    pub options: TrialOptions,
}

/// What an operator sees of a component.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentView {
    /// Name of the component.
    pub name: String,
    /// Rises with every change.
    pub revision: u64,
    /// What all replicas know of it.
    #[serde(flatten)]
    pub record: ComponentRecord,
    /// Digest of the version that this replica serves now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<String>,
    /// Why this replica does not serve what it should, or cannot take up what lies in its folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// How the version that is to serve describes itself, where this replica refuses it because that is not
    /// what was approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub described: Option<FoundDescription>,
    /// What the trial has counted on all replicas until now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<TrialCounts>,
}

impl Default for TrialOptions {
    fn default() -> Self {
        Self { share: 0.05, thresholds: Thresholds::default() }
    }
}

/// The result of an operation of an administrator of tools.
pub type AdminResult<T = ()> = Result<T, AdminError>;

/// Why an operator's wish is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// There is no component of that name.
    #[error("there is no component of that name")]
    UnknownComponent,
    /// The component has no such version, or the bytes of that version are gone.
    #[error("{0}")]
    UnknownVersion(String),
    /// Something in the request cannot be: the name, the digest, a threshold.
    #[error("{0}")]
    Invalid(String),
    /// The component cannot serve: the text says what is wrong and what to do.
    #[error("{0}")]
    Refused(String),
    /// The change cannot be made in the state that the component is in, or somebody else changed it at the
    /// same time.
    #[error("{0}")]
    Conflict(String),
    /// The component is at another revision than the change was meant for.
    #[error("The component is at revision {revision}: read it again and decide anew")]
    Changed { revision: u64 },
    /// There is no store for versions.
    #[error(
        "this service has no database to keep versions of tools in: set DATABASE_URL, or work with the tools folder"
    )]
    NoStore,
    /// The store cannot be reached.
    #[error("{0}")]
    Unavailable(String),
}
