//! Tools that an administrator may look after, and a note of what was done with them.

use parking_lot::Mutex;
use std::collections::BTreeMap;

use agent_core::ports::{AdminAction, AdminError, AdminResult, ComponentView, Operator, ToolAdmin, Upload};
use agent_core::words::{
    AuditLine, CallCounts, ComponentFacts, ComponentRecord, ComponentVersion, Finding, Impact, Thresholds,
    ToolFacts, Trial, TrialCounts, TrialKind, TrialState, VersionDiff, VersionSource, VersionStatus,
};
use boxed_async::boxed_async;
use serde_json::json;
use tokio::sync::Semaphore;

/// Digest of the version of `calculator` that waits.
pub(crate) const WAITING: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

/// Digest of the one that serves.
pub(crate) const APPROVED: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

/// Digest of the one that served before.
const FIRST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// 2026-11-21T12:00:00.000Z.
const NOON: u64 = 1_795_262_400_000;

/// `calculator`, of which a version waits, and `search`, whose canary failed.
pub(crate) struct Tools {
    components: Mutex<BTreeMap<String, ComponentView>>,
    done: Mutex<Vec<String>>,
    error: Mutex<Option<AdminError>>,
    /// Uploads that have begun, and those that may end.
    begun: Semaphore,
    may_end: Semaphore,
}

impl Default for Tools {
    fn default() -> Self {
        Self {
            components: Mutex::new([calculator(), search()].map(|view| (view.name.clone(), view)).into()),
            done: Mutex::default(),
            error: Mutex::default(),
            begun: Semaphore::new(0),
            may_end: Semaphore::new(Semaphore::MAX_PERMITS),
        }
    }
}

impl Tools {
    /// What was asked for since the last time.
    pub(crate) fn take_done(&self) -> Vec<String> {
        std::mem::take(&mut self.done.lock())
    }

    /// From now on everything ends in this.
    pub(crate) fn fail_with(&self, error: AdminError) {
        *self.error.lock() = Some(error);
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut ComponentView)) {
        change(self.components.lock().get_mut(name).unwrap());
    }

    /// From now on uploads do not end before [`Self::let_end`].
    pub(crate) fn hold_uploads(&self) {
        self.may_end.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn let_end(&self, count: usize) {
        self.may_end.add_permits(count);
    }

    /// Waits until so many uploads more have begun.
    pub(crate) async fn begun(&self, count: u32) {
        self.begun.acquire_many(count).await.unwrap().forget();
    }

    fn note(&self, what: String) -> AdminResult {
        self.done.lock().push(what);
        self.error.lock().clone().map_or(Ok(()), Err)
    }

    fn changed(&self, name: &str, change: impl FnOnce(&mut ComponentRecord)) -> AdminResult<ComponentView> {
        let mut components = self.components.lock();
        let view = components.get_mut(name).ok_or(AdminError::UnknownComponent)?;
        view.revision += 1;
        change(&mut view.record);
        Ok(view.clone())
    }
}

#[boxed_async]
impl ToolAdmin for Tools {
    async fn list(&self) -> AdminResult<Vec<ComponentView>> {
        self.note("list".into())?;
        Ok(self.components.lock().values().cloned().collect())
    }

    async fn get(&self, name: &str) -> AdminResult<ComponentView> {
        self.note(format!("get {name}"))?;
        self.components.lock().get(name).cloned().ok_or(AdminError::UnknownComponent)
    }

    async fn diff(&self, name: &str, from: Option<&str>, to: Option<&str>) -> AdminResult<VersionDiff> {
        self.note(format!("diff {name} {from:?} {to:?}"))?;
        Ok(VersionDiff {
            from: Some(APPROVED.into()),
            to: WAITING.into(),
            facts_digest: None,
            impact: Impact::Review,
            widens: true,
            changes_what_models_read: false,
            findings: vec![Finding {
                impact: Impact::Review,
                place: "grants".into(),
                text: "it wants http, which it was not granted".into(),
            }],
        })
    }

    async fn audit(&self, name: &str) -> AdminResult<Vec<AuditLine>> {
        self.note(format!("audit {name}"))?;
        let line = |at, action: &str, digest: Option<&str>| AuditLine {
            at,
            by: "user:a1".into(),
            action: action.into(),
            digest: digest.map(str::to_owned),
            detail: if digest.is_some() { "it widens its grants".into() } else { String::new() },
        };
        Ok(vec![line(NOON + 1, "disabled", None), line(NOON, "proposed", Some(WAITING))])
    }

    async fn upload(&self, name: &str, upload: Upload, operator: Operator<'_>) -> AdminResult<ComponentView> {
        let by = operator.by;
        self.begun.add_permits(1);
        self.may_end.acquire().await.unwrap().forget();
        let Upload { bytes, signature } = upload;
        self.note(format!("{by} uploads {name}: {} bytes, signature {signature:?}", bytes.len()))?;
        let digest = format!("sha256:{}", hex(&bytes));
        let is_new = !self.components.lock().contains_key(name);
        if is_new {
            self.components.lock().insert(name.into(), new_component(name));
        }
        let status = match is_new {
            true => VersionStatus::Approved { by: "first".into(), at: NOON },
            false => VersionStatus::Waiting { because: vec!["the description changed".into()] },
        };
        let source = VersionSource::Upload { user_id: by.into() };
        self.changed(name, |record| {
            let active = is_new.then(|| digest.clone());
            record.active = active.or(record.active.take());
            record.versions.insert(0, version(&digest, status, source));
        })
    }

    async fn act(
        &self,
        name: &str,
        action: AdminAction,
        operator: Operator<'_>,
    ) -> AdminResult<ComponentView> {
        let by = operator.by;
        self.note(format!("{by} on {name}: {action:?}"))?;
        let is_deleted = action == AdminAction::Delete;
        self.changed(name, |record| record.deleted = is_deleted)
    }

    fn most_upload_bytes(&self) -> u64 {
        1_000_000
    }
}

/// The SHA-256 of what the tests upload.
fn hex(bytes: &[u8]) -> &'static str {
    match bytes {
        b"\0asm" => "cd5d4935a48c0672cb06407bb443bc0087aff947c6b864bac886982c73b3027f",
        _ => "something else",
    }
}

fn new_component(name: &str) -> ComponentView {
    ComponentView {
        name: name.into(),
        revision: 0,
        record: ComponentRecord { enabled: true, ..ComponentRecord::default() },
        serving: None,
        fault: None,
        described: None,
        counts: None,
    }
}

fn version(digest: &str, status: VersionStatus, source: VersionSource) -> ComponentVersion {
    let tool = ToolFacts {
        name: "calculate".into(),
        description: "Computes.".into(),
        input_schema: json!({"type": "object", "properties": {"at": {"type": "number"}}}),
        output_schema: None,
        hints: [("pure".to_owned(), "true".to_owned())].into(),
    };
    let facts = ComponentFacts {
        bytes: 4096,
        contract: "agent:tool@0.1.1".into(),
        imports: vec!["agent:tool/log@0.1.1".into()],
        wants: vec![],
        tells_users_apart: false,
        signer: None,
        tools: vec![tool],
    };
    ComponentVersion { digest: digest.into(), source, proposed_at: NOON, status, facts }
}

fn calculator() -> ComponentView {
    let waiting = VersionStatus::Waiting { because: vec!["it wants http".into()] };
    let mut waiting = version(WAITING, waiting, VersionSource::Upload { user_id: "a1".into() });
    waiting.facts.wants = vec!["http".into()];
    waiting.facts.signer = Some("ed25519:ab".into());
    let approved = VersionStatus::Approved { by: "user:a1".into(), at: NOON + 1 };
    ComponentView {
        revision: 7,
        record: ComponentRecord {
            enabled: true,
            active: Some(APPROVED.into()),
            previous: vec![FIRST.into()],
            versions: vec![waiting, version(APPROVED, approved, VersionSource::Folder)],
            known: vec![WAITING.into(), APPROVED.into(), FIRST.into()],
            ..ComponentRecord::default()
        },
        serving: Some(APPROVED.into()),
        ..new_component("calculator")
    }
}

/// A component whose texts are those of a stranger who wants to deceive whoever reads them.
fn search() -> ComponentView {
    let mut calls =
        CallCounts { calls: 20, failed: 3, trapped: 3, durations: vec![0, 4, 16], ..CallCounts::default() };
    let new = calls.clone();
    (calls.failed, calls.trapped) = (0, 0);
    let trial = Trial {
        id: "t1".into(),
        kind: TrialKind::Canary,
        digest: WAITING.into(),
        against: FIRST.into(),
        share: 0.25,
        thresholds: Thresholds::default(),
        by: "user:a1".into(),
        since: NOON,
        state: TrialState::Failed {
            because: vec!["3 calls trapped; allowed are 0".into()],
            at: NOON + 60_000,
        },
    };
    let approved = VersionStatus::Approved { by: "first".into(), at: NOON };
    let mut version = version(FIRST, approved, VersionSource::CommandLine { from: "search.wasm".into() });
    version.facts.tools[0].description = "safe\u{202e}lufmrah\u{1b}[2J<script>\"\u{200b}".into();
    ComponentView {
        revision: 3,
        record: ComponentRecord {
            enabled: true,
            active: Some(FIRST.into()),
            versions: vec![version],
            trial: Some(trial),
            ..ComponentRecord::default()
        },
        fault: Some("search.wasm cannot be read: \u{1b}]0;root\u{7}".into()),
        counts: Some(TrialCounts { old: calls, new, ..TrialCounts::default() }),
        ..new_component("search")
    }
}
