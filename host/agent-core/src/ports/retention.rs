//! Retention: finding and removing what has ended and is older than it is to be kept.
//!
//! A store keeps things of one [`RetainedKind`] behind this port. What is removed, when and how much at once
//! is decided in `run-service`; the store knows what has ended. Nothing that has not ended is ever answered
//! or removed here.
//!
//! Of a run that has not ended there may be a record ([`RunOutcome::Running`](crate::words::RunOutcome)),
//! with a time where others have their end. With a job it is that of a run which waits for somebody: the time
//! is when that wait expires, which may lie ahead, and the run may wait longer than its record says. Without
//! one the time is the last heartbeat of a run that is streamed, which has ended when no other one has come
//! for [`UNDER_WAY_FOR`]: then its owner is dead.

use std::fmt;
use std::time::{Duration, SystemTime};

use boxed_async::boxed_async;

/// For how long after the last heartbeat in its record the run of a request is under way. Its owner writes
/// one every two seconds.
pub const UNDER_WAY_FOR: Duration = Duration::from_secs(60);

/// What a store keeps for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetainedKind {
    /// Jobs, with their results.
    Jobs,
    /// Records of runs, with their journals and what their tools were answered over HTTP.
    Runs,
    /// Kept conversations, and responses to clients of OpenAI.
    Conversations,
    /// The audit trail of tool versions.
    ToolAudit,
}

impl RetainedKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Jobs, Self::Runs, Self::Conversations, Self::ToolAudit];

    /// As it stands in metric labels and in stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Runs => "runs",
            Self::Conversations => "conversations",
            Self::ToolAudit => "tool_audit",
        }
    }
}

impl fmt::Display for RetainedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Jobs => "jobs",
            Self::Runs => "runs",
            Self::Conversations => "conversations",
            Self::ToolAudit => "lines of the audit trail of tools",
        })
    }
}

/// How long things of a kind are kept once they have ended. Without bounds they stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionBounds {
    /// For how long.
    pub age: Option<Duration>,
    /// How many at least of those that ended last, however old: those beyond go although they are younger
    /// than `age`.
    pub count: Option<u64>,
}

impl RetentionBounds {
    /// Whether anything is ever removed.
    pub fn are_set(self) -> bool {
        self.age.is_some() || self.count.is_some()
    }
}

/// Something that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedItem {
    /// Id of the item within its kind.
    pub id: String,
    /// Of a run: the job it belongs to, which may not have ended although the run's last attempt did.
    pub job_id: Option<String>,
}

/// Some of what has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndedPage {
    /// The items; there may be none although there are more pages.
    pub items: Vec<EndedItem>,
    /// Where the next page begins; absent when this is the last one. It stays valid when items are removed.
    pub next: Option<String>,
}

/// What became of a step of [`Retention::drop_partitions`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DropStep {
    /// How many things went.
    pub removed: u64,
    /// Where the next step goes on; absent when this was the last one.
    pub next: Option<String>,
}

/// Keeps things of one kind.
///
/// Every operation fails within a time limit of the store when that does not answer. None is
/// cancellation-safe: dropped, it may have been carried out or not. Removing again what was removed is no
/// error.
#[boxed_async]
pub trait Retention: Send + Sync {
    /// What it keeps.
    fn kind(&self) -> RetainedKind;

    /// The time by the store's clock, so that a process whose own clock is wrong removes nothing too early.
    async fn now(&self) -> RetentionResult<SystemTime>;

    /// From when on at least `count` things ended, those that end last first; absent when there are fewer.
    /// Things that have not ended do not count. `count` is at least 1.
    async fn end_of_newest(&self, count: u64) -> RetentionResult<Option<SystemTime>>;

    /// Makes the partitions that will be needed, and drops those in which all ended before `before` and which
    /// nothing is added to any more by the store's clock: one step, from [`DropStep::next`] of the step
    /// before on. What stays then is found by [`Self::ended_before`]. Only where the store has partitions,
    /// and only under the [lease](super::Leases) of its sweeps. The first step may take minutes, when
    /// partitions are made of a large store. On Redis, BullMQ's events of that time are dropped, which hold
    /// results too.
    async fn drop_partitions(&self, _before: SystemTime, _from: Option<&str>) -> RetentionResult<DropStep> {
        Ok(DropStep::default())
    }

    /// What ended before `before`, about oldest first: up to `most`, from [`EndedPage::next`] of the page
    /// before on.
    async fn ended_before(&self, before: SystemTime, from: Option<&str>, most: u32) -> PageResult;

    /// What has ended and belongs to that user, in any order: up to about `most`. A page may take long to
    /// find, so what is looked through for one is bounded, and it may be empty.
    async fn ended_of(&self, user_id: &str, from: Option<&str>, most: u32) -> PageResult;

    /// Erases what a place beside the things holds of these as well, where only an age removes it: they are
    /// about to be removed for good. On Redis these are BullMQ's events, which have results.
    async fn erase_traces(&self, _ids: &[String]) -> RetentionResult {
        Ok(())
    }

    /// Removes those of these that have ended, with all that belongs to them, and says how many there were.
    async fn remove(&self, ids: &[String]) -> RetentionResult<u64>;

    /// When the one ended that is kept for longest; absent when nothing is kept that has ended.
    async fn oldest(&self) -> RetentionResult<Option<SystemTime>>;

    /// Removes some of what lies beside these things and goes by an age of its own, which no bound changes.
    /// True when there may be more.
    async fn remove_expired(&self) -> RetentionResult<bool> {
        Ok(false)
    }

    /// Gives some of the room that was freed back to the disk. True when there is more to give back.
    async fn give_back_room(&self) -> RetentionResult<bool> {
        Ok(false)
    }
}

/// What looking for a page results in.
pub type PageResult = RetentionResult<EndedPage>;

/// The result of an operation on a store that is swept.
pub type RetentionResult<T = ()> = Result<T, RetentionError>;

/// The store failed. It holds no address and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RetentionError(pub String);
