//! What serves where versions of components are kept in a store: what all replicas agreed on. The records take the place
//! of the folder's listing, and the folder only proposes (`proposals.rs`).
//!
//! Until the store has answered for the first time the folder decides, as it does without a store. Once it has, its last
//! answer stays in force however long it is away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{AdminError, Records, VersionsError};
use agent_core::words::{TrialState, VersionStatus};
use futures::FutureExt;
use tokio::time::Instant;

use super::Inventory;
use super::agreement::TrialLoad;
use super::attempts::{Looks, looks_of};
use super::file_loads::Part;
use crate::component::Component;
use crate::error::{FailureClass, LoadError};
use crate::folder::component_name;
use crate::load::{self, Source};
use crate::policy::Identity;
use crate::rollout::RunningTrial;
use crate::versions::record::Change;

/// How often the records are asked for: what one replica changed serves on the others this much later.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often they are asked for until they have been read once.
const FIRST_INTERVAL: Duration = Duration::from_millis(200);

/// How long a start waits for a store that says what was approved, before it goes on with what served last.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often components that no record names are looked for, in readings of the records.
const PRUNED_EVERY: u64 = 600;

impl Inventory {
    /// Begins to read the records.
    pub(crate) fn poll_records(&mut self, is_awaited: bool) {
        let Some(agreement) = &mut self.agreement else { return };
        agreement.is_awaited |= is_awaited;
        if agreement.sync.is_some() {
            agreement.is_stale = true;
            return;
        }
        agreement.syncs += 1;
        let (rollout, known) =
            (agreement.rollout.clone(), agreement.records.as_ref().map(|known| known.revision));
        let prunes = self.runtime.remembers && agreement.syncs.is_multiple_of(PRUNED_EVERY);
        let sync = async move {
            if prunes {
                rollout.prune().await;
            }
            rollout.sync(known).await
        };
        agreement.sync = Some(sync.boxed());
    }

    /// Takes in what came of reading the records.
    pub(super) fn synced(&mut self, result: Result<Option<Records>, VersionsError>) {
        let Some(agreement) = &mut self.agreement else { return };
        let was_awaited = std::mem::take(&mut agreement.is_awaited);
        (agreement.sync, agreement.next_sync) = (None, Instant::now() + INTERVAL);
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
                if let Some(records) = agreement.records.clone() {
                    self.follow_trials(&records);
                }
            }
            Err(error) => {
                tracing::debug!(%error, "the versions of tools cannot be read");
                if agreement.records.is_some() || agreement.goes_by_folder {
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
                    self.compare(looks_of(&listing));
                }
            }
        }
    }

    /// Loads what the records say, and forgets what they say no longer.
    pub(super) fn follow_records(&mut self) {
        let Some(records) = self.agreement.as_ref().and_then(|agreement| agreement.records.clone()) else {
            return;
        };
        let active = records.components.iter().filter_map(|(name, found)| {
            let digest = found.record.active.clone().filter(|_| found.record.enabled)?;
            Some((format!("{name}.wasm"), Looks::Kept(digest)))
        });
        let active = active.chain(self.undecided(&records)).collect();
        self.keep_faults_of_folder(&records);
        self.compare(active);
        self.approve_waiting(&records);
        self.follow_trials(&records);
    }

    /// The files of the folder that serve, or are being loaded, although there is no record of them: they were before the
    /// store answered, and go on until what they were proposed as is written down.
    fn undecided(&self, records: &Records) -> Vec<(String, Looks)> {
        let Some(listing) = self.agreement.as_ref().and_then(|agreement| agreement.listing.as_ref()) else {
            return Vec::new();
        };
        let is_recorded =
            |file: &str| component_name(file).is_some_and(|name| records.components.contains_key(name));
        let serves = |file: &str| {
            self.state.get(file).is_some_and(|state| state.newest().is_some() || state.loading.is_some())
        };
        let mut files = looks_of(listing);
        files.retain(|file, _| !is_recorded(file) && serves(file));
        files.into_iter().collect()
    }

    /// Keeps what was found wrong with files while the folder decided, until they have been proposed: for as long as a
    /// proposal takes, a broken file would otherwise look mended in the readiness report and in the metrics.
    fn keep_faults_of_folder(&mut self, records: &Records) {
        let Some(agreement) = &mut self.agreement else { return };
        let Some(listing) = &agreement.listing else { return };
        for (file, state) in self.state.files().filter(|(file, _)| listing.files.contains_key(*file)) {
            let is_recorded = component_name(file).is_some_and(|name| records.components.contains_key(name));
            // That the store had not answered yet is so no longer.
            let error = state.error().filter(|error| !matches!(***error, LoadError::NotAgreed));
            if let Some(error) = error.filter(|_| !is_recorded) {
                let proposal = agreement.proposals.entry(file.clone()).or_default();
                proposal.error.get_or_insert_with(|| error.clone());
            }
        }
    }

    /// Begins to load the versions that are to be tried, and ends the trials that are over.
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
        wanted.retain(|id, _| !agreement.trials.contains_key(id));
        for (id, (name, trial)) in wanted {
            let (runtime, source) = (self.runtime.clone(), self.kept(&trial.digest));
            let (loaded, trial_id) = (name.clone(), id.clone());
            let work = async move {
                let loaded = load::load_from(runtime, &loaded, &source).await.map(Arc::new);
                Part::Trial(trial_id, loaded)
            };
            let (_, abort) = self.begin(&name, None, work);
            let Some(agreement) = &mut self.agreement else { return };
            agreement.trials.insert(id, TrialLoad { name, trial, abort, running: None });
        }
    }

    /// Takes in the load of a version that is to be tried. Returns what is to be done about one that cannot be.
    pub(super) fn trial_loaded(&mut self, id: &str, result: Result<Arc<Component>, LoadError>) {
        let Some(agreement) = &mut self.agreement else { return };
        let Some(load) = agreement.trials.get_mut(id) else { return };
        let name = load.name.clone();
        match result {
            Ok(component) => {
                let running = RunningTrial::new(name.as_str().into(), load.trial.clone(), component);
                load.running = Some(Arc::new(running));
            }
            // It is tried again when the records are read next.
            Err(error) if error.class() != FailureClass::Permanent => {
                tracing::warn!(component = name, %error, "a version that is to be tried cannot be loaded yet");
                agreement.trials.remove(id);
            }
            Err(error) => {
                let (rollout, id) = (agreement.rollout.clone(), id.to_owned());
                let because = format!("it cannot be loaded: {error}");
                let work = async move {
                    rollout.fail(&name, &id, because).await;
                    Part::Written
                };
                self.begin("", None, work);
            }
        }
    }

    /// Approves the versions that wait and that the policy names by digest by now, or any where nobody is asked.
    fn approve_waiting(&mut self, records: &Records) {
        if !self.runtime.remembers {
            return;
        }
        let asks_nobody = !self.runtime.needs_approval;
        let by = if asks_nobody { "off" } else { "policy" };
        for (name, found) in &records.components {
            let waiting = found.record.versions.iter().filter(|version| {
                let identity = Identity { name, digest: &version.digest, signer: None };
                let is_named = || self.runtime.grants.names(identity);
                matches!(version.status, VersionStatus::Waiting { .. }) && (asks_nobody || is_named())
            });
            // The newest of them is the one that is meant.
            let Some(version) = waiting.max_by_key(|version| version.proposed_at) else { continue };
            let Some(agreement) = &self.agreement else { return };
            let active = found
                .record
                .versions
                .iter()
                .find(|other| Some(&other.digest) == found.record.active.as_ref());
            // One that was proposed before what serves takes nothing from that.
            let serve = active.is_none_or(|active| active.proposed_at <= version.proposed_at);
            let (rollout, name, digest) = (agreement.rollout.clone(), name.clone(), version.digest.clone());
            let work = async move {
                let change = Change::Approve { digest: Some(digest), serve };
                match rollout.change(&name, by, |_| Ok(change.clone())).await {
                    Ok(_) => {}
                    // Every replica does this, and one of them is the first.
                    Err(error @ AdminError::Conflict(_)) => {
                        tracing::debug!(component = name, %error, "another replica may have approved a version");
                    }
                    Err(error) => {
                        tracing::warn!(component = name, %error, "a version that waits could not be approved");
                    }
                }
                Part::Written
            };
            self.begin("", None, work);
        }
    }

    /// Where the bytes of a version are that the store keeps.
    pub(super) fn kept(&self, digest: &str) -> Source {
        let rollout = self.agreement.as_ref().map(|agreement| agreement.rollout.clone());
        Source::Kept { rollout, memory: self.memory.clone(), digest: digest.to_owned() }
    }

    /// Whether the folder decides what serves.
    pub(super) fn folder_decides(&self) -> bool {
        self.agreement.as_ref().is_none_or(|agreement| agreement.records.is_none())
    }
}
