//! What is known of the records that replicas agree on, of what the folder proposes to them, and of the
//! versions that are tried. `agreed.rs` and `proposals.rs` have the inventory act on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Records, VersionsError};
use agent_core::words::{Millis, Trial};
use futures::future::{AbortHandle, BoxFuture};
use tokio::time::Instant;

use super::attempts::{Attempts, Looks};
use super::file_loads::Proposed;
use super::retry::Retry;
use super::signature_search::Unsigned;
use crate::error::LoadError;
use crate::folder::Listing;
use crate::rollout::{self, Counted, FirstCalls, Rollout, RunningTrial};

/// How often components that no record names are looked for. With the hour for which they are kept, that is
/// less than the two hours that `Rollout::check_room` tells operators.
pub(super) const PRUNED_EVERY: Duration = Duration::from_mins(30);

/// The records and what comes of them.
pub(super) struct Agreement {
    pub(super) rollout: Arc<Rollout>,
    /// Absent until the store has answered.
    pub(super) records: Option<Arc<Records>>,
    /// The versions that are to serve by them, by file: kept, because their looks are a digest to compute.
    pub(super) active: BTreeMap<String, Looks>,
    /// Whether there were none when the store first answered, until what is in the folder then was proposed.
    pub(super) was_empty: bool,
    /// The reading of the records that is under way.
    pub(super) sync: Option<BoxFuture<'static, Result<Option<Records>, VersionsError>>>,
    /// Whether somebody waits for it.
    pub(super) is_awaited: bool,
    /// Whether something was changed since it began, so that it may have missed that.
    pub(super) is_stale: bool,
    pub(super) next_sync: Instant,
    /// When components that no record names are looked for.
    pub(super) next_prune: Instant,
    pub(super) begun: Instant,
    /// When it was begun, as records have times.
    pub(super) begun_at: Millis,
    /// Whether the folder decides until the store has answered.
    pub(super) goes_by_folder: bool,
    /// The folder as it was listed last, and as it was listed first.
    pub(super) listing: Option<Listing>,
    pub(super) first_listing: Option<Listing>,
    /// The versions that wait for an approval, as they were last told of.
    pub(super) waiting: Vec<String>,
    /// The components of which no waiting version is signed by a key that the policy trusts.
    pub(super) unsigned: Unsigned,
    /// What the files of the folder were proposed as.
    pub(super) proposals: BTreeMap<String, FileProposal>,
    pub(super) trials: BTreeMap<String, TrialLoad>,
    /// When the versions that are to be tried and could not be loaded are loaded again, by the trial's id.
    pub(super) trial_retries: BTreeMap<String, Retry>,
    /// Whether the versions that wait are looked at again when the store answers next: an approval of the
    /// policy's failed for now.
    pub(super) is_waiting_again: bool,
    /// The versions that have come to serve lately, by the id of their counts.
    pub(super) first_calls: BTreeMap<String, Arc<FirstCalls>>,
}

/// A version that is to be tried.
pub(super) struct TrialLoad {
    pub(super) name: String,
    pub(super) trial: Trial,
    pub(super) abort: AbortHandle,
    pub(super) running: Option<Arc<RunningTrial>>,
}

impl Drop for TrialLoad {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl Agreement {
    pub(super) fn new(rollout: Arc<Rollout>) -> Self {
        Self {
            rollout,
            records: None,
            active: BTreeMap::new(),
            was_empty: false,
            sync: None,
            is_awaited: false,
            is_stale: false,
            next_sync: Instant::now(),
            next_prune: Instant::now() + PRUNED_EVERY,
            begun: Instant::now(),
            begun_at: rollout::now(),
            goes_by_folder: false,
            listing: None,
            first_listing: None,
            waiting: Vec::new(),
            unsigned: Unsigned::default(),
            proposals: BTreeMap::new(),
            trials: BTreeMap::new(),
            trial_retries: BTreeMap::new(),
            is_waiting_again: false,
            first_calls: BTreeMap::new(),
        }
    }

    /// Waits until the records are to be read again: no later than `retry`, because loads that are due are
    /// begun when they were read.
    pub(super) fn due(&self, retry: Option<Instant>) -> impl Future<Output = ()> + Send + use<> {
        let rollout = self.rollout.clone();
        let next_sync = retry.map_or(self.next_sync, |retry| retry.min(self.next_sync));
        async move {
            tokio::select! {
                () = tokio::time::sleep_until(next_sync) => {}
                () = rollout.changed() => {}
                () = rollout.store().announced() => {}
            }
        }
    }

    /// When the first of the versions that are to be tried and are not being loaded is loaded again.
    pub(super) fn next_trial(&self) -> Option<std::time::Instant> {
        let waiting = self.trial_retries.iter().filter(|(id, _)| !self.trials.contains_key(*id));
        waiting.filter_map(|(_, retry)| retry.due()).min()
    }

    /// The trials that have their version loaded, and the versions that have come to serve lately.
    pub(super) fn counted(&self) -> Counted {
        Counted {
            trials: self.trials.values().filter_map(|load| load.running.clone()).collect(),
            first_calls: self.first_calls.values().cloned().collect(),
        }
    }
}

/// What is known of one file as a proposal.
#[derive(Default)]
pub(super) struct FileProposal {
    pub(super) attempts: Attempts,
    /// How it looked when there were no records yet, until it is proposed: that is older than all versions
    /// that there are by then.
    pub(super) first: Option<Looks>,
    /// Why it could not be proposed.
    pub(super) error: Option<Arc<LoadError>>,
}

impl Agreement {
    /// Why files could not be proposed, by file.
    pub(super) fn faults(&self) -> impl Iterator<Item = (String, String)> {
        let faults = self.proposals.iter();
        faults.filter_map(|(file, proposal)| Some((file.clone(), proposal.error.as_ref()?.to_string())))
    }

    /// Since when a file that looks like this has been there, if it was when the folder was listed first:
    /// then every version that was proposed since this host began is newer than the file.
    pub(super) fn there_since(&self, file: &str, looks: &Looks) -> Option<Millis> {
        let first = self.first_listing.as_ref()?.files.get(file)?;
        (*looks == Looks::File(*first)).then_some(self.begun_at)
    }

    /// The files that are being proposed.
    pub(super) fn proposing(&self) -> BTreeSet<String> {
        let under_way = self.proposals.iter().filter(|(_, proposal)| proposal.attempts.under_way.is_some());
        under_way.map(|(file, _)| file.clone()).collect()
    }

    /// Another policy is in force: what was refused may be granted now.
    pub(super) fn forget_refusals(&mut self) {
        self.trial_retries.clear();
        for proposal in self.proposals.values_mut().filter(|proposal| proposal.error.is_some()) {
            proposal.attempts.forget();
        }
    }
}

impl FileProposal {
    /// Takes in what came of it.
    pub(super) fn finish(&mut self, result: Result<Proposed, LoadError>) -> Option<Proposed> {
        self.attempts.end(result.as_ref().err(), std::time::Instant::now());
        match result {
            Ok(proposed) => {
                (self.error, self.first) = (None, None);
                Some(proposed)
            }
            Err(error) => {
                self.error = Some(Arc::new(error));
                None
            }
        }
    }
}
