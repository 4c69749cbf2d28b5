//! Write-behind: the journals and records of requests are written after their answers, from a bounded
//! backlog.

#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::ports::{Epoch, Journal, JournalError, JournalResult, Observer, RunStore};
use agent_core::words::{Event, RunRecord};
use boxed_async::boxed_async;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::size;
use crate::outage::Outage;

/// Runs that are written at once, so that a store which groups its commits has something to group.
const AT_ONCE: usize = 64;

/// How long runs of requests gather after some were taken, before the flusher takes more. A store commits
/// what it is given at once together: without this, requests that come one after the other pay for a commit
/// each, which costs more than the request (`cargo xtask bench lone`). The first run after a pause is taken
/// at once. No answer waits for these runs. Their events are read from here until they are written; their
/// records are found that much later.
const GATHER: Duration = Duration::from_millis(5);

/// How long a store may fail before a run is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// As long for the last events of a job's run: the queue has its result by then, and the backlog takes them
/// only while it has room.
const PATIENCE_WITH_JOBS: Duration = Duration::from_secs(15 * 60);

/// How long one call of the store may take.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// How long the flusher goes on after it was told to stop.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// How much may wait for the store.
#[derive(Debug, Clone, Copy)]
pub struct Backlog {
    /// Most runs that have ended.
    pub runs: usize,
    /// About how many bytes, those of runs under way included.
    pub bytes: usize,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { runs: 10_000, bytes: 64 << 20 }
    }
}

/// Takes the journals and records of runs, and writes them to the store later. Never waits and never fails:
/// what does not fit into the backlog is dropped and counted. Clones share the backlog.
///
/// A run's events are kept together until [`Self::end`], so that a journal in the store has no gaps: what
/// does not fit costs whole journals. A run whose journal was dropped keeps its record, which says what it
/// cost. Either way the run is counted as lost, and once.
#[derive(Clone)]
pub struct WriteBehind(Arc<Queue>);

/// Writes the backlog to the store. There is exactly one for each backlog.
pub struct Flusher(Arc<Queue>);

struct Queue {
    store: Arc<dyn RunStore>,
    bounds: Backlog,
    observer: Arc<dyn Observer>,
    /// While runs are lost.
    losing: Outage,
    /// While the store fails.
    outage: Outage,
    /// Held for a few instructions, never across an await.
    held: Mutex<PendingJournals>,
    arrived: Notify,
    /// Notified when a run was written or given up.
    done: Notify,
}

#[derive(Default)]
struct PendingJournals {
    open: HashMap<String, OpenRun>,
    ended: VecDeque<Arc<EndedRun>>,
    /// Runs that have ended and are not in the store yet, for their readers.
    unwritten: HashMap<String, Arc<EndedRun>>,
    /// Runs that the flusher has taken and not finished.
    writing: usize,
    bytes: usize,
    /// The flusher lets runs gather and need not hear of each.
    gathers: bool,
    /// How many wait until everything is written.
    awaited: usize,
}

impl PendingJournals {
    /// The events that wait of a run, behind the claim under which they are written and the number of the
    /// first.
    fn waiting(&self, run_id: &str) -> Option<(Epoch, u64, &[Event])> {
        let open = self.open.get(run_id).map(|run| (run.epoch, run.first, run.events.as_slice()));
        let ended = || self.unwritten.get(run_id).map(|run| (run.epoch, run.first, run.events.as_slice()));
        open.or_else(ended)
    }
}

/// A run under way.
#[derive(Default)]
struct OpenRun {
    /// The claim under which its events are written.
    epoch: Epoch,
    /// The number of the first of its events here; those before it are in the store.
    first: u64,
    events: Vec<Event>,
    bytes: usize,
    /// The run's events did not fit and are not kept.
    spilled: bool,
}

struct EndedRun {
    record: RunRecord,
    epoch: Epoch,
    first: u64,
    events: Vec<Event>,
    bytes: usize,
    /// The journal of this run was dropped, and the run is counted as lost already.
    spilled: bool,
}

impl EndedRun {
    /// Whether these are the last events of a job's run, which nobody else writes.
    fn was_taken(&self) -> bool {
        self.epoch != Epoch::UNCLAIMED && !self.events.is_empty()
    }
}

impl WriteBehind {
    /// An empty backlog before `store`, and the flusher, which has to run for anything to get there.
    pub fn new(store: Arc<dyn RunStore>, bounds: Backlog, observer: Arc<dyn Observer>) -> (Self, Flusher) {
        let queue = Arc::new(Queue {
            store,
            bounds,
            observer,
            losing: Outage::default(),
            outage: Outage::default(),
            held: Mutex::default(),
            arrived: Notify::new(),
            done: Notify::new(),
        });
        (Self(queue.clone()), Flusher(queue))
    }

    /// The run has ended: its record, and what is in its journal, may be written.
    pub fn end(&self, record: RunRecord) {
        let mut held = self.0.held.lock();
        let open = held.open.remove(&record.id).unwrap_or_default();
        let OpenRun { epoch, first, events, bytes, spilled } = open;
        let run = Arc::new(EndedRun { record, epoch, first, events, bytes, spilled });
        if held.ended.len() >= self.0.bounds.runs && !run.was_taken() {
            held.bytes -= bytes;
            drop(held);
            self.0.lose(&run);
            return;
        }
        // What a job's attempt ended with is not kept waiting.
        let is_urgent = run.record.job_id.is_some() || held.awaited > 0;
        held.unwritten.insert(run.record.id.clone(), run.clone());
        held.ended.push_back(run);
        if is_urgent || held.ended.len() >= AT_ONCE {
            held.gathers = false;
        }
        let wakes = !held.gathers;
        drop(held);
        if wakes {
            self.0.arrived.notify_one();
        }
    }

    /// Takes the last events of a job's run, whose others are in the store, to be written with its record.
    /// False when there is no room: then they have to be written at once.
    pub(super) fn take_last(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> bool {
        let bytes = events.iter().map(size::of).sum::<usize>();
        let mut held = self.0.held.lock();
        if held.bytes + bytes > self.0.bounds.bytes || held.ended.len() >= self.0.bounds.runs {
            return false;
        }
        held.bytes += bytes;
        let run = OpenRun { epoch, first, events: events.to_vec(), bytes, spilled: false };
        if let Some(replaced) = held.open.insert(run_id.to_owned(), run) {
            held.bytes -= replaced.bytes;
        }
        true
    }

    /// What waits here of a run: the number of the first event, and the events from there on.
    pub(super) fn waiting(&self, run_id: &str) -> Option<(u64, Vec<Event>)> {
        let held = self.0.held.lock();
        held.waiting(run_id).map(|(_, first, events)| (first, events.to_vec()))
    }

    /// Of what waits here of the run of a request, up to `most` events from number `from` on: all runs wait
    /// for the lock under which they are copied. Nothing of such a run is in the store, or all of it. The
    /// last events of a job's run are shown to nobody until they are stored: when their worker dies first,
    /// another one may end the run with other words.
    fn waiting_of_request(&self, run_id: &str, from: u64, most: u32) -> Option<Vec<Event>> {
        let held = self.0.held.lock();
        let is_of_request =
            |(epoch, _, events): &(Epoch, u64, &[Event])| *epoch == Epoch::UNCLAIMED && !events.is_empty();
        let (.., events) = held.waiting(run_id).filter(is_of_request)?;
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        Some(events.iter().skip(from).take(most as usize).cloned().collect())
    }

    /// Resolves when every run that has ended was written or given up: where the process is frozen behind an
    /// answer, the answer waits for it. Dropping it changes nothing.
    pub async fn written(&self) {
        let _awaited = Awaited::begin(&self.0);
        loop {
            let mut done = pin!(self.0.done.notified());
            // From here on nothing that is done is missed.
            done.as_mut().enable();
            if self.queued() == 0 {
                return;
            }
            done.await;
        }
    }

    /// How many runs have ended and are not written yet, for metrics.
    pub fn queued(&self) -> usize {
        let held = self.0.held.lock();
        held.ended.len() + held.writing
    }

    /// Nothing of the run is to be written.
    pub fn forget(&self, run_id: &str) {
        let mut held = self.0.held.lock();
        if let Some(run) = held.open.remove(run_id) {
            held.bytes -= run.bytes;
        }
    }
}

#[boxed_async]
impl Journal for WriteBehind {
    async fn append(&self, run_id: &str, _epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
        let bytes = events.iter().map(size::of).sum::<usize>();
        let mut guard = self.0.held.lock();
        let held = &mut *guard;
        if !held.open.contains_key(run_id) {
            held.open.insert(run_id.to_owned(), OpenRun::default());
        }
        let Some(run) = held.open.get_mut(run_id) else { return Ok(()) };
        if run.spilled {
            return Ok(());
        }
        if run.events.len() as u64 != first {
            return Err(JournalError::Conflict { run_id: run_id.to_owned(), sequence: first });
        }
        if held.bytes + bytes > self.0.bounds.bytes {
            held.bytes -= run.bytes;
            *run = OpenRun { spilled: true, ..OpenRun::default() };
            drop(guard);
            self.0.lose_one();
            return Ok(());
        }
        run.events.extend_from_slice(events);
        run.bytes += bytes;
        held.bytes += bytes;
        Ok(())
    }

    /// What waits here of the run of a request, or what the store has.
    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        match self.waiting_of_request(run_id, from, u32::MAX) {
            Some(events) => Ok(events),
            None => self.0.store.read(run_id, from).await,
        }
    }

    async fn read_page(&self, run_id: &str, from: u64, most: u32) -> JournalResult<Vec<Event>> {
        match self.waiting_of_request(run_id, from, most) {
            Some(events) => Ok(events),
            None => self.0.store.read_page(run_id, from, most).await,
        }
    }
}

impl Flusher {
    /// Writes what is queued until `stopping`, and then what is left for up to 5 s. It is to be stopped after
    /// everything that records runs.
    pub async fn run(&self, stopping: CancellationToken) {
        let flush_limit = async {
            stopping.cancelled().await;
            sleep(FLUSH_LIMIT).await;
            let held = self.0.held.lock();
            held.ended.len() + held.writing
        };
        tokio::select! {
            biased;
            () = self.write_all(&stopping) => {}
            unwritten = flush_limit => {
                // Runs that were being written were dropped with the other branch, which counts them.
                let lost = self.0.held.lock().ended.iter().filter(|run| !run.spilled).count();
                warn!(runs = unwritten, "runs were not recorded before the process ended");
                self.0.observer.records_lost(lost as u64);
            }
        }
    }

    async fn write_all(&self, stopping: &CancellationToken) {
        let mut writing = FuturesUnordered::new();
        let mut gathered = Instant::now();
        loop {
            let is_stopping = stopping.is_cancelled();
            if is_stopping || Instant::now() >= gathered || !self.0.held.lock().gathers {
                let taken = self.0.take(AT_ONCE - writing.len(), !is_stopping);
                if !taken.is_empty() {
                    gathered = Instant::now() + GATHER;
                }
                writing.extend(taken.into_iter().map(|taken| self.write(taken)));
            }
            if writing.is_empty() && is_stopping {
                return;
            }
            let gathers = self.0.held.lock().gathers;
            tokio::select! {
                biased;
                Some(()) = writing.next() => {}
                () = self.0.arrived.notified(), if writing.len() < AT_ONCE => {}
                () = sleep_until(gathered), if gathers => {}
                () = stopping.cancelled(), if writing.is_empty() => {}
            }
        }
    }

    async fn write(&self, mut taken: Taken<'_>) {
        if self.write_within(&taken.run).await.is_ok() {
            taken.is_written = true;
            self.0.keep_up();
        }
    }

    async fn write_within(&self, run: &EndedRun) -> JournalResult {
        let (store, record) = (&self.0.store, &run.record);
        // The record comes last, so that a run which has one has its whole journal, none of it when it
        // spilled, or all but its last events when those cannot be written. That of a failed attempt may
        // have waited here until a later one had ended well: then the store keeps the end.
        let write = || store.append_and_save(run.epoch, run.first, &run.events, record);
        let patience = if run.was_taken() { PATIENCE_WITH_JOBS } else { PATIENCE };
        match (self.persist(patience, write).await, run.epoch) {
            // Nobody else writes the run of a request: what is there already came from a call that seemed to
            // fail.
            (Err(JournalError::Conflict { .. }), Epoch::UNCLAIMED) => {
                self.persist(PATIENCE, || store.save(record)).await
            }
            // Nobody could read what is left out.
            (Err(error @ JournalError::Damaged { .. }), _) => {
                warn!(run_id = record.id, %error, "the last events of a run cannot be written");
                self.persist(PATIENCE, || store.save(record)).await
            }
            (outcome, Epoch::UNCLAIMED) => outcome,
            // Whoever has taken over the run of a job records it too. Where nothing stands in the way, the
            // store has lost events that it had acknowledged, and what is left of the run is its record.
            (Err(error @ JournalError::Conflict { .. }), _) => {
                if !store.read_page(&record.id, run.first, 1).await?.is_empty() {
                    return Ok(());
                }
                warn!(run_id = record.id, %error, "the last events of a run are lost: its store has lost those before them");
                self.persist(PATIENCE, || store.save(record)).await
            }
            (Err(JournalError::Fenced { .. }), _) => Ok(()),
            (outcome, _) => outcome,
        }
    }

    async fn persist<F>(&self, patience: Duration, write: impl Fn() -> F) -> JournalResult
    where
        F: Future<Output = Result<(), JournalError>>,
    {
        let until = Instant::now() + patience;
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        loop {
            let error = match timeout(CALL_LIMIT, write()).await {
                Ok(Err(error @ JournalError::Store { .. })) => error,
                Ok(answer) => {
                    if let Some(lasted) = self.0.outage.ends() {
                        info!(outage_ms = lasted.as_millis(), "runs are recorded again");
                    }
                    return answer;
                }
                Err(_elapsed) => JournalError::Store { detail: "no answer in time".into() },
            };
            if self.0.outage.begins() {
                warn!(%error, "runs wait to be recorded");
            }
            if Instant::now() >= until {
                return Err(error);
            }
            sleep(backoff.next()).await;
        }
    }
}

/// Somebody waits until everything is written: until this is dropped, nothing gathers.
struct Awaited<'a>(&'a Queue);

impl<'a> Awaited<'a> {
    fn begin(queue: &'a Queue) -> Self {
        let mut held = queue.held.lock();
        held.awaited += 1;
        held.gathers = false;
        drop(held);
        queue.arrived.notify_one();
        Self(queue)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.held.lock().awaited -= 1;
    }
}

/// A run that the flusher has taken. Dropped before it is written, as by a panic, it counts as lost and as no
/// more.
struct Taken<'a> {
    queue: &'a Queue,
    run: Arc<EndedRun>,
    is_written: bool,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut held = self.queue.held.lock();
        held.writing -= 1;
        // Another attempt at the run may have ended meanwhile.
        if held.unwritten.get(&self.run.record.id).is_some_and(|run| Arc::ptr_eq(run, &self.run)) {
            held.unwritten.remove(&self.run.record.id);
        }
        held.bytes -= self.run.bytes;
        drop(held);
        if !self.is_written {
            self.queue.lose(&self.run);
        }
        // Not before: whoever is woken looks at once, would still count this run, and is not woken again.
        self.queue.done.notify_waiters();
    }
}

impl Queue {
    /// Takes as many runs as that. Where they were all, later ones gather if they may.
    fn take(&self, most: usize, may_gather: bool) -> Vec<Taken<'_>> {
        let mut held = self.held.lock();
        let count = most.min(held.ended.len());
        let taken = held.ended.drain(..count).map(|run| Taken { queue: self, run, is_written: false });
        let taken: Vec<_> = taken.collect();
        held.writing += count;
        held.gathers = may_gather && count > 0 && held.ended.is_empty() && held.awaited == 0;
        taken
    }

    /// Counts a run whose record is given up, unless it was counted when its journal was.
    fn lose(&self, run: &EndedRun) {
        if !run.spilled {
            self.lose_one();
        }
    }

    fn lose_one(&self) {
        self.observer.records_lost(1);
        if self.losing.begins() {
            warn!("runs are not recorded: the store does not keep up");
        }
    }

    fn keep_up(&self) {
        if let Some(lasted) = self.losing.ends() {
            info!(lasted_ms = lasted.as_millis(), "the store of runs keeps up again");
        }
    }
}
