//! Services over one store of versions, for tests.
#![expect(clippy::disallowed_methods, reason = "replicas and callers of a test run beside it")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{
    AdminAction, AdminResult, ComponentView, Operator, Preparing, ToolAdmin, ToolRequest, ToolSet, Toolbox,
    TrialOptions, TrialRequest, Upload,
};
use agent_core::testing::TestToolVersions;
use agent_core::words::{
    AuditLine, Principal, Thresholds, ToolCall, ToolOutcome, TrialKind, TrialState, VersionStatus,
};
use bytes::Bytes;
use serde_json::json;
use tempfile::TempDir;
use test_servers::eventually;
use tool_host::{PolicyFile, ToolHost, ToolLimits};

use crate::harness::{Host, Seen, config, limits, policy};
use crate::text::Text;

/// Who changes things, whatever there is.
pub(crate) const ANN: Operator<'_> = Operator { by: "ann", expected: None };

/// The tool `greet` with this answer.
pub(crate) fn answering(value: &str) -> Vec<u8> {
    Text { tool: "greet", value, ..Text::default() }.component()
}

pub(crate) fn named(tool: &str) -> Vec<u8> {
    Text { tool, ..Text::default() }.component()
}

pub(crate) fn traps() -> Vec<u8> {
    Text { tool: "greet", call: "unreachable", ..Text::default() }.component()
}

/// Services over one store.
pub(crate) struct Fleet {
    pub(crate) store: Arc<TestToolVersions>,
    needs_approval: bool,
    pub(crate) limits: ToolLimits,
    pub(crate) policy: PolicyFile,
    pub(crate) folder_may_be_absent: bool,
}

impl Fleet {
    pub(crate) fn new(needs_approval: bool) -> Self {
        Self {
            store: Arc::default(),
            needs_approval,
            limits: limits(),
            policy: PolicyFile::None,
            folder_may_be_absent: false,
        }
    }

    /// One with a policy of this text, and the folder that it lies in.
    pub(crate) fn under(needs_approval: bool, text: &str) -> (Self, TempDir) {
        let (policy, folder) = policy(text);
        (Self { policy, ..Self::new(needs_approval) }, folder)
    }

    /// A replica with these files in a folder of its own.
    pub(crate) async fn replica(&self, files: &[(&str, &[u8])]) -> Replica {
        let tools = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(tools.path().join(name), bytes).unwrap();
        }
        self.over(tools).await
    }

    /// A replica with these files, when all of them were approved.
    pub(crate) async fn approved_replica(&self, files: &[(&str, &[u8])]) -> Replica {
        let replica = self.replica(files).await;
        for (file, _) in files {
            let name = file.strip_suffix(".wasm").unwrap();
            replica.until_known(name).await;
            replica.act(name, approve()).await.unwrap();
        }
        replica
    }

    /// A replica on which `old` serves as `greet`, and `newer` was uploaded and rolled back, with the digest
    /// of the one that serves.
    pub(crate) async fn rolled_back(&self, old: &[u8], newer: &[u8]) -> (Replica, String) {
        let replica = self.replica(&[("greet.wasm", old)]).await;
        let first = replica.get("greet").await.record.active.unwrap();
        replica.upload("greet", newer).await;
        replica.act("greet", AdminAction::Rollback(Some(first.clone()))).await.unwrap();
        (replica, first)
    }

    pub(crate) async fn over(&self, tools: TempDir) -> Replica {
        let cache = tempfile::tempdir().unwrap();
        self.start(tools, cache).await
    }

    /// The replica that a restart makes of this one, with what it finds in its folders.
    pub(crate) async fn restart(&self, replica: Replica) -> Replica {
        let (tools, cache) = replica.stop();
        self.start(tools, cache).await
    }

    pub(crate) async fn start(&self, tools: TempDir, cache: TempDir) -> Replica {
        let seen = Arc::new(Seen::default());
        let mut config = config(tools.path(), self.limits.clone(), seen.clone());
        config.cache = Some(cache.path().to_owned());
        config.versions = Some(self.store.clone());
        config.needs_approval = self.needs_approval;
        config.policy = self.policy.clone();
        config.folder_may_be_absent = self.folder_may_be_absent;
        let host = Arc::new(ToolHost::start(config).await.unwrap());
        let watched = host.clone();
        let watching = tokio::spawn(async move { watched.watch().await });
        let host = Host { host, tools, seen };
        let replica = Replica { host, watching, cache };
        replica.until(|host| host.host.preparing() == Preparing::default()).await;
        replica
    }
}

/// One that follows its folder and the store.
pub(crate) struct Replica {
    pub(crate) host: Host,
    watching: tokio::task::JoinHandle<()>,
    pub(crate) cache: TempDir,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Replica {
    pub(crate) async fn until(&self, is_so: impl Fn(&Host) -> bool) {
        let so = async {
            while !is_so(&self.host) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), so).await.expect("it becomes so");
    }

    /// Waits until a component was proposed.
    pub(crate) async fn until_known(&self, name: &str) {
        eventually("it to be proposed", async || self.host.host.get(name).await.ok()).await;
    }

    /// Waits until the trial of `greet` has failed, and says why.
    pub(crate) async fn until_failed(&self) -> Vec<String> {
        eventually("the trial to fail", async || failure(&self.get("greet").await)).await
    }

    /// The newest line of the audit trail: who did what.
    pub(crate) async fn newest_line(&self, name: &str) -> AuditLine {
        self.host.host.audit(name).await.unwrap().remove(0)
    }

    /// Ends it, and gives back what a restart finds.
    pub(crate) fn stop(mut self) -> (TempDir, TempDir) {
        self.watching.abort();
        let tools = std::mem::replace(&mut self.host.tools, tempfile::tempdir().unwrap());
        let cache = std::mem::replace(&mut self.cache, tempfile::tempdir().unwrap());
        (tools, cache)
    }

    pub(crate) async fn upload(&self, name: &str, component: &[u8]) -> ComponentView {
        let upload = Upload { bytes: Bytes::copy_from_slice(component), signature: None };
        self.host.host.upload(name, upload, ANN).await.unwrap()
    }

    pub(crate) async fn act(&self, name: &str, action: AdminAction) -> AdminResult<ComponentView> {
        self.host.host.act(name, action, ANN).await
    }

    pub(crate) async fn get(&self, name: &str) -> ComponentView {
        self.host.host.get(name).await.unwrap()
    }

    /// What the tool answers.
    pub(crate) async fn says(&self) -> String {
        self.host.call("greet", json!({})).await.content
    }
}

pub(crate) fn approve() -> AdminAction {
    AdminAction::Approve { digest: None, facts: None, serve: true }
}

pub(crate) fn attempt(kind: TrialKind, share: f64, thresholds: Thresholds) -> AdminAction {
    let options = TrialOptions { share, thresholds };
    AdminAction::Try(kind, TrialRequest { digest: None, options })
}

/// Why the trial has failed.
pub(crate) fn failure(view: &ComponentView) -> Option<Vec<String>> {
    match &view.record.trial.as_ref()?.state {
        TrialState::Failed { because, .. } => Some(because.clone()),
        _ => None,
    }
}

/// Whether the run `run_1` has other tools than those that serve.
pub(crate) fn is_canary(host: &Host) -> bool {
    let caller = Principal::nobody();
    let of_run = host.host.for_run(caller, "run_1");
    of_run.catalog().digest() != host.host.current_for(caller).catalog().digest()
}

pub(crate) fn is_waiting(view: &ComponentView) -> bool {
    matches!(view.record.versions[0].status, VersionStatus::Waiting { .. })
}

/// A trial of the version with that digest as a canary that serves every run.
pub(crate) fn canary_of(digest: &str) -> AdminAction {
    let options = TrialOptions { share: 1.0, thresholds: Thresholds::default() };
    AdminAction::Try(TrialKind::Canary, TrialRequest { digest: Some(digest.into()), options })
}

pub(crate) async fn call_of(tools: &dyn ToolSet, run_id: &str, call_id: &str) -> (ToolOutcome, String) {
    let call = ToolCall { id: "1".into(), name: "greet".into(), arguments: json!({}) };
    let deadline = Instant::now() + Duration::from_secs(60);
    let request = ToolRequest { run_id, call_id, ..ToolRequest::outside_of_runs("r", &call, deadline) };
    let answer = tools.call(request).await;
    (answer.receipt.outcome, answer.content)
}
