//! What operators do with the tools while they serve. The rules are in `tool-versions`, and what all replicas
//! know is in the store that `rollout/` writes; here the two are asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_core::ports::{
    AdminAction, AdminError, AdminResult, ComponentView, Operator, ToolAdmin, TrialRequest, Upload, Versioned,
};
use agent_core::words::{
    AuditLine, ComponentRecord, ComponentVersion, FoundDescription, TrialCounts, VersionDiff, VersionSource,
    is_component_name,
};
use boxed_async::boxed_async;
use tool_policy::sha256;
use tool_policy::signature::SignerKey;
use tool_versions::diff::{Compared, Granted, diff};
use tool_versions::record::{Change, is_approved};
use uuid::Uuid;

use super::ToolHost;
use crate::component::component_facts::facts_digest;
use crate::error::LoadError;
use crate::folder::Content;
use crate::inventory::shown_server;
use crate::limits::MOST_COMPONENT_BYTES;
use crate::load::approved::{Approved, found};
use crate::load::{self, Source};
use crate::rollout::{Proposal, Rollout, check_expected, refused};

/// Most lines of an audit trail that are shown.
const MOST_AUDIT_LINES: u32 = 200;

#[boxed_async]
impl ToolAdmin for ToolHost {
    async fn list(&self) -> AdminResult<Vec<ComponentView>> {
        let records = self.rollout()?.store().records().await.map_err(refused)?;
        let components = records.components.into_iter().filter(|(_, found)| !found.record.deleted);
        Ok(components.map(|(name, found)| self.view(name, found, None)).collect())
    }

    async fn get(&self, name: &str) -> AdminResult<ComponentView> {
        let found = self.found(name).await?;
        let counts = self.counts(&found.record).await;
        Ok(self.view(name.to_owned(), found, counts))
    }

    async fn diff(&self, name: &str, from: Option<&str>, to: Option<&str>) -> AdminResult<VersionDiff> {
        let record = self.found(name).await?.record;
        let newest = record.versions.first().map(|version| version.digest.as_str());
        let to = to.or(newest).ok_or_else(|| AdminError::UnknownVersion("it has no versions".into()))?;
        let to = version(&record, to)?;
        let from = from.or(record.active.as_deref()).map(|from| version(&record, from)).transpose()?;
        let is_same = from.is_some_and(|from| from.digest == to.digest && is_approved(from));
        let now = if is_same { self.described_now(name, to).await } else { Ok(None) };
        // One that cannot be loaded has a fault that says so, and describes itself in no other way.
        let now =
            now.or_else(|error| if matches!(error, AdminError::Refused(_)) { Ok(None) } else { Err(error) })?;
        let policy = self.runtime.grants.current();
        let grants = |version: &ComponentVersion| {
            let signer = version.facts.signer.as_deref().and_then(SignerKey::parse);
            policy.grants_shown(name, &version.digest, signer.as_ref())
        };
        let (granted_from, granted_to) = (from.map(grants).unwrap_or_default(), grants(to));
        let granted = Granted { from: &granted_from, to: &granted_to };
        let from = from.map(|from| Compared { digest: &from.digest, facts: &from.facts });
        let facts = now.as_ref().map_or(&to.facts, |now| &now.facts);
        let diff = diff(from, Compared { digest: &to.digest, facts }, Some(granted));
        Ok(VersionDiff { facts_digest: now.map(|now| now.facts_digest), ..diff })
    }

    async fn audit(&self, name: &str) -> AdminResult<Vec<AuditLine>> {
        check_name(name)?;
        let lines = self.rollout()?.store().audit(name, MOST_AUDIT_LINES).await.map_err(refused)?;
        if lines.is_empty() { Err(AdminError::UnknownComponent) } else { Ok(lines) }
    }

    async fn upload(&self, name: &str, upload: Upload, operator: Operator<'_>) -> AdminResult<ComponentView> {
        let source = VersionSource::Upload { user_id: operator.by.to_owned() };
        let by = format!("user:{}", operator.by);
        let (view, _) = self.propose(name, upload, source, Operator { by: &by, ..operator }).await?;
        Ok(view)
    }

    async fn act(
        &self,
        name: &str,
        action: AdminAction,
        operator: Operator<'_>,
    ) -> AdminResult<ComponentView> {
        let by = format!("user:{}", operator.by);
        self.change(name, action, Operator { by: &by, ..operator }).await
    }

    fn most_upload_bytes(&self) -> u64 {
        MOST_COMPONENT_BYTES
    }
}

impl ToolHost {
    /// Proposes a version that came from `source`. `operator.by` is recorded as it is. Returns what is so
    /// then, and whether the proposal changed anything: a version that is known already does not.
    pub async fn propose(
        &self,
        name: &str,
        upload: Upload,
        source: VersionSource,
        operator: Operator<'_>,
    ) -> AdminResult<(ComponentView, bool)> {
        let rollout = self.rollout()?;
        check_name(name)?;
        if upload.bytes.len() as u64 > MOST_COMPONENT_BYTES {
            return Err(AdminError::Refused(format!(
                "the component has more than {MOST_COMPONENT_BYTES} bytes, the most one may have"
            )));
        }
        let Upload { bytes, signature } = upload;
        let hashed = tokio::task::spawn_blocking(move || (sha256(&bytes), Arc::new(Vec::from(bytes)))).await;
        let (digest, bytes) = hashed.map_err(|error| AdminError::Unavailable(error.to_string()))?;
        let content =
            Content { bytes, digest, signature: signature.map(|signature| signature.to_vec()), permit: None };
        let given = Source::Given(content.clone());
        let loaded = load::load(self.runtime.clone(), name, &given, content).await;
        let (component, content) =
            loaded.map_err(|error| AdminError::Refused(format!("{name}.wasm {error}")))?;
        rollout.replace_damaged(name, &content).await?;
        let proposal = Proposal {
            is_in_policy: self.runtime.grants.names(component.identity()),
            component: &component,
            content: &content,
            source,
            by: operator.by.to_owned(),
            expected: operator.expected,
            known_when_found: None,
        };
        let changed = rollout.propose(proposal).await?;
        Ok((self.settled(name).await?, changed))
    }

    /// Does something with a component, and returns what is so then. `operator.by` is recorded as it is.
    pub async fn change(
        &self,
        name: &str,
        action: AdminAction,
        operator: Operator<'_>,
    ) -> AdminResult<ComponentView> {
        let rollout = self.rollout()?;
        let found = self.found(name).await?;
        self.check_bytes(name, &found.record, &action).await?;
        let described = self.described_anew(name, &found.record, &action).await?;
        let id = format!("trial_{}", Uuid::now_v7().simple());
        let change = |found: &Versioned| {
            check_expected(found, operator.expected)?;
            Ok(described.clone().unwrap_or_else(|| as_change(&action, &id)))
        };
        rollout.change(name, operator.by, change).await?;
        if action == AdminAction::Delete {
            rollout.until_served().await;
            return Ok(self.view(name.to_owned(), self.record(name).await?.unwrap_or_default(), None));
        }
        self.settled(name).await
    }

    /// What is so when this replica serves it.
    async fn settled(&self, name: &str) -> AdminResult<ComponentView> {
        self.rollout()?.until_served().await;
        self.get(name).await
    }

    /// Refuses to have a version serve whose bytes are gone.
    async fn check_bytes(&self, name: &str, record: &ComponentRecord, action: &AdminAction) -> AdminResult {
        let digest = match action {
            AdminAction::Rollback(digest) => digest.as_ref().or(record.earlier()),
            AdminAction::Approve { digest, .. } | AdminAction::Promote(digest) => digest.as_ref(),
            AdminAction::Try(_, TrialRequest { digest, .. }) => digest.as_ref(),
            _ => None,
        };
        let Some(digest) = digest.filter(|digest| version(record, digest).is_ok()) else { return Ok(()) };
        let rollout = Some(self.rollout()?.clone());
        let kept = Source::Kept { rollout, memory: None, name: name.to_owned(), digest: digest.clone() };
        match kept.read(&self.runtime).await {
            Ok(_) => Ok(()),
            Err(LoadError::Gone) => Err(AdminError::UnknownVersion(format!(
                "the bytes of {digest} are gone: upload or install that version again, or choose another one"
            ))),
            Err(error) => {
                tracing::warn!(component = name, %error, "the bytes of a version cannot be read");
                Err(AdminError::Unavailable("the store of tool versions does not answer: try again".into()))
            }
        }
    }

    /// Approving the digest of an approved version that describes itself otherwise now approves that
    /// description: the change for it, if there is such a difference. It has to be the one that was looked
    /// at, which the approval says with the digest of its facts.
    async fn described_anew(
        &self,
        name: &str,
        record: &ComponentRecord,
        action: &AdminAction,
    ) -> AdminResult<Option<Change>> {
        let AdminAction::Approve { digest, facts: seen, .. } = action else { return Ok(None) };
        let named = digest.as_ref().and_then(|digest| version(record, digest).ok());
        let now = match named.filter(|version| is_approved(version)) {
            Some(approved) => self.described_now(name, approved).await?,
            None => None,
        };
        let recorded = || named.map(|version| facts_digest(&version.facts));
        match (now, seen) {
            (Some(now), Some(seen)) if *seen == now.facts_digest => {
                Ok(Some(Change::Described { digest: now.digest, facts: Box::new(now.facts) }))
            }
            (None, None) => Ok(None),
            (None, Some(seen)) if recorded().is_some_and(|recorded| recorded == *seen) => Ok(None),
            (Some(now), _) => Err(AdminError::Conflict(format!(
                "{} describes itself otherwise than when it was approved: compare it with itself, and approve it with {}, \
                 the digest of the facts that you looked at",
                now.digest, now.facts_digest
            ))),
            (None, Some(seen)) => Err(AdminError::Conflict(format!(
                "{seen} is not the digest of the facts of a version that the approval names: look at it again"
            ))),
        }
    }

    /// How an approved version describes itself now, if that is not what was approved of it.
    async fn described_now(
        &self,
        name: &str,
        approved: &ComponentVersion,
    ) -> AdminResult<Option<FoundDescription>> {
        let (rollout, digest) = (Some(self.rollout()?.clone()), approved.digest.clone());
        let source = Source::Kept { rollout, memory: None, name: name.to_owned(), digest };
        let loaded = load::load_from(self.runtime.clone(), name, &source).await;
        let component = loaded.map_err(|error| AdminError::Refused(format!("{name}.wasm {error}")))?;
        let is_as_approved = Approved::Facts(Box::new(approved.facts.clone())).admits(&component);
        Ok((!is_as_approved).then(|| found(&component)))
    }

    async fn found(&self, name: &str) -> AdminResult<Versioned> {
        let found = self.record(name).await?.filter(|found| !found.record.deleted);
        found.ok_or(AdminError::UnknownComponent)
    }

    async fn record(&self, name: &str) -> AdminResult<Option<Versioned>> {
        let rollout = self.rollout()?;
        check_name(name)?;
        rollout.store().record(name).await.map_err(refused)
    }

    async fn counts(&self, record: &ComponentRecord) -> Option<TrialCounts> {
        let trial = record.trial.as_ref()?;
        // What is added is nothing: only the sums are asked for.
        let sums = self.rollout.as_ref()?.store().add_counts(&trial.id, &TrialCounts::default()).await;
        let sums =
            sums.inspect_err(|error| tracing::debug!(%error, "what a trial has counted cannot be read"));
        // An operator is not told how often each user called.
        sums.ok().map(|sums| TrialCounts { users: BTreeMap::new(), ..sums })
    }

    fn view(&self, name: String, found: Versioned, counts: Option<TrialCounts>) -> ComponentView {
        let published = self.published.load();
        let serving = published.serving.all.components().iter().find(|component| *component.name == *name);
        let files = [format!("{name}.wasm"), shown_server(&name)];
        let fault = published.faults.iter().find(|fault| files.contains(&fault.file));
        ComponentView {
            serving: serving.map(|component| component.digest.clone()),
            fault: fault.map(|fault| fault.error.clone()),
            described: published.described.get(&name).cloned(),
            name,
            revision: found.revision,
            record: found.record,
            counts,
        }
    }

    fn rollout(&self) -> AdminResult<&Arc<Rollout>> {
        self.rollout.as_ref().ok_or(AdminError::NoStore)
    }
}

fn check_name(name: &str) -> AdminResult {
    if is_component_name(name) {
        return Ok(());
    }
    let text = "the name of a component has 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'";
    Err(AdminError::Invalid(text.into()))
}

fn version<'a>(record: &'a ComponentRecord, digest: &str) -> AdminResult<&'a ComponentVersion> {
    let found = record.versions.iter().find(|version| version.digest == digest);
    found.ok_or_else(|| {
        let digests: Vec<_> = record.versions.iter().map(|version| version.digest.as_str()).collect();
        AdminError::UnknownVersion(format!("it has no version of that digest; it has {}", digests.join(", ")))
    })
}

fn as_change(action: &AdminAction, trial_id: &str) -> Change {
    match action.clone() {
        AdminAction::Approve { digest, serve, facts: _ } => Change::Approve { digest, serve },
        AdminAction::Enable => Change::Enable,
        AdminAction::Disable => Change::Disable,
        AdminAction::Rollback(digest) => Change::Rollback(digest),
        AdminAction::Try(kind, request) => Change::Try { id: trial_id.to_owned(), kind, request },
        AdminAction::EndTrial => Change::EndTrial,
        AdminAction::Promote(digest) => Change::Promote(digest),
        AdminAction::Delete => Change::Delete,
    }
}
