//! Which versions of components serve, where that is kept in a store: every replica follows the same records.
//!
//! Whoever wants something changed (the folder, the admin API, a trial that has failed) reads the record, has
//! `versions/` decide what becomes of it, and writes it by compare-and-swap ([`Rollout::change`]). Whoever serves follows
//! the records (`inventory/`). `canary.rs` counts what versions do that are tried, `shadow.rs` makes the calls of a shadow,
//! `overlay.rs` is where those write values.

mod canary;
mod overlay;
mod shadow;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::ports::{AdminError, KeptComponent, Records, ToolVersions, Versioned, VersionsError};
use agent_core::words::{ComponentRecord, ComponentVersion, Millis, TrialCounts, VersionSource};
use bytes::Bytes;
use tokio::sync::{Notify, watch};

use crate::component::Component;
use crate::folder::Content;
use crate::versions::approval::{self, Circumstances};
use crate::versions::canary_verdict::{Verdict, judge};
use crate::versions::diff::diff;
use crate::versions::record::{self, Change};

pub(crate) use canary::{RunningTrial, Side, TrialPart};
pub(crate) use overlay::Overlay;
pub(crate) use shadow::{ShadowCall, Shadows};

/// How often a change is decided anew because somebody else was faster.
const MOST_TRIES: usize = 16;

/// Longest time whoever changed something waits until this replica serves it.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10);

/// How long a component that no record names is kept: its proposal may be on its way.
const GRACE: Duration = Duration::from_hours(1);

/// Who does what the host does by itself.
pub(crate) const HOST: &str = "host";

/// The records, and what this replica adds to them.
pub(crate) struct Rollout {
    store: Arc<dyn ToolVersions>,
    /// Whether what an operator should look at waits for one.
    needs_approval: bool,
    /// Something was changed here, so that the records are to be read at once.
    changed: Notify,
    /// The revision of the records that this replica serves.
    served: watch::Sender<u64>,
    /// Whether this process serves, and so follows the records.
    is_followed: bool,
    running: Mutex<Vec<Arc<RunningTrial>>>,
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
    /// Whether no component had ever been recorded when it was found.
    pub(crate) is_first: bool,
    /// Whether the policy names its digest or signer.
    pub(crate) is_in_policy: bool,
}

impl Rollout {
    pub(crate) fn new(store: Arc<dyn ToolVersions>, needs_approval: bool, is_followed: bool) -> Self {
        Self {
            store,
            needs_approval,
            changed: Notify::new(),
            served: watch::Sender::new(0),
            is_followed,
            running: Mutex::default(),
        }
    }

    pub(crate) fn store(&self) -> &dyn ToolVersions {
        &*self.store
    }

    /// Waits until something was changed here.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Adds up what trials have counted, judges them, and reads the records if they are others than those of `known`.
    pub(crate) async fn sync(&self, known: Option<u64>) -> Result<Option<Records>, VersionsError> {
        for trial in self.running() {
            self.settle(&trial).await;
        }
        if known.is_some() && Some(self.store.revision().await?) == known {
            return Ok(None);
        }
        self.store.records().await.map(Some)
    }

    /// Adds what a trial has counted here to what others have, and ends it if that decides it.
    async fn settle(&self, running: &RunningTrial) {
        let counts = running.take();
        if counts == TrialCounts::default() && !running.is_undecided() {
            return;
        }
        let sums = match self.store.add_counts(&running.trial.id, &counts).await {
            Ok(sums) => sums,
            Err(error) => {
                // Perhaps they were added. A trap that is counted twice ends a trial too early, one that is lost never.
                running.put_back(&counts);
                tracing::debug!(%error, "what a trial has counted could not be kept");
                return;
            }
        };
        let id = running.trial.id.clone();
        let change = match judge(&running.trial, &sums) {
            Verdict::GoesOn => return,
            Verdict::Failed { because } => {
                tracing::error!(
                    component = &*running.name,
                    digest = running.trial.digest,
                    because = because.join("; "),
                    "a version that was tried has failed and is withdrawn"
                );
                Change::TrialFailed { trial: id, because }
            }
            Verdict::Passed => Change::TrialPassed { trial: id },
        };
        running.set_undecided(!self.end_trial(&running.name, change).await);
    }

    /// Withdraws a version that is tried, here and for all replicas.
    pub(crate) async fn fail(&self, name: &str, id: &str, because: String) {
        // Where that cannot be written down the version is loaded again, and fails again.
        let _is_written =
            self.end_trial(name, Change::TrialFailed { trial: id.to_owned(), because: vec![because] }).await;
    }

    /// Ends a trial for all replicas. Says whether that is written down.
    async fn end_trial(&self, name: &str, change: Change) -> bool {
        let ended = self.change(name, HOST, |_| Ok(change.clone())).await;
        if let Err(error) = &ended {
            tracing::warn!(component = name, %error, "a trial could not be ended; it is tried again");
        }
        ended.is_ok()
    }

    /// Changes a record as `decide` says, which is asked again when somebody else was faster.
    pub(crate) async fn change(
        &self,
        name: &str,
        by: &str,
        decide: impl Fn(&Versioned) -> Result<Change, AdminError>,
    ) -> Result<Versioned, AdminError> {
        for _ in 0..MOST_TRIES {
            let found = self.store.record(name).await.map_err(refused)?.unwrap_or_default();
            let change = decide(&found)?;
            let Some((next, audit)) = record::apply(&found.record, change, by, now())? else {
                return Ok(found);
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
                    return Ok(Versioned { revision, record: next });
                }
                Err(VersionsError::Conflict) => tokio::task::yield_now().await,
                Err(error) => return Err(refused(error)),
            }
        }
        Err(AdminError::Conflict("others change the component all the time: try again".into()))
    }

    /// Proposes a version. Its bytes are kept first, so that no record names what is not there.
    pub(crate) async fn propose(&self, proposal: Proposal<'_>) -> Result<Versioned, AdminError> {
        let Proposal { component, content, source, by, expected, is_first, is_in_policy } = proposal;
        let kept = KeptComponent {
            bytes: Bytes::from_owner(SharedBytes(content.bytes.clone())),
            signature: content.signature.clone().map(Bytes::from),
        };
        self.store.keep(&content.digest, &kept).await.map_err(refused)?;
        let facts = component.facts();
        let now = now();
        self.change(&component.name, &by, |found| {
            check_expected(found, expected)?;
            let record = &found.record;
            let record = (*record != ComponentRecord::default()).then_some(record);
            let serving = approval::baseline(record);
            let serving = serving.map(|version| (version.digest.as_str(), &version.facts));
            let circumstances = Circumstances {
                // The command line does not know what the services ask for: one that asks nobody approves it.
                required: self.needs_approval || matches!(source, VersionSource::CommandLine { .. }),
                named_in_policy: is_in_policy,
                first_reading: is_first,
                diff: &diff(serving, (&content.digest, &facts), None),
                now,
            };
            Ok(Change::Proposed(Box::new(ComponentVersion {
                digest: content.digest.clone(),
                status: approval::review(record, &source, &circumstances),
                source: source.clone(),
                proposed_at: now,
                facts: facts.clone(),
            })))
        })
        .await
    }

    /// Removes components that no record names any more.
    pub(crate) async fn prune(&self) {
        match self.store.prune(GRACE).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "components that no version names were removed"),
            Err(error) => tracing::debug!(%error, "components that no version names stay"),
        }
    }

    /// These are tried now.
    pub(crate) fn set_running(&self, trials: Vec<Arc<RunningTrial>>) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = trials;
    }

    pub(crate) fn running(&self) -> Vec<Arc<RunningTrial>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
pub(crate) fn check_expected(found: &Versioned, expected: Option<&[u64]>) -> Result<(), AdminError> {
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
