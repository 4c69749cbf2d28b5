//! Stores that keep everything in memory, and fail on demand.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ports::{
    CacheError, Epoch, Hits, Journal, JournalError, JournalResult, RateError, RateWindows, ResultCache,
    RunStore, Window,
};
use crate::words::{Event, RunQuery, RunRecord};
use boxed_async::boxed_async;
use bytes::Bytes;

/// Whether a store works, fails or does not answer. Clones are the same switch.
#[derive(Debug, Clone, Default)]
pub struct Switch(Arc<Switches>);

#[derive(Debug, Default)]
struct Switches {
    fails: AtomicBool,
    hangs: AtomicBool,
    /// Decides how many milliseconds each operation takes, out of these.
    pauses: Mutex<Option<(fastrand::Rng, RangeInclusive<u64>)>>,
}

impl Switch {
    /// From now on the store fails, or works again.
    pub fn fail(&self, fails: bool) {
        self.0.fails.store(fails, Ordering::SeqCst);
    }

    /// From now on the store does not answer, or does again.
    pub fn hang(&self, hangs: bool) {
        self.0.hangs.store(hangs, Ordering::SeqCst);
    }

    /// From now on every operation takes up to 3 ms, as this seed has it. While time is paused, which of
    /// several comes first is decided by the seed alone.
    pub fn pause_by(&self, seed: u64) {
        *self.0.pauses.lock() = Some((fastrand::Rng::with_seed(seed), 0..=3));
    }

    /// From now on every operation takes that many milliseconds.
    pub fn pause_for(&self, milliseconds: u64) {
        *self.0.pauses.lock() = Some((fastrand::Rng::with_seed(0), milliseconds..=milliseconds));
    }

    /// Waits or fails, as the switch says.
    pub async fn check(&self) -> Result<(), String> {
        if self.0.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        // A failure comes without a pause, as that of a store which is known to be down does.
        if self.0.fails.load(Ordering::SeqCst) {
            return Err("the disk is full".into());
        }
        let pause = self.0.pauses.lock().as_mut().map(|(random, these)| random.u64(these.clone()));
        match pause {
            Some(pause) => tokio::time::sleep(Duration::from_millis(pause)).await,
            None => tokio::task::yield_now().await,
        }
        Ok(())
    }
}

/// A store of runs.
#[derive(Debug, Default)]
pub struct TestRuns {
    /// Breaks it.
    pub switch: Switch,
    journals: Mutex<HashMap<String, Vec<(Epoch, Event)>>>,
    damaged: Mutex<HashSet<String>>,
    records: Mutex<HashMap<String, RunRecord>>,
}

impl TestRuns {
    /// What was appended to a run.
    pub fn events(&self, run_id: &str) -> Vec<Event> {
        let journals = self.journals.lock();
        journals.get(run_id).into_iter().flatten().map(|(_, event)| event.clone()).collect()
    }

    /// Looks at a run's journal: each event with the epoch under which it was written.
    pub fn look<T>(&self, run_id: &str, look: impl FnOnce(&[(Epoch, Event)]) -> T) -> T {
        look(self.journals.lock().get(run_id).map_or(&[], Vec::as_slice))
    }

    pub fn records(&self) -> Vec<RunRecord> {
        self.records.lock().values().cloned().collect()
    }

    /// The run of that request, which no other one has.
    pub fn run_of(&self, request_id: &str) -> Option<String> {
        let records = self.records.lock();
        records.values().find(|record| record.request_id == request_id).map(|record| record.id.clone())
    }

    /// How many runs have a journal.
    pub fn journals(&self) -> usize {
        self.journals.lock().len()
    }

    /// From now on the journal of a run can neither be read nor go on.
    pub fn damage(&self, run_id: &str) {
        self.damaged.lock().insert(run_id.to_owned());
    }

    async fn check(&self) -> JournalResult {
        self.switch.check().await.map_err(|detail| JournalError::Store { detail })
    }

    async fn check_journal(&self, run_id: &str) -> JournalResult {
        self.check().await?;
        let is_damaged = self.damaged.lock().contains(run_id);
        if is_damaged { Err(JournalError::Damaged { detail: format!("of {run_id}") }) } else { Ok(()) }
    }
}

#[boxed_async]
impl Journal for TestRuns {
    async fn append(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
        self.check_journal(run_id).await?;
        let mut journals = self.journals.lock();
        let journal = journals.entry(run_id.to_owned()).or_default();
        let is_fenced = journal.last().is_some_and(|(highest, _)| *highest > epoch);
        for (sequence, event) in (first..).zip(events) {
            match journal.get(index(sequence)) {
                Some(kept) if *kept == (epoch, event.clone()) => {}
                _ if is_fenced => return Err(JournalError::Fenced { run_id: run_id.into() }),
                None if journal.len() as u64 == sequence => journal.push((epoch, event.clone())),
                None | Some(_) => return Err(JournalError::Conflict { run_id: run_id.into(), sequence }),
            }
        }
        Ok(())
    }

    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        self.check_journal(run_id).await?;
        let kept = |(_, event): &(Epoch, Event)| event.clone();
        Ok(self.look(run_id, |events| events.iter().skip(index(from)).map(kept).collect()))
    }
}

fn index(sequence: u64) -> usize {
    usize::try_from(sequence).unwrap_or(usize::MAX)
}

#[boxed_async]
impl RunStore for TestRuns {
    async fn save(&self, record: &RunRecord) -> JournalResult {
        self.check().await?;
        let mut records = self.records.lock();
        if !records.get(&record.id).is_some_and(|kept| record.is_behind(kept)) {
            records.insert(record.id.clone(), record.clone());
        }
        Ok(())
    }

    async fn find(&self, run_id: &str) -> JournalResult<Option<RunRecord>> {
        self.check().await?;
        Ok(self.records.lock().get(run_id).cloned())
    }

    async fn list(&self, wanted: &RunQuery<'_>) -> JournalResult<Vec<RunRecord>> {
        self.check().await?;
        let mut records: Vec<RunRecord> = self.records.lock().values().cloned().collect();
        records.retain(|record| {
            let place = (record.finished_at, &*record.id);
            wanted.user_id.is_none_or(|user| record.user_id.as_deref() == Some(user))
                && wanted.after.is_none_or(|after| place < after)
        });
        records.sort_by(|a, b| (b.finished_at, &b.id).cmp(&(a.finished_at, &a.id)));
        records.truncate(wanted.limit as usize);
        Ok(records)
    }

    async fn find_by_job(&self, job_id: &str, user_id: &str) -> JournalResult<Option<RunRecord>> {
        self.check().await?;
        let is_wanted = |record: &&RunRecord| {
            record.job_id.as_deref() == Some(job_id) && record.user_id.as_deref() == Some(user_id)
        };
        let records = self.records.lock();
        Ok(records.values().filter(is_wanted).max_by_key(|record| record.finished_at).cloned())
    }
}

/// A cache that forgets nothing.
#[derive(Debug, Default)]
pub struct TestCache {
    /// Breaks it.
    pub switch: Switch,
    kept: Mutex<HashMap<String, (Bytes, Duration)>>,
    deleted: Mutex<Vec<String>>,
}

impl TestCache {
    /// The keys and for how long each is to be kept.
    pub fn kept(&self) -> Vec<(String, Duration)> {
        self.kept.lock().iter().map(|(key, (_, time))| (key.clone(), *time)).collect()
    }

    /// The patterns that were deleted.
    pub fn deleted(&self) -> Vec<String> {
        self.deleted.lock().clone()
    }
}

#[boxed_async]
impl ResultCache for TestCache {
    async fn get(&self, key: &str) -> Result<Option<Bytes>, CacheError> {
        self.switch.check().await.map_err(CacheError)?;
        Ok(self.kept.lock().get(key).map(|(json, _)| json.clone()))
    }

    async fn put(&self, key: &str, json: Bytes, time_to_live: Duration) -> Result<(), CacheError> {
        self.switch.check().await.map_err(CacheError)?;
        self.kept.lock().insert(key.to_owned(), (json, time_to_live));
        Ok(())
    }

    async fn delete_matching(&self, pattern: &str) -> Result<u64, CacheError> {
        self.switch.check().await.map_err(CacheError)?;
        self.deleted.lock().push(pattern.to_owned());
        let mut kept = self.kept.lock();
        let before = kept.len();
        let prefix = pattern.trim_end_matches('*');
        kept.retain(|key, _| !key.starts_with(prefix));
        Ok((before - kept.len()) as u64)
    }
}

/// Windows that never end.
#[derive(Debug, Default)]
pub struct TestRates {
    /// Breaks them.
    pub switch: Switch,
    counts: Mutex<HashMap<String, u64>>,
    trips: Mutex<Vec<Vec<String>>>,
}

impl TestRates {
    /// Makes it as if that many requests had come before.
    pub fn fill(&self, key: &str, count: u64) {
        self.counts.lock().insert(key.to_owned(), count);
    }

    /// How many requests were counted under a key.
    pub fn count(&self, key: &str) -> u64 {
        self.counts.lock().get(key).copied().unwrap_or_default()
    }

    /// The keys of every round trip since the last time.
    pub fn take_trips(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.trips.lock())
    }
}

#[boxed_async]
impl RateWindows for TestRates {
    async fn hit(&self, windows: &[Window<'_>]) -> Result<Vec<Hits>, RateError> {
        self.trips.lock().push(windows.iter().map(|window| window.key.to_owned()).collect());
        self.switch.check().await.map_err(RateError)?;
        let mut counts = self.counts.lock();
        let mut hits = Vec::new();
        for window in windows {
            let count = counts.entry(window.key.to_owned()).or_default();
            *count += window.cost;
            let hit = Hits { count: *count, resets_in: window.period };
            hits.push(hit);
            if hit.exceed(window.limit) {
                break;
            }
        }
        Ok(hits)
    }
}
