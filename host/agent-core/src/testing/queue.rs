//! A queue of jobs in memory, with all that the port promises: it passes the contract suite of the real ones
//! (`backends/tests/it/memory.rs`), and simulations stand on it (`host/sim`). Leases run out by the clock of
//! tokio.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use boxed_async::boxed_async;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::clock::store_clock;
use super::queue_state::{Entry, Held, State};
use super::stores::Switch;
use crate::ports::queue::{LEASE, address_of, stalled_after};
use crate::ports::{AttemptEnd, ChangedJobs, Claim, ClaimedJob, JobChanges, JobQueue, QueueError, Renewal};
use crate::words::{
    CancelOutcome, Depth, Job, JobData, JobPage, JobQuery, JobStatus, RetryOutcome, WaitDepth,
};

/// How long whoever follows the queue waits for a change.
const CHANGES_WITHIN: Duration = Duration::from_secs(5);

/// Who looks at the queue before each change.
type Look = Box<dyn Fn(&TestQueue) + Send + Sync>;

/// Jobs by the order in which they were added.
pub struct TestQueue {
    /// Breaks it.
    pub switch: Switch,
    /// Whether the end of one job claims the next.
    pub hands_over: AtomicBool,
    /// Whether it says which jobs end.
    pub tells: AtomicBool,
    /// Whether it fails to say so.
    pub tells_nothing: AtomicBool,
    /// Whether workers of Node share it, who read the query of a job alone.
    pub has_node_workers: AtomicBool,
    pub(super) lease: Duration,
    pub(super) state: Mutex<State>,
    pub(super) handed_over: Mutex<u64>,
    calls: Mutex<u64>,
    changed: Notify,
    pub(super) before_writes: OnceLock<Look>,
}

impl Default for TestQueue {
    /// A queue without what a queue need not be able to do.
    fn default() -> Self {
        Self {
            switch: Switch::default(),
            hands_over: AtomicBool::new(false),
            tells: AtomicBool::new(false),
            tells_nothing: AtomicBool::new(false),
            has_node_workers: AtomicBool::new(false),
            lease: LEASE,
            state: Mutex::default(),
            handed_over: Mutex::default(),
            calls: Mutex::default(),
            changed: Notify::new(),
            before_writes: OnceLock::new(),
        }
    }
}

impl TestQueue {
    /// A queue that can do all that a queue may, and whose leases last that long.
    pub fn able(lease: Duration) -> Self {
        let (hands_over, tells) = (AtomicBool::new(true), AtomicBool::new(true));
        Self { hands_over, tells, lease, ..Self::default() }
    }

    /// Wakes whoever waits for the queue to change.
    pub fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// How often the queue was asked anything.
    pub fn calls(&self) -> u64 {
        *self.calls.lock()
    }

    pub(super) fn write(&self) -> MutexGuard<'_, State> {
        if let Some(look) = self.before_writes.get() {
            look(self);
        }
        self.state.lock()
    }

    async fn check(&self) -> Result<(), QueueError> {
        *self.calls.lock() += 1;
        self.switch.check().await.map_err(|detail| QueueError::Store { detail })
    }
}

/// The number in a cursor of that kind.
fn number_in(cursor: Option<&str>, kind: char) -> Result<Option<u64>, QueueError> {
    let Some(cursor) = cursor else { return Ok(None) };
    let number = cursor.strip_prefix(kind).and_then(|number| number.parse().ok());
    number.map(Some).ok_or(QueueError::BadCursor)
}

#[boxed_async]
impl JobQueue for TestQueue {
    async fn add(&self, job: &JobData) -> Result<String, QueueError> {
        self.check().await?;
        let id = self.write().add(&job.user_id, Ok(job.clone()));
        self.wake();
        Ok(id)
    }

    fn takes_options(&self) -> bool {
        !self.has_node_workers.load(Ordering::Relaxed)
    }

    async fn read(&self, job_id: &str) -> Result<Option<Job>, QueueError> {
        self.check().await?;
        Ok(self.find(job_id))
    }

    async fn list(&self, wanted: &JobQuery<'_>) -> Result<JobPage, QueueError> {
        self.check().await?;
        let before = number_in(wanted.cursor, 'j')?.unwrap_or(u64::MAX);
        let state = self.state.lock();
        let is_wanted = |entry: &&Entry| {
            entry.number < before
                && entry.job.user_id == wanted.user_id
                && wanted.status.is_none_or(|status| entry.job.status == status)
        };
        let mut found: Vec<&Entry> =
            state.jobs.values().rev().filter(is_wanted).take(wanted.limit.saturating_add(1)).collect();
        let has_more = found.len() > wanted.limit;
        found.truncate(wanted.limit);
        let next_cursor = found.last().filter(|_| has_more).map(|last| format!("j{}", last.number));
        Ok(JobPage { jobs: found.into_iter().map(|entry| entry.job.clone()).collect(), next_cursor })
    }

    async fn cancel(&self, job_id: &str) -> Result<CancelOutcome, QueueError> {
        self.check().await?;
        let mut state = self.write();
        let Some(entry) = state.of_id(job_id) else { return Ok(CancelOutcome::Unknown) };
        if entry.job.status.has_ended() {
            return Ok(CancelOutcome::HadEnded);
        }
        if entry.job.status == JobStatus::Active {
            entry.cancel_asked = true;
            return Ok(CancelOutcome::Asked);
        }
        entry.finish(JobStatus::Cancelled);
        state.ended.push(job_id.to_owned());
        drop(state);
        self.wake();
        Ok(CancelOutcome::Done)
    }

    async fn list_parked(&self, limit: usize, cursor: Option<&str>) -> Result<JobPage, QueueError> {
        self.check().await?;
        let skipped = usize::try_from(number_in(cursor, 'p')?.unwrap_or(0)).unwrap_or(usize::MAX);
        let state = self.state.lock();
        let mut parked: Vec<&Entry> =
            state.jobs.values().filter(|entry| entry.job.status == JobStatus::Parked).collect();
        parked.sort_by_key(|entry| (entry.due, entry.number));
        let more = parked.len() > skipped.saturating_add(limit);
        let jobs = parked.into_iter().skip(skipped).take(limit).map(|entry| entry.job.clone()).collect();
        Ok(JobPage { jobs, next_cursor: more.then(|| format!("p{}", skipped + limit)) })
    }

    async fn resume(&self, job_id: &str, within: Duration) -> Result<bool, QueueError> {
        self.check().await?;
        let mut state = self.write();
        let front = state.first_place - 1;
        let parked = state.of_id(job_id).filter(|entry| entry.job.status == JobStatus::Parked);
        let Some(entry) = parked else { return Ok(false) };
        if within.is_zero() {
            entry.wait_at(front);
        } else {
            let due = Instant::now() + within;
            entry.due = Some(entry.due.map_or(due, |expiry| expiry.min(due)));
        }
        state.first_place = front;
        drop(state);
        self.wake();
        Ok(true)
    }

    async fn retry(&self, job_id: &str) -> Result<RetryOutcome, QueueError> {
        self.check().await?;
        let mut state = self.write();
        let (place, run_id) = (state.last_place + 1, state.new_run());
        let Some(entry) = state.of_id(job_id) else { return Ok(RetryOutcome::Unknown) };
        if entry.job.status != JobStatus::Failed {
            return Ok(RetryOutcome::NotFailed);
        }
        entry.wait_at(place);
        (entry.job.run_id, entry.job.finished_at, entry.claims, entry.lost) = (run_id, None, 0, 0);
        entry.cancel_asked = false;
        let number = entry.number;
        state.open.insert(number);
        state.last_place = place;
        drop(state);
        self.wake();
        Ok(RetryOutcome::Done)
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        self.check().await?;
        let state = self.state.lock();
        let of = |status| state.jobs.values().filter(move |entry| entry.job.status == status);
        let oldest = |status| {
            let age = |entry: &Entry| store_clock().duration_since(entry.job.created_at).unwrap_or_default();
            of(status).map(age).max()
        };
        let mut depth = Depth {
            waiting: of(JobStatus::Waiting).count() as u64,
            active: of(JobStatus::Active).count() as u64,
            delayed: of(JobStatus::Delayed).count() as u64,
            parked: of(JobStatus::Parked).count() as u64,
            oldest_parked: oldest(JobStatus::Parked),
            oldest_waiting: oldest(JobStatus::Waiting),
            ..Depth::default()
        };
        for entry in of(JobStatus::Parked) {
            let since = UNIX_EPOCH + Duration::from_millis(entry.open.since);
            let oldest = store_clock().duration_since(since).ok();
            depth.add_waits(entry.open, WaitDepth { runs: 1, oldest });
        }
        Ok(depth)
    }

    async fn claim(&self, worker: &str, patience: Duration) -> ClaimedJob {
        let (until, mut is_first) = (Instant::now() + patience, true);
        loop {
            self.check().await?;
            // At the end of its patience a caller goes away, whatever is due in that moment.
            if !std::mem::take(&mut is_first) && Instant::now() >= until {
                return Ok(None);
            }
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let next_due = {
                let mut state = self.write();
                if let Some(claim) = state.claim(worker, self.lease) {
                    return Ok(Some(claim));
                }
                state.next_due()
            };
            if Instant::now() >= until {
                return Ok(None);
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(next_due.map_or(until, |due| due.min(until))) => {}
            }
        }
    }

    async fn incarnation(&self) -> Result<Option<String>, QueueError> {
        self.check().await?;
        Ok(self.state.lock().incarnation().map(|life| life.to_string()))
    }

    async fn now(&self) -> Result<SystemTime, QueueError> {
        self.check().await?;
        Ok(store_clock())
    }

    async fn reclaim(&self, worker: &str, began: SystemTime) -> Result<u64, QueueError> {
        self.check().await?;
        let now = Instant::now();
        let began = now.checked_sub(store_clock().duration_since(began).unwrap_or_default());
        let mut state = self.write();
        let (stalled, mut place, mut reclaimed) = (stalled_after(self.lease), state.first_place, 0);
        for entry in state.jobs.values_mut() {
            let is_predecessors = |held: &Held| {
                held.worker != worker
                    && address_of(&held.worker) == address_of(worker)
                    && held.renewed.elapsed() >= stalled
                    && began.is_some_and(|began| held.renewed < began)
            };
            if entry.held.as_ref().is_some_and(is_predecessors) {
                (place, reclaimed) = (place - 1, reclaimed + 1);
                entry.lost += 1;
                entry.wait_at(place);
            }
        }
        state.first_place = place;
        drop(state);
        if reclaimed > 0 {
            self.wake();
        }
        Ok(reclaimed)
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal, QueueError> {
        self.check().await?;
        let mut state = self.write();
        let Some(entry) = state.of_id(&claim.job_id) else { return Ok(Renewal::Lost) };
        let cancel_asked = entry.cancel_asked;
        Ok(match state.is_held(claim, self.lease) {
            false => Renewal::Lost,
            true if cancel_asked => Renewal::Cancelled,
            true => Renewal::Held,
        })
    }

    async fn settle(&self, claim: &Claim, end: &AttemptEnd) -> Result<(), QueueError> {
        self.check().await?;
        self.write().settle(claim, end)?;
        self.wake();
        Ok(())
    }

    async fn settle_and_claim(&self, claim: &Claim, end: &AttemptEnd, worker: &str) -> ClaimedJob {
        self.check().await?;
        let next = {
            let mut state = self.write();
            match state.settle(claim, end)? {
                Some(told_before) => told_before.next.filter(|next| state.is_held(next, self.lease)),
                None if self.hands_over.load(Ordering::Relaxed) => {
                    let next = state.claim(worker, self.lease);
                    let ended = state.of_id(&claim.job_id).and_then(|entry| entry.last_end.as_mut());
                    if let Some(ended) = ended {
                        ended.next.clone_from(&next);
                    }
                    *self.handed_over.lock() += u64::from(next.is_some());
                    next
                }
                None => None,
            }
        };
        self.wake();
        Ok(next)
    }

    async fn changes(&self, after: Option<&str>) -> Result<Option<JobChanges>, QueueError> {
        if !self.tells.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let until = Instant::now() + CHANGES_WITHIN;
        let any = |ended: usize| Ok(Some(JobChanges { cursor: ended.to_string(), jobs: ChangedJobs::Any }));
        loop {
            self.check().await?;
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.tells_nothing.load(Ordering::Relaxed) {
                return Err(QueueError::Store { detail: "it says nothing".into() });
            }
            {
                let state = self.state.lock();
                let last = state.ended.len();
                // Behind the last one is what was forgotten.
                let after = after.and_then(|after| after.parse().ok()).filter(|after| *after <= last);
                let Some(after) = after else { return any(last) };
                let new = state.ended.get(after..).unwrap_or_default();
                if !new.is_empty() || Instant::now() >= until {
                    let jobs = ChangedJobs::These(new.to_vec());
                    return Ok(Some(JobChanges { cursor: last.to_string(), jobs }));
                }
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(until) => {}
            }
        }
    }

    async fn close(&self) {}
}
