//! The versions of a component: what is known of each, which of them serves, and how a new one is tried.
//!
//! A [`ComponentRecord`] is all that a store keeps of one component beside the bytes of its versions. Who may
//! change it and when is decided in the tool host; here is only what it looks like. Its JSON is kept by
//! stores and read by operators: new fields are optional.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A moment, in milliseconds since the beginning of 1970.
pub type Millis = u64;

/// Everything that is known of one component. The name stands beside it: that of its file without `.wasm`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ComponentRecord {
    /// Whether it is to serve at all.
    pub enabled: bool,
    /// Whether it was deleted: then it has no versions, and only what it once had is known.
    #[serde(skip_serializing_if = "is_false")]
    pub deleted: bool,
    /// Digest of the version that serves; absent while none was approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
    /// Since when that version serves; absent in records that an earlier release of the service wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_since: Option<Millis>,
    /// Digests of the versions that served before, the last one first: what a rollback goes back to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<String>,
    /// Digests among `previous` that a rollback took back, or the host because their calls trapped: only a
    /// rollback that names one of them goes back to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withdrawn: Vec<String>,
    /// The versions whose bytes are kept, newest proposal first.
    pub versions: Vec<ComponentVersion>,
    /// Every digest that was ever proposed, the newest first, as far as is remembered: a file that has one of
    /// them is no new proposal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<String>,
    /// How a version is being tried, or what came of the last trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
}

impl ComponentRecord {
    /// The version that a rollback without a digest goes back to: the last that served before and was not
    /// withdrawn.
    pub fn earlier(&self) -> Option<&String> {
        self.previous.iter().find(|digest| !self.withdrawn.contains(digest))
    }

    /// The newest version that waits for an approval.
    pub fn newest_waiting(&self) -> Option<&ComponentVersion> {
        self.versions.iter().find(|version| matches!(version.status, VersionStatus::Waiting { .. }))
    }

    /// Under this the replicas add up the first calls of the version that serves: another id each time one
    /// comes to serve. Absent while none serves.
    pub fn first_calls_id(&self, name: &str) -> Option<String> {
        let (digest, since) = (self.active.as_ref()?, self.active_since?);
        Some(format!("first calls of {name} {since} {digest}"))
    }

    /// The version that an operator is to look at next: the newest that waits, unless a newer one serves.
    pub fn next_to_approve(&self) -> Option<&ComponentVersion> {
        let newer = self.versions.iter().take_while(|version| self.active.as_ref() != Some(&version.digest));
        newer.into_iter().find(|version| matches!(version.status, VersionStatus::Waiting { .. }))
    }
}

/// One version of a component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentVersion {
    /// `sha256:…` of its bytes.
    pub digest: String,
    /// Where it came from.
    pub source: VersionSource,
    /// When it was proposed.
    pub proposed_at: Millis,
    /// Whether it may serve.
    pub status: VersionStatus,
    /// What it is.
    pub facts: ComponentFacts,
}

/// Where a version came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum VersionSource {
    /// A file of the tools folder.
    Folder,
    /// The admin API.
    Upload {
        /// Id of the admin.
        #[schema(rename = "userId", example = "ops-1")]
        user_id: String,
    },
    /// The command line.
    CommandLine {
        /// The file, or the pinned reference `oci://…@sha256:…`.
        #[schema(example = "calculator.wasm")]
        from: String,
    },
}

/// Whether a version may serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum VersionStatus {
    /// It waits for an operator's approval.
    Waiting {
        /// Why it does.
        because: Vec<String>,
    },
    /// It may.
    Approved {
        /// Who said so: `user:<id>`, `policy`, `off` or `command line`; in records of earlier releases
        /// `unchanged` or `first`.
        by: String,
        /// When.
        at: Millis,
    },
}

/// What a version is, as far as operators and models can see it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComponentFacts {
    /// Bytes of the component.
    #[schema(example = 58_112)]
    pub bytes: u64,
    /// What it was built for: `agent:tool@0.1.1`, or `typed`.
    #[schema(example = "agent:tool@0.1.1")]
    pub contract: String,
    /// The interfaces that it imports: what the host answers first, each part sorted.
    #[schema(example = json!(["agent:tool/log@0.1.1"]))]
    pub imports: Vec<String>,
    /// What of that is the operator's to grant, as the policy names it: `http`, `key-value`, `toolbox`, …;
    /// sorted.
    #[schema(example = json!(["http"]))]
    pub wants: Vec<String>,
    /// Whether it can tell users apart.
    #[schema(example = false)]
    pub tells_users_apart: bool,
    /// The key that signed it, as the policy names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "release")]
    pub signer: Option<String>,
    /// Its tools, by name.
    pub tools: Vec<ToolFacts>,
}

/// What a tool of a version is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolFacts {
    /// Its name.
    #[schema(example = "add")]
    pub name: String,
    /// What the model reads.
    #[schema(example = "Adds two numbers.")]
    pub description: String,
    /// JSON Schema of the arguments.
    #[schema(example = json!({"type": "object"}))]
    pub input_schema: Value,
    /// JSON Schema of the output, if it declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = json!({"type": "object"}))]
    pub output_schema: Option<Value>,
    /// What it says of itself.
    #[schema(example = json!({"read-only": "true"}))]
    pub hints: BTreeMap<String, String>,
}

/// A version beside the one that serves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    /// Names it: under this the replicas add up what they count.
    pub id: String,
    /// What is done with it.
    pub kind: TrialKind,
    /// The version.
    pub digest: String,
    /// The version that served when the trial began: what the new one is compared with.
    pub against: String,
    /// The share of calls (shadow) or runs (canary) that it gets, above 0 and up to 1.
    pub share: f64,
    /// When it has failed and when it has passed.
    pub thresholds: Thresholds,
    /// Who began it.
    pub by: String,
    /// When.
    pub since: Millis,
    /// Whether it goes on.
    pub state: TrialState,
}

/// What is done with a version that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum TrialKind {
    /// It gets a share of the calls beside the version that serves; its answers are compared and thrown away.
    Shadow,
    /// It serves a share of the runs.
    Canary,
}

/// Whether a trial goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum TrialState {
    /// It does.
    Running,
    /// The version was withdrawn.
    Failed {
        /// What it did.
        because: Vec<String>,
        /// When it was noticed.
        at: Millis,
    },
    /// It held everything that was asked for; it serves if the thresholds said so.
    Passed {
        /// When.
        at: Millis,
    },
    /// Somebody ended it, or something else made it pointless.
    Ended {
        /// Why.
        because: String,
        /// When.
        at: Millis,
    },
}

/// When a trial has failed, and when it has passed. Whatever is left out is the default.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Thresholds {
    /// Calls of the new version before anything but its traps is judged.
    #[schema(example = 20)]
    pub min_calls: u64,
    /// Most that its share of failed calls may be above that of the old version.
    #[schema(minimum = 0, maximum = 1, example = 0.02)]
    pub max_error_rate: f64,
    /// Most calls that may end in a trap.
    #[schema(example = 0)]
    pub max_traps: u64,
    /// Most that its p99 may be of the old version's.
    #[schema(minimum = 0, example = 2.0)]
    pub max_p99_ratio: f64,
    /// Least share of a shadow's answers that must equal those of the old version.
    #[schema(minimum = 0, maximum = 1, example = 1.0)]
    pub min_agreement: f64,
    /// Calls after which it has passed; 0: never by itself.
    #[schema(example = 0)]
    pub pass_after: u64,
    /// Whether a version that has passed serves from then on. Otherwise it waits for `promote`.
    #[schema(example = false)]
    pub promote: bool,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            min_calls: 20,
            max_error_rate: 0.02,
            max_traps: 0,
            max_p99_ratio: 2.0,
            min_agreement: 1.0,
            pass_after: 0,
            promote: false,
        }
    }
}

/// Something that was done with a component, for whoever asks later who did what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditLine {
    /// When.
    pub at: Millis,
    /// Who: `user:<id>`, `folder`, `command line`, or `host` for what the host does by itself.
    pub by: String,
    /// What: `proposed`, `approved`, `enabled`, `disabled`, `rolled back`, `deleted`, `shadow`, `canary`,
    /// `promoted`, …
    pub action: String,
    /// The version that it was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// More, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// How far one version is from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Impact {
    /// Whoever calls or reads it notices nothing, or only more of what it was.
    Safe,
    /// The model reads something else, or it may reach more: somebody should look.
    Review,
    /// Calls that were right are refused, or answers have another form.
    Breaking,
}

/// How an approved version describes itself now, where that is not what was approved of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundDescription {
    /// Digest of the version.
    #[schema(example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    pub digest: String,
    /// Digest of the facts, which an approval of them names.
    #[schema(example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    pub facts_digest: String,
    /// The facts.
    pub facts: ComponentFacts,
}

/// What differs between two versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionDiff {
    /// Digest of the older one; absent when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        nullable = false,
        example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    )]
    pub from: Option<String>,
    /// Digest of the newer one.
    #[schema(example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    pub to: String,
    /// Digest of the facts found, where a version is compared with itself and describes itself otherwise now
    /// than when it was approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        nullable = false,
        example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    )]
    pub facts_digest: Option<String>,
    /// The gravest of the findings; safe without any.
    pub impact: Impact,
    /// Whether it imports or is granted more than the older one.
    #[schema(example = false)]
    pub widens: bool,
    /// Whether the model would read something else.
    #[schema(example = true)]
    pub changes_what_models_read: bool,
    /// Each difference.
    pub findings: Vec<Finding>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How grave it is.
    pub impact: Impact,
    /// Where: `size`, `imports`, `grants`, `tools.<name>`, `tools.<name>.description`,
    /// `tools.<name>.input.<path>`, …
    #[schema(example = "tools.add.description")]
    pub place: String,
    /// What, in a sentence.
    #[schema(example = "The description is another one.")]
    pub text: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}
