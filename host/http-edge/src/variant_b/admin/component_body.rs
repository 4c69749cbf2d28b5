//! A component as operators read it: what the port tells of it, with moments as text and with words for what
//! an operator asks first.

use agent_core::ports::ComponentView;
use agent_core::words::{
    AuditLine, ComponentFacts, ComponentVersion, FoundDescription, Thresholds, Trial, TrialCounts, TrialKind,
    TrialState, VersionSource, VersionStatus,
};
use axum::response::Response;
use http::header::ETAG;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::timestamp::iso_8601_of_millis;
use super::digest::EXAMPLE;
use crate::answer;

/// Everything about a component, under its revision as tag. `uploaded` is the digest of what was just
/// proposed.
pub(super) fn answer(status: StatusCode, view: &ComponentView, uploaded: Option<&str>) -> Response {
    let mut answer = answer::visible_json(status, &ComponentBody::new(view, uploaded));
    // Digits and quotes are always fit for a header.
    if let Ok(tag) = HeaderValue::try_from(format!("\"{}\"", view.revision)) {
        answer.headers_mut().insert(ETAG, tag);
    }
    answer
}

/// A list of whatever was asked for.
#[derive(Serialize)]
pub(super) struct Page<T> {
    pub(super) data: Vec<T>,
}

/// One word for how a component is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ComponentStatus)]
enum Status {
    /// This replica serves the version that is to serve.
    Serving,
    /// This replica serves, but another version than is to serve.
    Outdated,
    /// A version is to serve, and this replica serves none.
    Down,
    /// No version was approved yet.
    Waiting,
    /// Its file was taken out of the tools folder.
    Stopped,
    /// An operator has switched it off.
    Disabled,
    /// It was removed.
    Deleted,
}

impl Status {
    fn of(view: &ComponentView) -> Self {
        let record = &view.record;
        match (&record.active, &view.serving) {
            _ if record.deleted => Self::Deleted,
            _ if !record.enabled => Self::Disabled,
            (None, _) if !record.previous.is_empty() => Self::Stopped,
            (None, _) => Self::Waiting,
            (Some(active), Some(serving)) if active == serving => Self::Serving,
            (Some(_), Some(_)) => Self::Outdated,
            (Some(_), None) => Self::Down,
        }
    }
}

/// A component in the list of all.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ComponentSummary)]
pub(super) struct Listed<'a> {
    /// Its file without `.wasm`.
    #[schema(example = "calculator")]
    name: &'a str,
    /// Rises with every change.
    #[schema(example = 7)]
    revision: u64,
    /// How it is.
    status: Status,
    /// Digest of the version that is to serve; absent while none was approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = json!(EXAMPLE))]
    active: Option<&'a str>,
    /// Digest of the version that this replica serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = json!(EXAMPLE))]
    serving: Option<&'a str>,
    /// How many versions wait for an approval.
    #[schema(example = 1)]
    waiting: usize,
    /// Why this replica does not serve what it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "search.wasm cannot be read")]
    fault: Option<&'a str>,
    /// How a version is being tried, or what came of the last trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    trial: Option<ListedTrial<'a>>,
}

/// How a version is being tried.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TrialSummary)]
struct ListedTrial<'a> {
    /// What is done with the version.
    kind: TrialKind,
    /// The version.
    #[schema(example = json!(EXAMPLE))]
    digest: &'a str,
    /// `running`, `failed`, `passed` or `ended`.
    #[schema(example = "running")]
    state: &'static str,
}

impl<'a> From<&'a ComponentView> for Listed<'a> {
    fn from(view: &'a ComponentView) -> Self {
        let waits = |version: &&ComponentVersion| matches!(version.status, VersionStatus::Waiting { .. });
        Self {
            name: &view.name,
            revision: view.revision,
            status: Status::of(view),
            active: view.record.active.as_deref(),
            serving: view.serving.as_deref(),
            waiting: view.record.versions.iter().filter(waits).count(),
            fault: view.fault.as_deref(),
            trial: view.record.trial.as_ref().map(|trial| ListedTrial {
                kind: trial.kind,
                digest: &trial.digest,
                state: match trial.state {
                    TrialState::Running => "running",
                    TrialState::Failed { .. } => "failed",
                    TrialState::Passed { .. } => "passed",
                    TrialState::Ended { .. } => "ended",
                },
            }),
        }
    }
}

/// Everything about a component.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Component)]
pub(super) struct ComponentBody<'a> {
    /// Its file without `.wasm`.
    #[schema(example = "calculator")]
    name: &'a str,
    /// Rises with every change.
    #[schema(example = 7)]
    revision: u64,
    /// How it is.
    status: Status,
    /// Whether it is to serve at all.
    #[schema(example = true)]
    enabled: bool,
    /// Digest of what was just proposed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = json!(EXAMPLE))]
    uploaded: Option<&'a str>,
    /// Digest of the version that is to serve; absent while none was approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = json!(EXAMPLE))]
    active: Option<&'a str>,
    /// Digest of the version that this replica serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = json!(EXAMPLE))]
    serving: Option<&'a str>,
    /// Why this replica does not serve what it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "search.wasm cannot be read")]
    fault: Option<&'a str>,
    /// How the version that is to serve describes itself, where this replica refuses it because that is not
    /// what was approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    described: Option<&'a FoundDescription>,
    /// Digests of the versions that served before, the last one first.
    #[schema(example = json!([EXAMPLE]))]
    previous: &'a [String],
    /// Digests of these that a rollback took back, or the host because their calls trapped: only a rollback
    /// that names one brings it back.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(required = false, example = json!([EXAMPLE]))]
    withdrawn: &'a [String],
    /// How a version is being tried, or what came of the last trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    trial: Option<TrialBody<'a>>,
    /// The versions whose bytes are kept, the newest first.
    versions: Vec<VersionBody<'a>>,
    /// Every digest that was ever proposed, as far as is remembered, the newest first.
    #[schema(example = json!([EXAMPLE]))]
    known: &'a [String],
}

impl<'a> ComponentBody<'a> {
    fn new(view: &'a ComponentView, uploaded: Option<&'a str>) -> Self {
        let record = &view.record;
        Self {
            name: &view.name,
            revision: view.revision,
            status: Status::of(view),
            enabled: record.enabled,
            uploaded,
            active: record.active.as_deref(),
            serving: view.serving.as_deref(),
            fault: view.fault.as_deref(),
            described: view.described.as_ref(),
            previous: &record.previous,
            withdrawn: &record.withdrawn,
            trial: record.trial.as_ref().map(|trial| TrialBody::new(trial, view.counts.as_ref())),
            versions: record.versions.iter().map(|version| VersionBody::new(version, view)).collect(),
            known: &record.known,
        }
    }
}

/// What is common to all that is told of a version.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = VersionHead)]
struct VersionHead<'a> {
    /// Of its bytes.
    #[schema(example = json!(EXAMPLE))]
    digest: &'a str,
    /// Whether it is the one that is to serve.
    #[schema(example = true)]
    active: bool,
    /// Whether this replica serves it.
    #[schema(example = true)]
    serving: bool,
    /// Whether it may serve.
    status: StatusBody<'a>,
    /// Where it came from.
    source: &'a VersionSource,
    /// When it was proposed.
    #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
    proposed_at: String,
}

impl<'a> VersionHead<'a> {
    fn new(version: &'a ComponentVersion, view: &ComponentView) -> Self {
        let is_it = |digest: &Option<String>| digest.as_deref() == Some(&*version.digest);
        Self {
            digest: &version.digest,
            active: is_it(&view.record.active),
            serving: is_it(&view.serving),
            status: match &version.status {
                VersionStatus::Waiting { because } => StatusBody::Waiting { because },
                VersionStatus::Approved { by, at } => {
                    StatusBody::Approved { by, at: iso_8601_of_millis(*at) }
                }
            },
            source: &version.source,
            proposed_at: iso_8601_of_millis(version.proposed_at),
        }
    }
}

/// Whether a version may serve.
#[derive(Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[schema(as = VersionStatus)]
enum StatusBody<'a> {
    /// An operator has to approve it first.
    Waiting {
        /// Why.
        #[schema(example = json!(["It imports more than the version that serves"]))]
        because: &'a [String],
    },
    /// It may.
    Approved {
        /// Who said so.
        #[schema(example = "user:ops-1")]
        by: &'a str,
        /// When.
        #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
        at: String,
    },
}

/// A version with all its facts.
#[derive(Serialize, ToSchema)]
#[schema(as = Version)]
struct VersionBody<'a> {
    #[serde(flatten)]
    head: VersionHead<'a>,
    /// What it is.
    facts: &'a ComponentFacts,
}

impl<'a> VersionBody<'a> {
    fn new(version: &'a ComponentVersion, view: &ComponentView) -> Self {
        Self { head: VersionHead::new(version, view), facts: &version.facts }
    }
}

/// A version in the list of a component's versions.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = VersionSummary)]
pub(super) struct VersionLine<'a> {
    #[serde(flatten)]
    head: VersionHead<'a>,
    /// Bytes of the component.
    #[schema(example = 58_112)]
    bytes: u64,
    /// What it was built for.
    #[schema(example = "agent:tool@0.1.1")]
    contract: &'a str,
    /// What of its imports is the operator's to grant.
    #[schema(example = json!(["http"]))]
    wants: &'a [String],
    /// The key that signed it, as the policy names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "release")]
    signer: Option<&'a str>,
    /// Names of its tools.
    #[schema(example = json!(["calculate"]))]
    tools: Vec<&'a str>,
}

impl<'a> VersionLine<'a> {
    pub(super) fn new(version: &'a ComponentVersion, view: &ComponentView) -> Self {
        let ComponentFacts { bytes, contract, wants, signer, tools, .. } = &version.facts;
        Self {
            head: VersionHead::new(version, view),
            bytes: *bytes,
            contract,
            wants,
            signer: signer.as_deref(),
            tools: tools.iter().map(|tool| &*tool.name).collect(),
        }
    }
}

/// A trial, what it has counted, and what came of it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Trial)]
struct TrialBody<'a> {
    /// Names it.
    #[schema(example = "trial_1")]
    id: &'a str,
    /// What is done with the version.
    kind: TrialKind,
    /// The version.
    #[schema(example = json!(EXAMPLE))]
    digest: &'a str,
    /// The version that it is compared with.
    #[schema(example = json!(EXAMPLE))]
    against: &'a str,
    /// The share of the calls or runs that it gets.
    #[schema(minimum = 0, maximum = 1, example = 0.05)]
    share: f64,
    /// When it has failed and when it has passed.
    thresholds: Thresholds,
    /// Who began it.
    #[schema(example = "ops-1")]
    by: &'a str,
    /// When.
    #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
    since: String,
    /// Whether it goes on.
    state: TrialStateBody<'a>,
    /// What it has counted on all replicas until now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    counts: Option<&'a TrialCounts>,
}

/// Whether a trial goes on.
#[derive(Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[schema(as = TrialState)]
enum TrialStateBody<'a> {
    /// It does.
    Running,
    /// The version was withdrawn.
    Failed {
        /// What it did.
        #[schema(example = json!(["2 of 20 calls failed"]))]
        because: &'a [String],
        /// When it was noticed.
        #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
        at: String,
    },
    /// It held everything that was asked for.
    Passed {
        /// When.
        #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
        at: String,
    },
    /// Somebody ended it.
    Ended {
        /// Why.
        #[schema(example = "ended by an operator")]
        because: &'a str,
        /// When.
        #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
        at: String,
    },
}

impl<'a> TrialBody<'a> {
    fn new(trial: &'a Trial, counts: Option<&'a TrialCounts>) -> Self {
        let Trial { id, kind, digest, against, share, thresholds, by, since, state } = trial;
        Self {
            id,
            kind: *kind,
            digest,
            against,
            share: *share,
            thresholds: *thresholds,
            by,
            since: iso_8601_of_millis(*since),
            state: match state {
                TrialState::Running => TrialStateBody::Running,
                TrialState::Failed { because, at } => {
                    TrialStateBody::Failed { because, at: iso_8601_of_millis(*at) }
                }
                TrialState::Passed { at } => TrialStateBody::Passed { at: iso_8601_of_millis(*at) },
                TrialState::Ended { because, at } => {
                    TrialStateBody::Ended { because, at: iso_8601_of_millis(*at) }
                }
            },
            counts,
        }
    }
}

/// Something that was done.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditEntry)]
pub(super) struct AuditBody<'a> {
    /// When.
    #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
    at: String,
    /// Who: `user:<id>`, `folder`, `command line` or `host`.
    #[schema(example = "user:ops-1")]
    by: &'a str,
    /// What.
    #[schema(example = "approved")]
    action: &'a str,
    /// The version that it was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = json!(EXAMPLE))]
    digest: Option<&'a str>,
    /// More, in a sentence.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(example = "First version.")]
    detail: &'a str,
}

impl<'a> From<&'a AuditLine> for AuditBody<'a> {
    fn from(line: &'a AuditLine) -> Self {
        let AuditLine { at, by, action, digest, detail } = line;
        Self { at: iso_8601_of_millis(*at), by, action, digest: digest.as_deref(), detail }
    }
}
