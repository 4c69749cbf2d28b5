//! Which versions of components serve, where that is kept in a store: every replica follows the same records.
//!
//! Whoever wants something changed (the folder, the admin API, a trial that has failed) reads the record, has
//! the crate `tool-versions` decide what becomes of it, and writes it by compare-and-swap
//! ([`Rollout::change`]). Whoever serves follows the records (`inventory/`). `canary.rs` counts what versions
//! do that are tried, `trap_rollback.rs` what a version does that has come to serve, both in a
//! `call_counter.rs`; `counted.rs` adds that to the store, and judges it. `shadow.rs` makes the calls of a
//! shadow, `overlay.rs` is where those write values. `recent_users.rs` knows whether there are several users.

mod call_counter;
mod canary;
mod counted;
mod overlay;
mod recent_users;
mod shadow;
mod trap_rollback;

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tool_versions::approval::{self, Circumstances};
use tool_versions::diff::{Compared, diff};
use tool_versions::record::{self, Change, is_approved};

use agent_core::ports::{
    AdminError, AdminResult, KeptComponent, Records, ToolVersions, Versioned, VersionsError,
};
use agent_core::words::{ComponentRecord, ComponentVersion, Millis, VersionSource};
use bytes::Bytes;
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};

use crate::component::Component;
use crate::folder::Content;
use crate::observer::Observer;

pub(crate) use call_counter::Side;
pub(crate) use canary::{RunningTrial, TrialPart};
pub(crate) use counted::Counted;
pub(crate) use overlay::Overlay;
pub(crate) use recent_users::RecentUsers;
pub(crate) use shadow::{ShadowCall, Shadows};
pub(crate) use trap_rollback::FirstCalls;

/// How often a change is decided anew because somebody else was faster.
const MOST_TRIES: usize = 16;

/// Longest time whoever changed something waits until this replica serves it.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10);

/// How long a component that no record names is kept: its proposal may be on its way.
const GRACE: Duration = Duration::from_hours(1);

/// Most bytes of components that are kept and that nobody has approved: those that wait, and those that wait
/// no longer and are not removed yet. Whoever may write the tools folder would else fill the database.
const MOST_WAITING_BYTES: u64 = 2 << 30;

/// Who does what the host does by itself.
pub(crate) const HOST: &str = "host";

/// The records, and what this replica adds to them.
pub(crate) struct Rollout {
    store: Arc<dyn ToolVersions>,
    /// Whether what an operator should look at waits for one.
    needs_approval: bool,
    most_waiting_bytes: u64,
    /// Held from when it is known that a version fits until it is recorded.
    proposing: AsyncMutex<()>,
    /// Something was changed here, so that the records are to be read at once.
    changed: Notify,
    /// The revision of the records that this replica serves.
    served: watch::Sender<u64>,
    /// Whether this process serves, and so follows the records.
    is_followed: bool,
    /// The versions whose calls are counted now.
    counted: Mutex<Counted>,
    /// The descriptions that this process has had the records take over: versions, each with the digest of
    /// its facts.
    pub(crate) taken_over: Mutex<BTreeSet<String>>,
    observer: Arc<dyn Observer>,
}

/// A version that somebody proposes, when it was loaded.
pub(crate) struct Proposal<'a> {
    pub(crate) component: &'a Component,
    pub(crate) content: &'a Content,
    pub(crate) source: VersionSource,
    /// Who proposes it.
    pub(crate) by: String,
    /// The revisions of the component that it may be proposed to; any when absent.
    pub(crate) expected: Option<&'a [u64]>,
    /// The digests that its component was known by when it was found in the folder; absent for what somebody
    /// sends.
    pub(crate) known_when_found: Option<Vec<String>>,
    /// Whether the policy names its digest or signer.
    pub(crate) is_in_policy: bool,
}

impl Rollout {
    pub(crate) fn new(
        store: Arc<dyn ToolVersions>,
        needs_approval: bool,
        is_followed: bool,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            store,
            needs_approval,
            most_waiting_bytes: MOST_WAITING_BYTES,
            proposing: AsyncMutex::default(),
            changed: Notify::new(),
            served: watch::Sender::new(0),
            is_followed,
            counted: Mutex::default(),
            taken_over: Mutex::default(),
            observer,
        }
    }

    pub(crate) fn store(&self) -> &dyn ToolVersions {
        &*self.store
    }

    /// Waits until something was changed here.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Adds up what trials have counted, judges them with the users that called lately, and reads the records
    /// if they are others than those of `known`.
    pub(crate) async fn sync(
        &self,
        known: Option<u64>,
        users: &RecentUsers,
    ) -> Result<Option<Records>, VersionsError> {
        self.settle_counts(users).await;
        if known.is_some() && Some(self.store.revision().await?) == known {
            return Ok(None);
        }
        self.store.records().await.map(Some)
    }

    /// Changes a record as `decide` says, which is asked again when somebody else was faster.
    pub(crate) async fn change(
        &self,
        name: &str,
        by: &str,
        decide: impl Fn(&Versioned) -> Result<Change, AdminError>,
    ) -> AdminResult<Versioned> {
        self.change_if_needed(name, by, decide).await.map(|(changed, _)| changed)
    }

    /// Changes a record like [`change`](Self::change), and says whether this call changed anything.
    async fn change_if_needed(
        &self,
        name: &str,
        by: &str,
        decide: impl Fn(&Versioned) -> Result<Change, AdminError>,
    ) -> AdminResult<(Versioned, bool)> {
        for _ in 0..MOST_TRIES {
            let found = self.store.record(name).await.map_err(refused)?.unwrap_or_default();
            let change = decide(&found)?;
            let Some((next, audit)) = record::apply(&found.record, change, by, now())? else {
                return Ok((found, false));
            };
            match self.store.write(name, found.revision, &next, &audit).await {
                Ok(revision) => {
                    tracing::info!(
                        component = name,
                        by,
                        action = audit.action,
                        digest = audit.digest,
                        detail = audit.detail,
                        "the versions of a component changed"
                    );
                    self.changed.notify_one();
                    return Ok((Versioned { revision, record: next }, true));
                }
                Err(VersionsError::Conflict) => tokio::task::yield_now().await,
                Err(error) => return Err(refused(error)),
            }
        }
        Err(AdminError::Conflict("others change the component all the time: try again".into()))
    }

    /// Proposes a version, and says whether its component's record is another one for that. Its bytes are
    /// kept first, so that no record names what is not there.
    pub(crate) async fn propose(&self, proposal: Proposal<'_>) -> AdminResult<bool> {
        let Proposal { component, content, source, by, expected, known_when_found, is_in_policy } = proposal;
        // The command line does not know what the services ask for: one that asks nobody approves it.
        let required = self.needs_approval || matches!(source, VersionSource::CommandLine { .. });
        let _one_at_a_time = self.proposing.lock().await;
        if required && !is_in_policy {
            self.check_room(&content.digest, component.bytes).await?;
        }
        self.keep(&component.name, content).await?;
        let facts = component.facts();
        let now = now();
        let (_, changed) = self
            .change_if_needed(&component.name, &by, |found| {
                check_expected(found, expected)?;
                let record = &found.record;
                let record = (*record != ComponentRecord::default()).then_some(record);
                let serving = approval::baseline(record);
                let serving =
                    serving.map(|version| Compared { digest: &version.digest, facts: &version.facts });
                let circumstances = Circumstances {
                    required,
                    named_in_policy: is_in_policy,
                    diff: &diff(serving, Compared { digest: &content.digest, facts: &facts }, None),
                    now,
                };
                let version = Box::new(ComponentVersion {
                    digest: content.digest.clone(),
                    status: approval::review(record, &circumstances),
                    source: source.clone(),
                    proposed_at: now,
                    facts: facts.clone(),
                });
                Ok(match known_when_found.clone() {
                    Some(known) => Change::Found { version, known },
                    None => Change::Proposed(version),
                })
            })
            .await?;
        Ok(changed)
    }

    /// Keeps the bytes of a version, and its signature under that name.
    pub(crate) async fn keep(&self, name: &str, content: &Content) -> AdminResult {
        let kept = KeptComponent {
            bytes: Bytes::from_owner(SharedBytes(content.bytes.clone())),
            signature: content.signature.clone().map(Bytes::from),
        };
        self.store.keep(name, &content.digest, &kept).await.map_err(refused)
    }

    /// Keeps the bytes of a version anew where what is kept under their digest is something else.
    pub(crate) async fn replace_damaged(&self, name: &str, content: &Content) -> AdminResult {
        let is_damaged = match self.store.component(name, &content.digest).await {
            Ok(kept) => kept.is_some_and(|kept| kept.bytes != *content.bytes),
            Err(VersionsError::Unreadable { .. }) => true,
            Err(error) => return Err(refused(error)),
        };
        if !is_damaged {
            return Ok(());
        }
        tracing::warn!(component = name, digest = content.digest, "damaged bytes of a version are replaced");
        let bytes = Bytes::from_owner(SharedBytes(content.bytes.clone()));
        let kept = KeptComponent { bytes, signature: None };
        self.store.replace(name, &content.digest, &kept).await.map_err(refused)
    }

    /// Refuses a version of so many bytes that would wait, when too many wait already. One that a record has
    /// takes no more room: it is proposed once more when its file was signed meanwhile.
    pub(crate) async fn check_room(&self, digest: &str, bytes: u64) -> AdminResult {
        let kept = self.store.kept_bytes().await.map_err(refused)?;
        let records = self.store.records().await.map_err(refused)?;
        let versions = records.components.values().flat_map(|found| &found.record.versions);
        if versions.clone().any(|version| version.digest == digest) {
            return Ok(());
        }
        let approved: BTreeMap<_, _> = versions
            .filter(|version| is_approved(version))
            .map(|version| (&version.digest, version.facts.bytes))
            .collect();
        let unapproved = kept.saturating_sub(approved.values().sum());
        if unapproved.saturating_add(bytes) <= self.most_waiting_bytes {
            return Ok(());
        }
        Err(AdminError::Unavailable(format!(
            "versions that nobody has approved take {unapproved} bytes of the database, and {} are kept: approve or delete \
             some (`agent-host tools versions` lists them); what was deleted makes room within two hours",
            self.most_waiting_bytes
        )))
    }

    /// Removes components that no record names any more.
    pub(crate) async fn prune(&self) {
        match self.store.prune(GRACE).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "components that no version names were removed"),
            Err(error) => tracing::debug!(%error, "components that no version names stay"),
        }
    }

    /// What the records of that revision say serves here.
    pub(crate) fn set_served(&self, revision: u64) {
        self.served.send_if_modified(|served| std::mem::replace(served, revision) != revision);
    }

    /// Waits until this replica serves what the store says now, if it follows it.
    pub(crate) async fn until_served(&self) {
        if !self.is_followed {
            return;
        }
        let Ok(revision) = self.store.revision().await else { return };
        let mut served = self.served.subscribe();
        let followed = served.wait_for(|served| *served >= revision);
        // silent-ok: the answer says what serves at its time.
        let _ = tokio::time::timeout(FOLLOWED_WITHIN, followed).await;
    }
}

/// Refuses a change that was meant for another revision.
pub(crate) fn check_expected(found: &Versioned, expected: Option<&[u64]>) -> AdminResult {
    match expected {
        Some(expected) if !expected.contains(&found.revision) => {
            Err(AdminError::Changed { revision: found.revision })
        }
        _ => Ok(()),
    }
}

/// Bytes that others hold too.
struct SharedBytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// What an operator is told when the store refuses.
pub(crate) fn refused(error: VersionsError) -> AdminError {
    match error {
        VersionsError::Conflict => AdminError::Conflict(error.to_string()),
        VersionsError::TooLarge(text) => AdminError::Invalid(text),
        VersionsError::Unavailable(cause) => {
            tracing::warn!(cause, "the store of tool versions does not answer");
            AdminError::Unavailable("the store of tool versions does not answer: try again".into())
        }
        VersionsError::Unreadable { .. } => AdminError::Conflict(error.to_string()),
    }
}

/// The time, as records have it.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use agent_core::testing::TestToolVersions;
    use agent_core::words::{AuditLine, ComponentFacts, VersionStatus};

    use super::*;
    use crate::NoObserver;

    fn version(digest: &str, status: VersionStatus) -> ComponentVersion {
        let facts = ComponentFacts { bytes: 4, ..ComponentFacts::default() };
        let (digest, source) = (digest.to_owned(), VersionSource::Folder);
        ComponentVersion { digest, source, proposed_at: 1, status, facts }
    }

    #[tokio::test]
    async fn the_bytes_of_all_versions_that_nobody_approved_are_bounded() {
        let store = Arc::new(TestToolVersions::default());
        let rollout = Rollout {
            most_waiting_bytes: 10,
            ..Rollout::new(store.clone(), true, false, Arc::new(NoObserver))
        };
        rollout.check_room("sha256:new", 10).await.unwrap();
        let kept = KeptComponent { bytes: Bytes::from_static(b"1234"), signature: None };
        for digest in ["sha256:approved", "sha256:waiting", "sha256:unnamed"] {
            store.keep("echo", digest, &kept).await.unwrap();
        }
        let approved = VersionStatus::Approved { by: "policy".into(), at: 1 };
        let waiting = VersionStatus::Waiting { because: vec![] };
        let record = ComponentRecord {
            versions: vec![version("sha256:approved", approved), version("sha256:waiting", waiting)],
            ..ComponentRecord::default()
        };
        let (by, action) = (HOST.to_owned(), "proposed".to_owned());
        let line = AuditLine { at: 1, by, action, digest: None, detail: String::new() };
        store.write("echo", 0, &record, &line).await.unwrap();
        rollout.check_room("sha256:new", 2).await.unwrap();
        let refused = rollout.check_room("sha256:new", 3).await.unwrap_err();
        assert!(
            matches!(&refused, AdminError::Unavailable(text) if text.contains("take 8 bytes")),
            "{refused}"
        );
        rollout.check_room("sha256:waiting", 4).await.unwrap();
    }
}
