//! Retention: what has ended is removed after so many days, or when there are more than so many newer ones.
//!
//! [`Sweeper::run`] is the one task of a process that does so. Of all replicas one sweeps a store at a time,
//! under a lease that lies there, about once an hour; it removes in small steps with pauses, so that others
//! are not kept waiting, but for partitions, which are dropped as a whole. What has not ended is never
//! removed: a run without a record, a job that waits, nor the run of a job that waits for another attempt.
//! [`Sweeper::sweep_now`] and [`Sweeper::forget`] are for the command line.
//!
//! What does not belong here: what has ended, which a store knows ([`agent_core::ports::Retention`]).

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::{
    ClaimTime, EndedItem, EndedPage, JobQueue, LeaseError, LeaseResult, Leases, Observer, QueueError,
    Renewal, RetainedKind, Retention, RetentionBounds, RetentionError, RetentionResult,
};
use boxed_async::boxed_async;
use futures::future::try_join_all;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::held_lease::{LeaseClaim, RenewalTerms, keep_renewed};
use crate::outage::Outage;

/// How long after a sweep the next one is due.
const INTERVAL: Duration = Duration::from_secs(3600);

/// How often a process looks whether a sweep is due, and how soon one that failed is tried again.
const LOOK: Duration = Duration::from_secs(60);

/// How long a sweep's lease lasts unless it is renewed.
const LEASE: Duration = Duration::from_secs(60);

const TERMS: RenewalTerms = RenewalTerms {
    lease: LEASE,
    every: Duration::from_secs(20),
    in_step_since: None,
    stop_before: Some(Duration::from_secs(1)),
};

/// Most things that are removed in one step.
const STEP: u32 = 200;

/// How long others have the store for themselves after each step.
const PAUSE: Duration = Duration::from_millis(50);

/// How many jobs are looked up at once.
const LOOKUPS: usize = 8;

/// A store and how long things stay there.
#[derive(Clone)]
pub struct Rule {
    pub store: Arc<dyn Retention>,
    /// Where the lease of its sweeps lies, under the name of what it keeps.
    pub leases: Arc<dyn Leases>,
    /// Bounds of what the store keeps.
    pub bounds: RetentionBounds,
}

/// Removes what is older than its rule says.
pub struct Sweeper {
    rules: Vec<(Rule, Outage)>,
    /// Says whether the job of a run has ended; absent where there are no jobs.
    queue: Option<Arc<dyn JobQueue>>,
    /// Names this process and no other.
    name: String,
    observer: Arc<dyn Observer>,
}

/// The sweep of a store, as this process has claimed it.
struct Sweep<'a> {
    rule: &'a Rule,
    owner: &'a str,
}

#[boxed_async]
impl LeaseClaim for Sweep<'_> {
    const WHAT: &'static str = "sweep";
    type Error = LeaseError;

    async fn renew(&self) -> LeaseResult<Renewal> {
        self.rule.leases.renew(self.rule.store.kind().as_str(), self.owner, LEASE).await
    }
}

/// Why a sweep did not come to its end. What it removed until then is gone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// The store failed.
    #[error("the store of {kind} failed: {error}")]
    Store {
        /// What it keeps.
        kind: RetainedKind,
        /// What it says.
        error: RetentionError,
    },
    /// Whether the job of a run has ended could not be asked.
    #[error("whether the jobs of runs have ended is not known")]
    Queue(#[from] QueueError),
    /// Another process sweeps.
    #[error("another process is sweeping {0} at this moment: try again when it is done")]
    Taken(RetainedKind),
}

impl Sweeper {
    /// Sweeps by these rules. `queue` says whether the job of a run has ended; `name` is this process' and no
    /// other's.
    pub fn new(
        rules: Vec<Rule>,
        queue: Option<Arc<dyn JobQueue>>,
        name: String,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let rules = rules.into_iter().map(|rule| (rule, Outage::default())).collect();
        Self { rules, queue, name, observer }
    }

    /// Sweeps whenever that is due. Never ends by itself and may be dropped anywhere. A store that fails is
    /// tried again a minute later.
    pub async fn run(&self) {
        for (rule, _) in self.rules.iter().filter(|(rule, _)| rule.bounds.are_set()) {
            self.observer.nothing_overdue(rule.store.kind());
        }
        loop {
            for (rule, outage) in &self.rules {
                let kind = rule.store.kind();
                match self.look(rule).await {
                    Ok(()) => {
                        if let Some(lasted) = outage.ends() {
                            info!(
                                what = kind.as_str(),
                                outage_ms = lasted.as_millis(),
                                "sweeping works again"
                            );
                        }
                    }
                    Err(error) => {
                        self.observer.sweep_failed(kind);
                        if outage.begins() {
                            warn!(what = kind.as_str(), %error, "a sweep failed, and is tried again every minute");
                        }
                    }
                }
            }
            sleep(LOOK).await;
        }
    }

    async fn look(&self, rule: &Rule) -> Result<(), SweepError> {
        let kind = rule.store.kind();
        remove_expired(rule).await?;
        if rule.bounds.are_set() {
            match self.sweep(rule, ClaimTime::WhenDue).await {
                Ok(removed) => {
                    self.observer.nothing_overdue(kind);
                    if removed > 0 {
                        info!(what = kind.as_str(), removed, "what had ended long ago was removed");
                    }
                }
                Err(SweepError::Taken(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let oldest = rule.store.oldest().await.map_err(failed(kind))?;
        self.observer.oldest_retained(kind, oldest);
        Ok(())
    }

    /// How much a sweep would remove now, by kind.
    pub async fn count(&self) -> Result<Vec<(RetainedKind, u64)>, SweepError> {
        let mut counts = Vec::new();
        for (rule, _) in &self.rules {
            let mut count = 0;
            if let Some(before) = cutoff(rule).await? {
                let mut pages = Pages::new(&rule.store, Selection::EndedBefore(before));
                while let Some(ids) = self.next_ids(&mut pages).await? {
                    count += ids.len() as u64;
                }
            }
            counts.push((rule.store.kind(), count));
        }
        Ok(counts)
    }

    /// Sweeps everything at once, whether that is due or not, and says how much was removed by kind.
    pub async fn sweep_now(&self) -> Result<Vec<(RetainedKind, u64)>, SweepError> {
        let mut removed = Vec::new();
        for (rule, _) in &self.rules {
            remove_expired(rule).await?;
            let count = if rule.bounds.are_set() { self.sweep(rule, ClaimTime::Now).await? } else { 0 };
            removed.push((rule.store.kind(), count));
        }
        Ok(removed)
    }

    /// The ids of all that has ended and belongs to that user, by kind.
    pub async fn owned_by(&self, user_id: &str) -> Result<Vec<(RetainedKind, Vec<String>)>, SweepError> {
        let mut owned = Vec::new();
        for (rule, _) in &self.rules {
            let mut all = Vec::new();
            let mut pages = Pages::new(&rule.store, Selection::EndedOf(user_id));
            while let Some(ids) = self.next_ids(&mut pages).await? {
                all.extend(ids);
            }
            owned.push((rule.store.kind(), all));
        }
        Ok(owned)
    }

    /// Removes all that has ended and belongs to that user, and says how much by kind. The bounds are not
    /// looked at.
    pub async fn forget(&self, user_id: &str) -> Result<Vec<(RetainedKind, u64)>, SweepError> {
        let mut removed = Vec::new();
        // Found before anything is removed: removing the jobs first would make their runs look like those of
        // no job.
        let owned = self.owned_by(user_id).await?;
        for ((rule, _), (kind, ids)) in self.rules.iter().zip(owned) {
            let mut count = 0;
            // First: who is forgotten again after a failure finds by the things what belongs to them.
            rule.store.erase_traces(&ids).await.map_err(failed(kind))?;
            for step in ids.chunks(STEP as usize) {
                let removed = rule.store.remove(step).await.map_err(failed(kind))?;
                self.observer.swept(kind, removed);
                count += removed;
                sleep(PAUSE).await;
            }
            removed.push((kind, count));
        }
        Ok(removed)
    }

    /// Sweeps one store under its lease, and says how much it removed.
    async fn sweep(&self, rule: &Rule, time: ClaimTime) -> Result<u64, SweepError> {
        let (kind, asked) = (rule.store.kind(), Instant::now());
        let failed = |error: LeaseError| failed(kind)(RetentionError(error.0));
        if !rule.leases.claim(kind.as_str(), &self.name, LEASE, time).await.map_err(failed)? {
            return Err(SweepError::Taken(kind));
        }
        let sweep = Sweep { rule, owner: &self.name };
        let swept = tokio::select! {
            biased;
            swept = self.remove_ended(rule) => swept,
            _lost = keep_renewed(&sweep, TERMS, asked) => return Err(SweepError::Taken(kind)),
        };
        let next = if swept.is_ok() { INTERVAL } else { LOOK };
        let settled = rule.leases.settle(kind.as_str(), &self.name, next).await.map_err(failed);
        // What failed first says more.
        swept.and_then(|removed| settled.map(|_| removed))
    }

    async fn remove_ended(&self, rule: &Rule) -> Result<u64, SweepError> {
        let (store, kind) = (&rule.store, rule.store.kind());
        let Some(before) = cutoff(rule).await? else { return Ok(0) };
        let mut removed = self.drop_partitions(store, before).await?;
        let mut pages = Pages::new(store, Selection::EndedBefore(before));
        while let Some(ids) = self.next_ids(&mut pages).await? {
            if !ids.is_empty() {
                let count = store.remove(&ids).await.map_err(failed(kind))?;
                self.observer.swept(kind, count);
                removed += count;
            }
            sleep(PAUSE).await;
        }
        while removed > 0 && store.give_back_room().await.map_err(failed(kind))? {
            sleep(PAUSE).await;
        }
        Ok(removed)
    }

    /// First, so that as little as possible is left to remove one by one.
    async fn drop_partitions(
        &self,
        store: &Arc<dyn Retention>,
        before: SystemTime,
    ) -> Result<u64, SweepError> {
        let kind = store.kind();
        let (mut from, mut removed) = (None::<String>, 0);
        loop {
            let step = store.drop_partitions(before, from.as_deref()).await.map_err(failed(kind))?;
            if step.removed > 0 {
                self.observer.swept(kind, step.removed);
                removed += step.removed;
            }
            let Some(next) = step.next else { return Ok(removed) };
            from = Some(next);
            sleep(PAUSE).await;
        }
    }

    /// The ids of the next page, without those whose job has not ended; nothing when there are no more pages.
    async fn next_ids(&self, pages: &mut Pages<'_>) -> Result<Option<Vec<String>>, SweepError> {
        let Some(items) = pages.next().await.map_err(failed(pages.store.kind()))? else { return Ok(None) };
        let mut ids = Vec::with_capacity(items.len());
        for some in items.chunks(LOOKUPS) {
            let kept = try_join_all(some.iter().map(|item| self.unless_waiting(item))).await?;
            ids.extend(kept.into_iter().flatten());
        }
        Ok(Some(ids))
    }

    /// The record of a run may be that of an attempt which failed, after which its job waits for another one.
    async fn unless_waiting(&self, item: &EndedItem) -> Result<Option<String>, QueueError> {
        let (Some(queue), Some(job_id)) = (&self.queue, &item.job_id) else {
            return Ok(Some(item.id.clone()));
        };
        let job = queue.read(job_id).await?;
        let waits = job.is_some_and(|job| job.run_id == item.id && !job.status.has_ended());
        Ok((!waits).then(|| item.id.clone()))
    }
}

/// What is looked for in a store.
#[derive(Clone, Copy)]
enum Selection<'a> {
    EndedBefore(SystemTime),
    EndedOf(&'a str),
}

/// The pages of what is looked for, one after the other.
struct Pages<'a> {
    store: &'a Arc<dyn Retention>,
    wanted: Selection<'a>,
    from: Option<String>,
    were_all_read: bool,
}

impl<'a> Pages<'a> {
    fn new(store: &'a Arc<dyn Retention>, wanted: Selection<'a>) -> Self {
        Self { store, wanted, from: None, were_all_read: false }
    }

    async fn next(&mut self) -> RetentionResult<Option<Vec<EndedItem>>> {
        if self.were_all_read {
            return Ok(None);
        }
        let from = self.from.as_deref();
        let EndedPage { items, next } = match self.wanted {
            Selection::EndedBefore(before) => self.store.ended_before(before, from, STEP).await?,
            Selection::EndedOf(user_id) => self.store.ended_of(user_id, from, STEP).await?,
        };
        self.were_all_read = next.is_none();
        self.from = next;
        Ok(Some(items))
    }
}

/// What ended before this goes; nothing when all stays. Never later than now by the store's clock: the end of
/// one that a process with a clock ahead of it has recorded would take along what has not ended.
async fn cutoff(rule: &Rule) -> Result<Option<SystemTime>, SweepError> {
    let Rule { store, bounds, .. } = rule;
    if !bounds.are_set() {
        return Ok(None);
    }
    let failed = failed(store.kind());
    let now = store.now().await.map_err(failed)?;
    let by_age = bounds.age.and_then(|age| now.checked_sub(age));
    let by_count = match bounds.count {
        Some(count) => store.end_of_newest(count).await.map_err(failed)?,
        None => None,
    };
    Ok(by_age.max(by_count).map(|before| before.min(now)))
}

/// Removes what goes by an age of its own. It needs no lease: what two processes remove at once is gone once.
async fn remove_expired(rule: &Rule) -> Result<(), SweepError> {
    while rule.store.remove_expired().await.map_err(failed(rule.store.kind()))? {
        sleep(PAUSE).await;
    }
    Ok(())
}

fn failed(kind: RetainedKind) -> impl Fn(RetentionError) -> SweepError + Copy {
    move |error| SweepError::Store { kind, error }
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rule").field("kind", &self.store.kind()).field("bounds", &self.bounds).finish()
    }
}
