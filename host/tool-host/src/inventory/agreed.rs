//! What serves where versions of components are kept in a store: what all replicas agreed on. The records
//! take the place of the folder's listing, and the folder only proposes (`proposals.rs`).
//!
//! Until the store has answered for the first time the folder decides, as it does without a store. Once it
//! has, its last answer stays in force however long it is away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{AdminError, Records, Versioned, VersionsError};
use agent_core::words::{ComponentRecord, ComponentVersion, TrialState, VersionStatus};
use futures::FutureExt;
use tokio::time::Instant;
use tool_policy::Identity;
use tool_versions::record::Change;

use super::Inventory;
use super::agreement::{PRUNED_EVERY, TrialLoad};
use super::attempts::{Looks, looks_of, looks_of_active};
use super::file_loads::Part;
use super::signature_search::Found;
use crate::component::Component;
use crate::error::LoadError;
use crate::folder::component_name;
use crate::load::approved;
use crate::load::{self, Source};
use crate::rollout::{FirstCalls, RunningTrial};

/// How often the records are asked for: what one replica changed serves on the others this much later.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often the records are asked for where the store announces changes: for changes by programs of earlier
/// releases, which announce nothing.
const UNANNOUNCED_INTERVAL: Duration = Duration::from_secs(15);

/// How often they are asked for until they have been read once.
const FIRST_INTERVAL: Duration = Duration::from_millis(200);

/// How long a start waits for a store that says what was approved, before it goes on with what served last.
const PATIENCE: Duration = Duration::from_secs(5);

impl Inventory {
    /// Begins to read the records.
    pub(crate) fn poll_records(&mut self, is_awaited: bool) {
        let Some(agreement) = &mut self.agreement else { return };
        agreement.is_awaited |= is_awaited;
        if agreement.sync.is_some() {
            agreement.is_stale = true;
            return;
        }
        let (rollout, known) =
            (agreement.rollout.clone(), agreement.records.as_ref().map(|known| known.revision));
        let prunes = self.runtime.remembers && agreement.next_prune <= Instant::now();
        if prunes {
            agreement.next_prune = Instant::now() + PRUNED_EVERY;
        }
        let runtime = self.runtime.clone();
        let sync = async move {
            if prunes {
                rollout.prune().await;
            }
            rollout.sync(known, &runtime.recent_users).await
        };
        agreement.sync = Some(sync.boxed());
    }

    /// Takes in what came of reading the records.
    pub(super) fn synced(&mut self, result: Result<Option<Records>, VersionsError>) {
        let Some(agreement) = &mut self.agreement else { return };
        let was_awaited = std::mem::take(&mut agreement.is_awaited);
        // What is counted is judged each second.
        let counts = !agreement.trials.is_empty()
            || agreement.first_calls.values().any(|first_calls| first_calls.goes_on());
        let rests = agreement.rollout.store().is_announced() && !counts;
        let interval = if rests { UNANNOUNCED_INTERVAL } else { INTERVAL };
        (agreement.sync, agreement.next_sync) = (None, Instant::now() + interval);
        if std::mem::take(&mut agreement.is_stale) && result.is_ok() {
            self.poll_records(was_awaited);
        }
        let Some(agreement) = &mut self.agreement else { return };
        match result {
            Ok(Some(records)) => {
                if agreement.records.is_none() {
                    agreement.was_empty = records.components.is_empty();
                }
                agreement.records = Some(Arc::new(records));
                self.follow_records();
                self.propose_from_folder();
            }
            Ok(None) => {
                self.load_what_is_due();
                self.approve_again();
            }
            Err(error) => {
                tracing::debug!(%error, "the versions of tools cannot be read");
                if agreement.records.is_some() || agreement.goes_by_folder {
                    // What the store said last stays in force, and there may be copies of it here.
                    self.load_what_is_due();
                    return;
                }
                agreement.next_sync = Instant::now() + FIRST_INTERVAL;
                if self.runtime.needs_approval && agreement.begun.elapsed() < PATIENCE {
                    agreement.is_awaited = true;
                    return;
                }
                agreement.goes_by_folder = true;
                tracing::info!(%error, "the store of tool versions does not answer yet: until it does the tools folder decides");
                if let Some(listing) = agreement.listing.clone() {
                    self.compare(self.decided_by_folder(&listing));
                }
            }
        }
    }

    /// Loads what the records say, and forgets what they say no longer.
    pub(super) fn follow_records(&mut self) {
        let Some(records) = self.agreement.as_ref().and_then(|agreement| agreement.records.clone()) else {
            return;
        };
        let active: BTreeMap<_, _> = records
            .components
            .iter()
            .filter_map(|(name, found)| Some((format!("{name}.wasm"), looks_of_active(&found.record)?)))
            .collect();
        if let Some(agreement) = &mut self.agreement {
            agreement.active.clone_from(&active);
        }
        let wanted = active.into_iter().chain(self.undecided(&records)).collect();
        self.keep_faults_of_folder(&records);
        self.compare(wanted);
        self.approve_waiting(&records);
        self.follow_trials(&records);
        self.follow_first_calls(&records);
    }

    /// Loads what the records say and failed for now, when that is due again. The records need not change for
    /// it, because a secret that is set or a compiler that has room changes none of them.
    pub(super) fn load_what_is_due(&mut self) {
        let Some(agreement) = &self.agreement else { return };
        let Some(records) = agreement.records.clone() else { return };
        let active = agreement.active.clone();
        self.load_wanted(active);
        self.follow_trials(&records);
    }

    /// When the first load that failed for now is due again.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        let agreement = self.agreement.as_ref()?;
        let active = agreement.active.iter();
        let due = active.filter_map(|(file, looks)| self.file_loads.get(file)?.newest.due(looks));
        let (next, now) = (due.chain(agreement.next_trial()).min()?, std::time::Instant::now());
        Some(Instant::now() + next.saturating_duration_since(now))
    }

    /// Counts the first calls of the versions that serve while an earlier one is kept, unless the policy
    /// wants them left.
    fn follow_first_calls(&mut self, records: &Records) {
        let counts = self.runtime.remembers && self.runtime.grants.current().rolls_back_on_traps();
        let Some(agreement) = &mut self.agreement else { return };
        let mut known = std::mem::take(&mut agreement.first_calls);
        if !counts {
            return;
        }
        for (name, found) in &records.components {
            let Some(first_calls) = FirstCalls::of(name, &found.record) else { continue };
            let id = first_calls.id().to_owned();
            let first_calls = known.remove(&id).unwrap_or_else(|| Arc::new(first_calls));
            agreement.first_calls.insert(id, first_calls);
        }
    }

    /// The files of the folder that serve, or are being loaded, although no record knows them: they were
    /// before the store answered, and go on until what they were proposed as is written down. Another version
    /// that was proposed meanwhile and does not serve yet ends that no sooner: nothing would serve in
    /// between. Files that the store could not write down, such as a read-only one, serve likewise.
    fn undecided(&self, records: &Records) -> Vec<(String, Looks)> {
        // Where approvals are asked for, what a store has no record of was approved by nobody.
        if self.runtime.needs_approval {
            return Vec::new();
        }
        let Some(listing) = self.agreement.as_ref().and_then(|agreement| agreement.listing.as_ref()) else {
            return Vec::new();
        };
        let is_recorded = |file: &str| {
            let record = component_name(file).and_then(|name| records.components.get(name));
            let serving = self.state.get(file).and_then(|state| state.newest());
            let knows = |record: &ComponentRecord| {
                serving.is_none_or(|serving| record.known.contains(&serving.version.digest))
            };
            record.map(|found| &found.record).is_some_and(|record| {
                record.active.is_some() || !record.enabled || record.deleted || knows(record)
            })
        };
        let is_loading = |file: &str| {
            self.file_loads.get(file).is_some_and(|loads| loads.newest.loading_digest().is_some())
        };
        let serves = |file: &str| {
            self.state.get(file).is_some_and(|state| state.newest().is_some()) || is_loading(file)
        };
        let mut files = looks_of(listing);
        files.retain(|file, _| !is_recorded(file) && (serves(file) || self.is_unwritten(file)));
        files.into_iter().collect()
    }

    /// Whether the store could not write down what the file was proposed as.
    pub(super) fn is_unwritten(&self, file: &str) -> bool {
        let proposal = self.agreement.as_ref().and_then(|agreement| agreement.proposals.get(file));
        let error = proposal.and_then(|proposal| proposal.error.as_deref());
        matches!(error, Some(LoadError::NotWrittenDown(_)))
    }

    /// Keeps what was found wrong with files while the folder decided, until they have been proposed: for as
    /// long as a proposal takes, a broken file would otherwise look mended in the readiness report and in the
    /// metrics.
    fn keep_faults_of_folder(&mut self, records: &Records) {
        let Some(agreement) = &mut self.agreement else { return };
        let Some(listing) = &agreement.listing else { return };
        for (file, state) in self.state.files().filter(|(file, _)| listing.files.contains_key(*file)) {
            let is_recorded = component_name(file).is_some_and(|name| records.components.contains_key(name));
            // `NotAgreed` says that the store had not answered yet, which is so no longer.
            let error = state.error().filter(|error| !matches!(***error, LoadError::NotAgreed));
            if let Some(error) = error.filter(|_| !is_recorded) {
                let proposal = agreement.proposals.entry(file.clone()).or_default();
                proposal.error.get_or_insert_with(|| error.clone());
            }
        }
    }

    /// Begins to load the versions that are to be tried, those that failed when they are due again, and ends
    /// the trials that are over.
    fn follow_trials(&mut self, records: &Records) {
        // Who only looks tries nothing.
        if !self.runtime.remembers {
            return;
        }
        let mut wanted = BTreeMap::new();
        for (name, found) in &records.components {
            let trial = found.record.trial.as_ref().filter(|trial| trial.state == TrialState::Running);
            if let Some(trial) = trial.filter(|_| found.record.enabled) {
                wanted.insert(trial.id.clone(), (name.clone(), trial.clone()));
            }
        }
        let Some(agreement) = &mut self.agreement else { return };
        agreement.trials.retain(|id, _| wanted.contains_key(id));
        agreement.trial_retries.retain(|id, _| wanted.contains_key(id));
        let now = std::time::Instant::now();
        let may_try = |id: &str| agreement.trial_retries.get(id).is_none_or(|retry| retry.may_try(now));
        wanted.retain(|id, _| !agreement.trials.contains_key(id) && may_try(id));
        for (id, (name, trial)) in wanted {
            let (runtime, source) = (self.runtime.clone(), self.kept(&name, &trial.digest));
            let (tried, trial_id, rollout) = (name.clone(), id.clone(), self.rollout());
            let approved = self.recorded(&format!("{name}.wasm"), &trial.digest);
            let work = async move {
                let loaded = async {
                    let approved = approved.ok_or(LoadError::NotAgreed)?;
                    let memory = &runtime.loaded_content;
                    let content = load::read_counted(&runtime, memory, &tried, &source).await?;
                    let (component, _) = load::load(runtime.clone(), &tried, &source, content).await?;
                    approved::hold(&runtime, rollout.as_deref(), &approved, &component).await?;
                    Ok(Arc::new(component))
                };
                Part::Trial(trial_id, loaded.await)
            };
            let (_, abort) = self.begin(&name, None, work);
            let Some(agreement) = &mut self.agreement else { return };
            agreement.trials.insert(id, TrialLoad { name, trial, abort, running: None });
        }
    }

    /// Takes in the load of a version that is to be tried. Returns what is to be done about one that cannot
    /// be.
    pub(super) fn trial_loaded(&mut self, id: &str, result: Result<Arc<Component>, LoadError>) {
        let Some(agreement) = &mut self.agreement else { return };
        let Some(load) = agreement.trials.get_mut(id) else { return };
        let name = load.name.clone();
        let error = match result {
            Ok(component) => {
                agreement.trial_retries.remove(id);
                let running = RunningTrial::new(name.as_str().into(), load.trial.clone(), component);
                load.running = Some(Arc::new(running));
                return;
            }
            Err(error) => error,
        };
        let retry = agreement.trial_retries.entry(id.to_owned()).or_default();
        let comes_again = retry.record_failure(&error, std::time::Instant::now());
        // Bytes that are gone may be uploaded again for a version that serves; a trial of them has failed.
        if comes_again && !matches!(error, LoadError::Gone) {
            tracing::warn!(component = name, %error, "a version that is to be tried cannot be loaded yet");
            agreement.trials.remove(id);
            return;
        }
        let (rollout, id) = (agreement.rollout.clone(), id.to_owned());
        let because = format!("it cannot be loaded: {error}");
        let work = async move {
            if rollout.fail(&name, &id, because).await { Part::Written } else { Part::StillTried(id) }
        };
        self.begin("", None, work);
    }

    /// Forgets the load of a version that is to be tried and cannot be, because its failure could not be
    /// written down. As long as its record says that it is tried, it is loaded again after a pause, and its
    /// failure written: a store that refuses writes would else be asked all the time.
    pub(super) fn still_tried(&mut self, id: &str) {
        let Some(agreement) = &mut self.agreement else { return };
        if agreement.trials.remove(id).is_some() {
            let unwritten = LoadError::NotWrittenDown(String::new());
            let retry = agreement.trial_retries.entry(id.to_owned()).or_default();
            retry.record_failure(&unwritten, std::time::Instant::now());
        }
    }

    /// Has the versions that wait looked at again when the store answers next, which changes no record.
    pub(super) fn still_waiting(&mut self) {
        if let Some(agreement) = &mut self.agreement {
            agreement.is_waiting_again = true;
        }
    }

    fn approve_again(&mut self) {
        let Some(agreement) = &mut self.agreement else { return };
        if std::mem::take(&mut agreement.is_waiting_again)
            && let Some(records) = agreement.records.clone()
        {
            self.approve_waiting(&records);
        }
    }

    /// Approves the versions that wait and that the policy names by now, by digest or by the key that signed
    /// them, or any where nobody is asked.
    fn approve_waiting(&mut self, records: &Records) {
        if !self.runtime.remembers {
            return;
        }
        let asks_nobody = !self.runtime.needs_approval;
        let by = if asks_nobody { "off" } else { "policy" };
        for (name, found) in &records.components {
            let is_named = |digest: &str| {
                asks_nobody || self.runtime.grants.names(Identity { name, digest, signer: None })
            };
            let named = newest_waiting(&found.record, is_named).map(|version| version.digest.clone());
            let Some(agreement) = &self.agreement else { return };
            let rollout = agreement.rollout.clone();
            let search = agreement.unsigned.search(&self.runtime, &rollout, (name, found), named.as_deref());
            if named.is_none() && search.is_none() {
                continue;
            }
            let name = name.clone();
            let work = async move {
                let found = match search {
                    Some(search) => search.newest().await,
                    None => Found::Nothing,
                };
                let digest = match (found, named) {
                    (Found::Signed(digest), _) | (_, Some(digest)) => digest,
                    (Found::Nothing, None) => return Part::Written,
                    (Found::Unknown, None) => return Part::StillWaiting,
                };
                // Decided of the record that is changed: an operator may have promoted a newer version
                // meanwhile.
                let approve = |found: &Versioned| Ok(approve_named(&found.record, &digest));
                match rollout.change(&name, by, approve).await {
                    Ok(_) => {}
                    // Every replica does this, and one of them is the first.
                    Err(error @ AdminError::Conflict(_)) => {
                        tracing::debug!(component = name, %error, "another replica may have approved a version");
                    }
                    Err(error) => {
                        tracing::warn!(component = name, %error, "a version that waits could not be approved");
                        return Part::StillWaiting;
                    }
                }
                Part::Written
            };
            self.begin("", None, work);
        }
    }

    /// Says in the log which versions wait for an approval, when others do than before, and the command that
    /// approves them.
    pub(super) fn tell_of_waiting(&mut self) {
        let is_asked = self.runtime.remembers && self.runtime.needs_approval;
        let Some(agreement) = self.agreement.as_mut().filter(|_| is_asked) else { return };
        let Some(records) = &agreement.records else { return };
        let waiting: Vec<_> = records
            .components
            .iter()
            .filter_map(|(name, found)| Some(format!("{name}@{}", found.record.next_to_approve()?.digest)))
            .collect();
        if waiting == agreement.waiting {
            return;
        }
        if !waiting.is_empty() {
            tracing::warn!(
                versions = waiting.join(","),
                "versions of tool components wait for an approval and do not serve: `agent-host tools versions` shows them, \
                 `agent-host tools approve --all` approves all of them"
            );
        }
        agreement.waiting = waiting;
    }

    /// Where the bytes of a version are that the store keeps.
    pub(super) fn kept(&self, name: &str, digest: &str) -> Source {
        let (name, digest) = (name.to_owned(), digest.to_owned());
        Source::Kept { rollout: self.rollout(), memory: self.memory.clone(), name, digest }
    }

    pub(super) fn folder_decides(&self) -> bool {
        self.agreement.as_ref().is_none_or(|agreement| agreement.records.is_none())
    }
}

fn newest_waiting(record: &ComponentRecord, is_meant: impl Fn(&str) -> bool) -> Option<&ComponentVersion> {
    let waiting = record.versions.iter().filter(|version| {
        matches!(version.status, VersionStatus::Waiting { .. }) && is_meant(&version.digest)
    });
    waiting.max_by_key(|version| version.proposed_at)
}

/// Approves a version. One that was proposed before what serves now takes nothing from that.
fn approve_named(record: &ComponentRecord, digest: &str) -> Change {
    let proposed_at = |digest: &str| {
        let version = record.versions.iter().find(|version| version.digest == digest);
        version.map(|version| version.proposed_at)
    };
    let serves_since = record.active.as_deref().and_then(proposed_at);
    Change::Approve { digest: Some(digest.to_owned()), serve: serves_since <= proposed_at(digest) }
}

#[cfg(test)]
mod tests {
    use agent_core::words::{ComponentFacts, VersionSource};

    use super::*;

    fn version(digest: &str, proposed_at: u64) -> ComponentVersion {
        let status = VersionStatus::Waiting { because: vec![] };
        let (digest, source) = (digest.to_owned(), VersionSource::Folder);
        ComponentVersion { digest, source, proposed_at, status, facts: ComponentFacts::default() }
    }

    #[test]
    fn a_version_that_the_policy_names_takes_no_newer_ones_place() {
        let record = |active: Option<&str>| ComponentRecord {
            active: active.map(str::to_owned),
            versions: vec![version("newest", 3), version("named", 2), version("oldest", 1)],
            ..ComponentRecord::default()
        };
        // As it is decided of the record that is written, whatever served when the policy was read.
        for (active, serves) in [(None, true), (Some("oldest"), true), (Some("newest"), false)] {
            let change = approve_named(&record(active), "named");
            assert_eq!(change, Change::Approve { digest: Some("named".into()), serve: serves }, "{active:?}");
        }
        let record = record(None);
        let of_two = newest_waiting(&record, |digest| digest != "newest");
        assert_eq!(of_two.map(|version| &*version.digest), Some("named"));
    }
}
