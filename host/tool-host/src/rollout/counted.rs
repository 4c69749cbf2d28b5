//! Adds what this replica has counted to the sums of all replicas, and has done what the sums say: every
//! replica judges.

use std::sync::Arc;
use std::time::Instant;

use agent_core::ports::VersionsError;
use agent_core::words::TrialCounts;
use tool_versions::record::Change;
use tool_versions::verdicts::rollback_on_traps::{FIRST_CALLS, because};
use tool_versions::verdicts::{Verdict, judge};

use super::call_counter::CallCounter;
use super::canary::RunningTrial;
use super::trap_rollback::FirstCalls;
use super::{HOST, RecentUsers, Rollout};

/// The versions whose calls are counted.
#[derive(Clone, Default)]
pub(crate) struct Counted {
    /// Versions that are tried beside others.
    pub(crate) trials: Vec<Arc<RunningTrial>>,
    /// Versions that have come to serve lately.
    pub(crate) first_calls: Vec<Arc<FirstCalls>>,
}

impl Counted {
    /// True when both count the calls of the same versions in the same counters.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        is_same(&self.trials, &other.trials) && is_same(&self.first_calls, &other.first_calls)
    }
}

fn is_same<T>(one: &[Arc<T>], other: &[Arc<T>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
}

impl Rollout {
    /// From now on the calls of these versions are counted.
    pub(crate) fn set_counted(&self, counted: Counted) {
        *self.counted.lock() = counted;
    }

    /// Adds what was counted here to what others have, and does what that decides.
    pub(super) async fn settle_counts(&self, users: &RecentUsers) {
        let counted = self.counted.lock().clone();
        for trial in counted.trials {
            self.settle_trial(&trial, users).await;
        }
        for first_calls in counted.first_calls {
            self.settle_first_calls(&first_calls, users).await;
        }
    }

    async fn settle_trial(&self, running: &RunningTrial, users: &RecentUsers) {
        let Some(sums) = self.add(&running.counter, users).await else { return };
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
        running.counter.set_undecided(!self.end_trial(&running.name, change).await);
    }

    async fn settle_first_calls(&self, first: &FirstCalls, users: &RecentUsers) {
        let Some(sums) = self.add(&first.counter, users).await else { return };
        let Some(because) = because(&sums) else {
            first.counter.set_undecided(false);
            if sums.new.calls >= FIRST_CALLS {
                first.end();
            }
            return;
        };
        let change =
            Change::Trapped { digest: first.digest.clone(), since: first.since, because: because.clone() };
        match self.change_if_needed(&first.name, HOST, |_| Ok(change.clone())).await {
            Ok((_, is_changed)) => {
                first.end();
                if is_changed {
                    tracing::error!(
                        component = &*first.name,
                        digest = first.digest,
                        because,
                        "a version that served is withdrawn, because its calls trap"
                    );
                    self.observer.version_withdrawn(&first.name);
                }
            }
            Err(error) => {
                first.counter.set_undecided(true);
                tracing::warn!(
                    component = &*first.name, %error,
                    "a version whose calls trap could not be withdrawn; it is tried again"
                );
            }
        }
    }

    /// Adds what was counted here, and says the sums of all replicas; nothing where there is nothing to add
    /// or to decide. The users that called any tool lately are noted in them: where they are several, no one
    /// of them decides, also when the others have not called this version.
    async fn add(&self, counter: &CallCounter, users: &RecentUsers) -> Option<TrialCounts> {
        if counter.is_empty() && !counter.is_undecided() {
            return None;
        }
        users.list(Instant::now()).iter().for_each(|user| counter.note_user(user.as_deref()));
        let counts = counter.take();
        let sums: Result<_, VersionsError> = self.store.add_counts(&counter.id, &counts).await;
        sums.inspect_err(|error| {
            // Perhaps they were added. A trap that is counted twice ends a trial too early, one that is lost
            // never.
            counter.put_back(&counts);
            tracing::debug!(%error, "what was counted of a version could not be kept");
        })
        .ok()
    }

    /// Withdraws a version that is tried, here and for all replicas. Says whether that is written down. Where
    /// it is not, the trial goes on, and the caller has to try again.
    pub(crate) async fn fail(&self, name: &str, id: &str, because: String) -> bool {
        self.end_trial(name, Change::TrialFailed { trial: id.to_owned(), because: vec![because] }).await
    }

    /// Ends a trial for all replicas. Says whether that is written down.
    async fn end_trial(&self, name: &str, change: Change) -> bool {
        let ended = self.change(name, HOST, |_| Ok(change.clone())).await;
        if let Err(error) = &ended {
            tracing::warn!(component = name, %error, "a trial could not be ended; it is tried again");
        }
        ended.is_ok()
    }
}
