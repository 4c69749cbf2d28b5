//! The queue of jobs on Redis, in BullMQ's own protocol: Node producers, Node workers and Bull Board work on
//! the same queue.
//!
//! | key | what |
//! |---|---|
//! | `bull:agent-tasks:…` | BullMQ's, written by its own scripts (`official_scripts.rs`) and, where it has no word for it, by ours |
//! | `agent-host:agent-tasks:user:<id>` | a user's jobs, the newest with the highest score |
//! | `agent-host:agent-tasks:wish:<job>` | a request to cancel an active job: the attempt that is meant (`cancel_request.rs`) |
//! | `agent-host:agent-tasks:cancelled:<job>` | what was known of a job that is cancelled |
//! | `agent-host:agent-tasks:{added,claim,end,retried}:…` | that a script was carried out, so that sending it once more adds, claims, ends or retries nothing |
//! | `agent-host:agent-tasks:checked` | held by the process that looks for stalled jobs |
//! | `agent-host:agent-tasks:unchecked` | how many of many active jobs, counted from the oldest, the next look is to go through |
//! | `agent-host:agent-tasks:highest-id` | ids go on from here when BullMQ's counter was obliterated |
//! | `agent-host:agent-tasks:parked:<kind>` | jobs whose runs wait for something of that kind, by when they began |
//! | `agent-host:agent-tasks:sweeper`, `…:swept` | who removes old jobs now, and that it is not yet time to do so again |
//!
//! These are the names on one Redis. In a cluster the queue has one or more shards (`shard.rs`), each with
//! keys of one hash slot: `{bull}:agent-tasks:…` and `agent-host:{bull}:agent-tasks:…` for one, `{bull:0}`
//! and so on for more. [`BullQueue`] is all of them, `Store` is one: jobs are added to each in turn, claimed
//! from each in turn (`claim.rs`), and their lists (`listing.rs`) and events (`stream.rs`) are merged.
//!
//! But for the highest id and what is parked they expire by themselves. Fields of a job's hash are ours as
//! well (`job_hash.rs`): `agentHostRuns`, how many runs of the job have ended for good, is part of the run's
//! id, so that a job which somebody retries by hand runs anew, and `agentHostParked`, by which a delayed job
//! is known as one whose run waits for somebody. One of a job's options is ours too: `agentHostSubmitter`
//! (`submitter.rs`).
//!
//! A job costs three commands: one adds and lists it, one claims it, one ends it and claims the next. With
//! several shards no end claims the next one, so that no shard has to wait for the backlog of another. What
//! BullMQ's scripts do not do in the same step stands in ours around them (`lua.rs`, `scripts/`). Nothing
//! searches the lists of waiting and active jobs but a job's own end, as BullMQ's scripts do, and its
//! cancellation. Whoever waits for a job is woken by BullMQ's stream of events (`events.rs`).
//!
//! Stalled jobs are looked for by one process a second, and by one that starts, which may have had a
//! predecessor. A look goes through the active jobs in parts of a thousand (`lua::MOST_LOOKED_AT`), so that
//! no script takes long; from a thousand on there is a look for each part a second. It does not go by a set
//! of leases of our own: the list is as long as workers are busy, so such a set would be written at each
//! claim, renewal and end to spare reading as much once a second, and it would not know the jobs that Node
//! workers and releases before this one hold. Those are found here like ours.
//!
//! BullMQ's own scripts change BullMQ's keys, but for this, for which it has no script that fits:
//!
//! | what ours change | when | script |
//! |---|---|---|
//! | `id` is set to the highest id ever given | the queue was obliterated | `add.lua` |
//! | `marker` loses its entry | the last job was claimed | `claim.lua` |
//! | a job that was put first in `wait` goes to its end, from which jobs are claimed | its run is resumed, or its wait has expired | `resume.lua`, `claim.lua` |
//! | a lock lasts as long as at first | its claim was sent once more | `claim.lua` |
//! | `active` → `wait` or `prioritized`; the lock and the entry in `stalled` go; `marker` and `events` say so | its lease expired, or its worker was started anew | `reclaim_stalled.lua` |
//! | a lock is set anew, the entry in `stalled` goes | it expired and nobody took the job | `renew.lua` |
//! | a job leaves `wait`, `paused`, `delayed`, `prioritized`, `waiting-children` or `active`, with its lock and its entry in `stalled` | it is cancelled; BullMQ's script removes its hash | `cancel.lua` |
//! | `events` loses what is as old as the jobs that go | jobs that ended long ago are removed | `retention.rs` |
//! | `events` loses what is of a user's jobs | the user is forgotten | `retention.rs`, `event_jobs.lua` |
//! | fields of a job's hash that are ours | it is added, claimed, reclaimed, parked, resumed or cancelled | all of these but `renew.lua` |
//!
//! What BullMQ's own worker does around a job, and what becomes of it here. Each row is tested beside Node's
//! worker, or against the official port:
//!
//! | feature | here |
//! |---|---|
//! | priorities, delays, `lifo`, paused queues | as there: its scripts |
//! | `attempts`, `backoff` (fixed, exponential, `jitter`) | as there; without `attempts` three, as for jobs of our own |
//! | backoff strategies that are functions | refused with a log line: exponential from 2 s instead |
//! | job schedulers (`every`, cron patterns, `limit`, `startDate`, `endDate`, `tz`) | as there; without `tz` patterns are UTC |
//! | an iteration whose successor Redis refuses for good | the job fails and says so; there it stalls until it fails |
//! | repeatable jobs of BullMQ 5 | refused with a log line, as there: the job runs and none follows |
//! | flows: `failParentOnFailure`, `continueParentOnFailure`, `ignoreDependencyOnFailure`, `removeDependencyOnFailure` | as there |
//! | deduplication, `keepLastIfActive` included | as there: its scripts release the key |
//! | global concurrency and global rate limit of the queue, `rateLimit(ms)` | as there |
//! | a worker's own `limiter`, `concurrency`, `maxStalledCount`, `maxStartedAttempts` | settings of Node's worker; ours has five slots and its own rule for jobs that kill it |
//! | `removeOnComplete`, `removeOnFail` | as there; unasked for, by `JOBS_RETENTION_DAYS` and `_COUNT` (`retention.rs`) |
//! | `stackTraceLimit`, `stacktrace` | as there; a failure's text, without a stack |
//! | `keepLogs`, `log()`, `updateProgress()`, a worker's `metrics` | nothing is written: a run's journal is its log |
//! | stalled jobs | reclaimed after a lease (6 s, `lease.rs`), and not counted as stalled |
//! | edited data, a job retried by hand | a new run, as there |
//! | options of a job's run | ours alone: Node's worker reads the payload only, so they are refused unless none works here |
//! | cancelling | ours alone; refused while a Node worker holds the job, which cannot be told |
//!
//! Redis has to be 6.2 or newer.

mod cancel_request;
mod claim;
mod events;
mod finish;
mod job_hash;
mod lease;
mod listing;
mod lua;
mod official_scripts;
mod options;
mod own_keys;
mod own_scripts;
mod renewals;
mod retention;
mod schedule;
mod shard;
mod store;
mod stream;
mod submitter;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
mod trace_metadata;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::ports::queue::LEASE;
use agent_core::ports::{AttemptEnd, Claim, ClaimedJob, JobChanges, JobQueue, QueueError, Renewal};
use agent_core::words::{CancelOutcome, Depth, Job, JobData, JobPage, JobQuery, RetryOutcome, WaitDepth};
use boxed_async::boxed_async;
use futures::future::try_join_all;
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::redis::{AddressError, Redis};
use claim::Pollers;
use official_scripts::Addition;
pub use retention::BullRetention;
use shard::{Shard, locate};
use store::{Store, broken, store_error};
use stream::Readers;
use time::{from_millis, now};

/// What expires by itself after this long is kept for good: a hundred years.
const FOR_GOOD: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

pub struct BullQueue {
    stores: Arc<[Arc<Store>]>,
    /// One slot at a time claims, on connections of its own; the others wait for the mutex.
    pollers: Mutex<Pollers>,
    readers: Mutex<Readers>,
    /// Counts the jobs that were added: the next one goes to the next shard.
    added: AtomicUsize,
    /// Whether Node workers may share the queue, who read of a job its payload only.
    has_node_workers: bool,
}

impl BullQueue {
    /// The queue in that Redis, on connections of its own. Nothing is connected yet: while Redis is down, the
    /// start-up's included, every call fails within about two seconds, and when it is back they work again:
    /// at the latest when a probe of `redis` has found it there.
    ///
    /// A user's list of jobs, and that a job was cancelled or is to be, are kept for `kept_for`; for good
    /// without it.
    pub fn new(redis: &Redis, kept_for: Option<Duration>) -> Self {
        Self::with_shards(redis, 1, kept_for)
    }

    /// A queue in so many shards, if `redis` is a cluster. One Redis has one.
    pub fn with_shards(redis: &Redis, shards: usize, kept_for: Option<Duration>) -> Self {
        Self::open(redis, shards, LEASE, kept_for.unwrap_or(FOR_GOOD))
    }

    /// Opens a queue with leases of another length, for tests that do not wait as long.
    pub fn open_with_lease(url: &str, lease: Duration) -> Result<Self, AddressError> {
        Self::open_shards_with_lease(url, 1, lease)
    }

    /// A queue with several shards, and leases of another length.
    pub fn open_shards_with_lease(url: &str, shards: usize, lease: Duration) -> Result<Self, AddressError> {
        Ok(Self::open(&Redis::open(url)?, shards, lease, FOR_GOOD))
    }

    fn open(redis: &Redis, shards: usize, lease: Duration, kept_for: Duration) -> Self {
        let count = if redis.is_cluster() { shards.max(1) } else { 1 };
        let store = |index| Arc::new(Store::new(redis, Shard { index, count }, lease, kept_for));
        // Processes that begin at one time do not all begin at one shard.
        let [.., any] = *Uuid::now_v7().as_bytes();
        Self {
            stores: (0..count).map(store).collect(),
            pollers: Mutex::new(Pollers::new(count)),
            readers: Mutex::new(Readers::new(count)),
            added: AtomicUsize::new(usize::from(any)),
            has_node_workers: true,
        }
    }

    /// Sets whether Node workers may share the queue; without a word they may.
    #[must_use]
    pub fn beside_node_workers(self, has_node_workers: bool) -> Self {
        Self { has_node_workers, ..self }
    }

    /// The shard in which a job lies, and the job's id there; none for an id that no job can have.
    fn locate<'a>(&self, job_id: &'a str) -> Option<(&Arc<Store>, &'a str)> {
        let (shard, local) = locate(job_id, self.stores.len())?;
        Some((self.stores.get(shard)?, local))
    }

    /// The shard of a claimed job.
    fn store_of(&self, claim: &Claim) -> &Arc<Store> {
        self.locate(&claim.job_id).map_or_else(|| self.first(), |(store, _)| store)
    }

    fn first(&self) -> &Arc<Store> {
        &self.stores[0]
    }

    /// The shard for a new job: where its id lies if it was chosen, else each in turn but for those that are
    /// known to be down.
    fn store_for(&self, job: &JobData) -> &Arc<Store> {
        if let Some((store, _)) = job.id.as_deref().and_then(|id| self.locate(id)) {
            return store;
        }
        let (next, count) = (self.added.fetch_add(1, Ordering::Relaxed), self.stores.len());
        let in_turn = |step| self.stores.get(next.wrapping_add(step) % count);
        let mut open = (0..count).filter_map(in_turn).filter(|store| store.redis.circuit_is_closed());
        open.next().or_else(|| in_turn(0)).unwrap_or_else(|| self.first())
    }
}

#[boxed_async]
impl JobQueue for BullQueue {
    async fn add(&self, job: &JobData) -> Result<String, QueueError> {
        let data = serde_json::to_string(job).map_err(broken)?;
        let store = self.store_for(job);
        let chosen = job.id.as_deref().map(|id| store.shard.local_id(id));
        let addition = Addition {
            job,
            id: chosen,
            data: &data,
            trace: trace_metadata::current(),
            call: &Uuid::now_v7().simple().to_string(),
        };
        let add = store.official.add(addition, now()).map_err(broken)?;
        let id: String = store.run(&add).await?;
        Ok(store.shard.public_id(&id))
    }

    fn takes_options(&self) -> bool {
        !self.has_node_workers
    }

    async fn read(&self, job_id: &str) -> Result<Option<Job>, QueueError> {
        let Some((store, local)) = self.locate(job_id) else { return Ok(None) };
        Ok(store.read_all(&[local]).await?.pop().flatten())
    }

    async fn list(&self, wanted: &JobQuery<'_>) -> Result<JobPage, QueueError> {
        listing::list(&self.stores, wanted).await
    }

    async fn cancel(&self, job_id: &str) -> Result<CancelOutcome, QueueError> {
        let Some((store, local)) = self.locate(job_id) else { return Ok(CancelOutcome::Unknown) };
        store.cancel(local).await
    }

    async fn list_parked(&self, limit: usize, cursor: Option<&str>) -> Result<JobPage, QueueError> {
        listing::parked(&self.stores, limit, cursor).await
    }

    async fn resume(&self, job_id: &str, within: Duration) -> Result<bool, QueueError> {
        let Some((store, local)) = self.locate(job_id) else { return Ok(false) };
        let resumed: i64 = store.run(&store.own.resume(local, within, now())).await?;
        Ok(resumed == 1)
    }

    async fn retry(&self, job_id: &str) -> Result<RetryOutcome, QueueError> {
        let Some((store, local)) = self.locate(job_id) else { return Ok(RetryOutcome::Unknown) };
        let call = Uuid::now_v7().simple().to_string();
        let answer: i64 = store.run(&store.official.reprocess(local, &call)).await?;
        Ok(match answer {
            1 => RetryOutcome::Done,
            -1 => RetryOutcome::Unknown,
            _ => RetryOutcome::NotFailed,
        })
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        let depths = try_join_all(self.stores.iter().map(|store| store.depth())).await?;
        Ok(depths.into_iter().reduce(together).unwrap_or_default())
    }

    async fn claim(&self, worker: &str, patience: Duration) -> ClaimedJob {
        claim::claim(&self.stores, &self.pollers, worker, patience).await
    }

    async fn incarnation(&self) -> Result<Option<String>, QueueError> {
        let ids = try_join_all(self.stores.iter().map(|store| store.server_id())).await;
        Ok(Some(ids.map_err(store_error)?.join(" ")))
    }

    /// Of several servers the time by the clock that is behind: by it every one of them is asked.
    async fn now(&self) -> Result<SystemTime, QueueError> {
        let clocks = try_join_all(self.stores.iter().map(|store| store.now())).await.map_err(store_error)?;
        Ok(clocks.into_iter().min().unwrap_or(UNIX_EPOCH))
    }

    async fn reclaim(&self, worker: &str, began: SystemTime) -> Result<u64, QueueError> {
        let stores = self.stores.iter();
        let reclaimed =
            try_join_all(stores.map(|store| store.reclaim_from_predecessors(worker, began))).await?;
        Ok(reclaimed.iter().sum())
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal, QueueError> {
        lease::renew(self.store_of(claim), claim).await
    }

    async fn settle(&self, claim: &Claim, end: &AttemptEnd) -> Result<(), QueueError> {
        self.store_of(claim).finish(claim, end).await
    }

    /// With several shards the next job is claimed by itself, from the shard whose turn it is.
    async fn settle_and_claim(&self, claim: &Claim, end: &AttemptEnd, worker: &str) -> ClaimedJob {
        let store = self.store_of(claim);
        if self.stores.len() > 1 {
            return store.finish(claim, end).await.map(|()| None);
        }
        store.finish_and_claim(claim, end, worker).await
    }

    async fn changes(&self, after: Option<&str>) -> Result<Option<JobChanges>, QueueError> {
        stream::changes(&self.stores, &self.readers, after).await.map(Some)
    }

    /// A job that was claimed for a caller who did not wait for it is released.
    async fn close(&self) {
        claim::release_pending(&self.stores, &self.pollers).await;
        for store in &*self.stores {
            store.redis.disconnect();
            store.waiting.disconnect();
            store.events.disconnect();
        }
    }
}

/// The depths of two shards as one.
fn together(one: Depth, other: Depth) -> Depth {
    let mut waits = one.waits;
    waits.iter_mut().zip(other.waits).for_each(|(one, other)| *one = one.and(other));
    Depth {
        waits,
        waiting: one.waiting + other.waiting,
        active: one.active + other.active,
        delayed: one.delayed + other.delayed,
        parked: one.parked + other.parked,
        oldest_parked: one.oldest_parked.max(other.oldest_parked),
        oldest_waiting: one.oldest_waiting.max(other.oldest_waiting),
    }
}

impl Store {
    async fn depth(&self) -> Result<Depth, QueueError> {
        let counts: (u64, u64, u64, u64, Vec<u64>) = self.run(&self.own.depth()).await?;
        let (waiting, active, delayed, since, parked) = counts;
        let age = |since: u64| SystemTime::now().duration_since(from_millis(since)).unwrap_or_default();
        let age = |since: u64| (since > 0).then(|| age(since));
        // BullMQ counts what is delayed, and has no word for what is parked.
        let mut depth = Depth { waiting, active, delayed, oldest_waiting: age(since), ..Depth::default() };
        for (of_kind, counted) in depth.waits.iter_mut().zip(parked.chunks_exact(2)) {
            if let [runs, since] = *counted {
                *of_kind = WaitDepth { runs, oldest: age(since) };
            }
        }
        Ok(depth)
    }
}
