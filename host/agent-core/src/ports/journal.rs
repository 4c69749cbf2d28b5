//! The journal of runs: a versioned, fenced, append-only log of events per run.
//!
//! Versioned: events are stored as [`crate::journal_format::encode`] writes them, and one that this process
//! is too old to understand is [`JournalError::Newer`]. Fenced: whoever writes says its [`Epoch`], and a
//! writer that somebody else has replaced is refused, however late its append arrives.

use boxed_async::boxed_async;

use crate::words::Event;

/// The fencing token of a run's writer: the number of the claim under which it writes. Given by the queue, it
/// grows with every claim of a job for as long as the job exists, whatever becomes of the queue's counters of
/// attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of a request's run: nobody ever claims it, so it has one writer.
    pub const UNCLAIMED: Self = Self(0);

    /// The epoch of whoever ends a run that nobody can claim any more: later than every claim. The largest
    /// number that all stores keep.
    pub const FINAL: Self = Self(i64::MAX as u64);
}

/// Where events are that were appended as a run's last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    Stored,
    /// On their way to the store.
    Behind,
}

/// Stores the events of runs. A run is whatever its events say when they are folded.
#[boxed_async]
pub trait Journal: Send + Sync {
    /// Appends `events` with the numbers `first`, `first + 1` and so on, counted from 0 within the run: all
    /// of them or none. When this returns, they are as safe as the store makes them. MongoDB, which has no
    /// such write without a transaction, may keep the first ones alone when its primary dies meanwhile.
    ///
    /// Refused with [`JournalError::Fenced`] when the run has events of a higher epoch, and with
    /// [`JournalError::Conflict`] when one of the numbers is taken or there is no event before the first one:
    /// a failover may have lost it after it was acknowledged, and behind such a hole nobody could go on with
    /// the run. An event that is there already under the same number, written in the same epoch and with the
    /// same content, is the caller's own: an append whose answer was lost may be repeated.
    ///
    /// Not cancellation-safe: dropped, it may have been carried out or not.
    async fn append(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult;

    /// Appends the events with which a run ends, as [`Self::append`] does. A journal may write them behind
    /// its answer, when whoever carries the run writes its end to another store with a promise of its own.
    /// Until one of the two is stored, a worker that dies takes them along, and whoever takes the run up
    /// makes its last step again.
    ///
    /// This implementation stores them.
    async fn append_last(
        &self,
        run_id: &str,
        epoch: Epoch,
        first: u64,
        events: &[Event],
    ) -> JournalResult<Appended> {
        self.append(run_id, epoch, first, events).await.map(|()| Appended::Stored)
    }

    /// The events of a run from number `from` on, in order; empty when there are none (yet).
    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>>;

    /// The events of a run from number `from` on, in order, at most `most`.
    ///
    /// This implementation reads all of them; a store whose reading can have a bound does better.
    async fn read_page(&self, run_id: &str, from: u64, most: u32) -> JournalResult<Vec<Event>> {
        let mut events = self.read(run_id, from).await?;
        events.truncate(most as usize);
        Ok(events)
    }
}

/// The result of an operation on a journal or a store of runs.
pub type JournalResult<T = ()> = Result<T, JournalError>;

/// Why a journal could not be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The store failed.
    #[error("the run journal failed: {detail}")]
    Store {
        /// What the store says.
        detail: String,
    },
    /// An event cannot be read, or could not be if it were written. Trying again does not help.
    #[error("the run journal is damaged: {detail}")]
    Damaged {
        /// Which event it is, and where; nothing of what was said in the run.
        detail: String,
    },
    /// The event with that number is already there, because two workers drive one run; or the one before it
    /// is missing, because the store has lost it. Either way the run goes on behind what its journal has.
    #[error("event {sequence} of run {run_id} does not follow what its journal has")]
    Conflict {
        run_id: String,
        /// The number that was wanted.
        sequence: u64,
    },
    /// Somebody has claimed the run since: the writer was replaced.
    #[error("run {run_id} was taken over by a later claim")]
    Fenced { run_id: String },
    /// An event was written by a newer version of this program.
    #[error(
        "event {sequence} of run {run_id} has version {version}, and this program reads up to version {known}: \
         a newer agent-host must go on with the run"
    )]
    Newer {
        run_id: String,
        /// The event's number.
        sequence: u64,
        /// The event's version.
        version: u32,
        /// The highest version that this program reads.
        known: u32,
    },
}
