//! The queue of jobs, in memory.

use std::time::{Duration, UNIX_EPOCH};

use agent_core::ports::queue::{LEASE, address_of, stalled_after};
use agent_core::ports::{AttemptEnd, ChangedJobs, Claim, JobChanges, JobQueue, QueueError, Renewal};
use agent_core::testing::clock::store_clock;
use agent_core::words::{
    CancelOutcome, Depth, Job, JobData, JobPage, JobQuery, JobStatus, RetryOutcome, WaitDepth,
};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::queue_state::{Entry, Held, State};

/// How long whoever follows the queue waits for a change.
const CHANGES_WITHIN: Duration = Duration::from_secs(5);

/// Jobs by the order in which they were added.
#[derive(Debug)]
pub struct ReferenceQueue {
    lease: Duration,
    state: Mutex<State>,
    changed: Notify,
}

impl Default for ReferenceQueue {
    fn default() -> Self {
        Self::with_lease(LEASE)
    }
}

impl ReferenceQueue {
    /// A queue whose leases last that long.
    pub fn with_lease(lease: Duration) -> Self {
        Self { lease, state: Mutex::default(), changed: Notify::new() }
    }

    /// Every job, as it stands.
    pub fn jobs(&self) -> Vec<Job> {
        self.state.lock().jobs.values().map(|entry| entry.job.clone()).collect()
    }

    /// The query of every job.
    pub fn queries(&self) -> Vec<String> {
        self.state.lock().jobs.values().map(|entry| entry.data.query.clone()).collect()
    }

    pub fn job(&self, job_id: &str) -> Option<Job> {
        self.state.lock().of_id(job_id).map(|entry| entry.job.clone())
    }

    /// How many claims of the job's run were lost.
    pub fn lost_claims(&self, job_id: &str) -> u32 {
        self.state.lock().of_id(job_id).map_or(0, |entry| entry.lost)
    }

    /// How many jobs that worker holds.
    pub fn held_by(&self, worker: &str) -> usize {
        let held = |entry: &&Entry| entry.held.as_ref().is_some_and(|held| held.worker == worker);
        self.state.lock().jobs.values().filter(held).count()
    }

    /// The token of whoever holds the job.
    pub fn token_of(&self, job_id: &str) -> Option<String> {
        self.state.lock().of_id(job_id)?.held.as_ref().map(|held| held.token.clone())
    }

    /// Makes a job claimable although somebody holds it, without that anybody knows: what a queue must never
    /// do.
    pub fn forget_holder(&self) {
        let mut state = self.state.lock();
        if let Some(held) = state.jobs.values_mut().find_map(|entry| entry.held.as_mut()) {
            held.until = Instant::now();
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

/// The number in a cursor of that kind.
fn number_in(cursor: Option<&str>, kind: char) -> Result<Option<u64>, QueueError> {
    let Some(cursor) = cursor else { return Ok(None) };
    let number = cursor.strip_prefix(kind).and_then(|number| number.parse().ok());
    number.map(Some).ok_or(QueueError::BadCursor)
}

#[async_trait]
impl JobQueue for ReferenceQueue {
    async fn add(&self, job: &JobData) -> Result<String, QueueError> {
        let id = self.state.lock().add(job);
        self.changed.notify_waiters();
        Ok(id)
    }

    async fn read(&self, job_id: &str) -> Result<Option<Job>, QueueError> {
        Ok(self.job(job_id))
    }

    async fn list(&self, wanted: &JobQuery<'_>) -> Result<JobPage, QueueError> {
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
        let mut state = self.state.lock();
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
        self.changed.notify_waiters();
        Ok(CancelOutcome::Done)
    }

    async fn list_parked(&self, limit: usize, cursor: Option<&str>) -> Result<JobPage, QueueError> {
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
        let mut state = self.state.lock();
        state.promote(Instant::now());
        let place = state.last_place + 1;
        let parked = state.of_id(job_id).filter(|entry| entry.job.status == JobStatus::Parked);
        let Some(entry) = parked else { return Ok(false) };
        if within.is_zero() {
            entry.wait_at(place);
        } else {
            let due = Instant::now() + within;
            entry.due = Some(entry.due.map_or(due, |expiry| expiry.min(due)));
        }
        state.last_place = place;
        drop(state);
        self.changed.notify_waiters();
        Ok(true)
    }

    async fn retry(&self, job_id: &str) -> Result<RetryOutcome, QueueError> {
        let mut state = self.state.lock();
        let (place, run_id) = (state.last_place + 1, state.new_run());
        let Some(entry) = state.of_id(job_id) else { return Ok(RetryOutcome::Unknown) };
        if entry.job.status != JobStatus::Failed {
            return Ok(RetryOutcome::NotFailed);
        }
        entry.wait_at(place);
        (entry.job.run_id, entry.job.finished_at, entry.claims, entry.lost) = (run_id, None, 0, 0);
        state.last_place = place;
        drop(state);
        self.changed.notify_waiters();
        Ok(RetryOutcome::Done)
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
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

    async fn claim(&self, worker: &str, patience: Duration) -> Result<Option<Claim>, QueueError> {
        let until = Instant::now() + patience;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let next_due = {
                let mut state = self.state.lock();
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

    async fn reclaim(&self, worker: &str) -> Result<u64, QueueError> {
        let mut state = self.state.lock();
        let (stalled, mut place, mut reclaimed) = (stalled_after(self.lease), state.first_place, 0);
        for entry in state.jobs.values_mut() {
            let is_predecessors = |held: &Held| {
                held.worker != worker
                    && address_of(&held.worker) == address_of(worker)
                    && held.renewed.elapsed() >= stalled
            };
            if entry.held.as_ref().is_some_and(is_predecessors) {
                (place, reclaimed) = (place - 1, reclaimed + 1);
                entry.lost += 1;
                entry.wait_at(place);
            }
        }
        state.first_place = place;
        drop(state);
        self.changed.notify_waiters();
        Ok(reclaimed)
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal, QueueError> {
        let mut state = self.state.lock();
        let Some(entry) = state.of_id(&claim.job_id) else { return Ok(Renewal::Lost) };
        let cancel_asked = entry.cancel_asked;
        let Some(held) = entry.held.as_mut().filter(|held| held.token == claim.token) else {
            return Ok(Renewal::Lost);
        };
        held.renewed = Instant::now();
        held.until = held.renewed + self.lease;
        Ok(if cancel_asked { Renewal::Cancelled } else { Renewal::Held })
    }

    async fn settle(&self, claim: &Claim, end: &AttemptEnd) -> Result<(), QueueError> {
        self.state.lock().settle(claim, end)?;
        self.changed.notify_waiters();
        Ok(())
    }

    async fn settle_and_claim(
        &self,
        claim: &Claim,
        end: &AttemptEnd,
        worker: &str,
    ) -> Result<Option<Claim>, QueueError> {
        let next = {
            let mut state = self.state.lock();
            match state.settle(claim, end)? {
                Some(told_before) => told_before.next,
                None => {
                    let next = state.claim(worker, self.lease);
                    let ended = state.of_id(&claim.job_id).and_then(|entry| entry.last_end.as_mut());
                    if let Some(ended) = ended {
                        ended.next.clone_from(&next);
                    }
                    next
                }
            }
        };
        self.changed.notify_waiters();
        Ok(next)
    }

    async fn changes(&self, after: Option<&str>) -> Result<Option<JobChanges>, QueueError> {
        let told = |ended: &[String]| ended.len().to_string();
        let Some(after) = after.and_then(|after| after.parse::<usize>().ok()) else {
            return Ok(Some(JobChanges { cursor: told(&self.state.lock().ended), jobs: ChangedJobs::Any }));
        };
        let until = Instant::now() + CHANGES_WITHIN;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let state = self.state.lock();
                let new = state.ended.get(after..).unwrap_or_default();
                if !new.is_empty() || Instant::now() >= until {
                    let jobs = ChangedJobs::These(new.to_vec());
                    return Ok(Some(JobChanges { cursor: told(&state.ended), jobs }));
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
