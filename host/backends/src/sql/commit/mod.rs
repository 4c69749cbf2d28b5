//! The commit lane of a database: what the queue and the store of runs write at the same time is committed in
//! one transaction.
//!
//! There is one lane for each `SqlPool`; its clones have it in common. A write that the database refuses
//! fails alone. What is not written here goes its own way to the database: what is rare, and what reads
//! before it writes.
//!
//! `write.rs` says what can be written, `database.rs` how: in one exchange with SQLite's thread
//! (`in_sqlite.rs`), or in one statement of PostgreSQL's (`in_postgres.rs`).

mod batch;
mod claims;
mod database;
mod in_postgres;
mod in_sqlite;
mod jobs;
mod runs;
mod values;
mod write;

use std::sync::Arc;

pub(super) use claims::{ClaimRow, NextClaim, number_of_claim};
pub(super) use jobs::{AttemptRow, NewJob, Renewal, new_run_id};
pub(super) use runs::{AppendRow, Entry, RecordRow, StoredUnderKey};
pub(super) use write::{CommitError, Lane};

use self::write::{Member, Write};
use super::error::{describe, is_about_a_write};
use super::opened_file::REPLACED;
use super::{SqlPool, answer};
use crate::Writer;
use crate::group_commit::{Batches, Bounds, ByteSize, SharedChannel, Submitter, WriterEnded};

const BOUNDS: Bounds = Bounds { waiting: 1024, writes: 512, bytes: 4 << 20 };

/// Something that is written together with others of its kind.
trait Commit: ByteSize + Send + Sync + Sized + 'static {
    /// What the caller is told about a write that was committed.
    type Answer: std::fmt::Debug + Send + 'static;

    /// The writes, in parts each of which can be committed together.
    fn parts(writes: &[Self]) -> Vec<&[Self]> {
        vec![writes]
    }

    /// Commits all of them or none, and says what came of each. It may be called again with what it had
    /// already committed, when that did not come out.
    fn commit(
        pool: &SqlPool,
        writes: &[Self],
    ) -> impl Future<Output = sqlx::Result<Vec<Outcome<Self>>>> + Send;
}

/// Submits writes to the next commit.
#[derive(Debug)]
pub(super) struct Commits(Submitter<Write, Outcome<Write>>);

type Outcome<W> = Result<<W as Commit>::Answer, CommitError>;

impl Commits {
    /// Who submits writes to the lane of that database, and the background task that commits them. It need
    /// not run more than once for a database; more of them take over when the first one breaks off.
    pub(super) fn new(pool: &SqlPool) -> (Self, Writer) {
        let (submitter, writer) = open(pool.clone(), pool.lane());
        (Self(submitter), writer)
    }

    /// Waits until it is committed. Once it has been handed in it will be, also if nobody waits any more.
    pub(super) async fn write<M: Member>(&self, write: M) -> Result<M::Answer, CommitError> {
        let written = submit(&self.0, write.into()).await?;
        M::answer(written).ok_or_else(|| CommitError("it was taken for another write".into()))
    }
}

fn open<W: Commit>(pool: SqlPool, lane: &SharedChannel<W, Outcome<W>>) -> (Submitter<W, Outcome<W>>, Writer) {
    let (submitter, batches) = lane.open(BOUNDS);
    (submitter, Writer::new(move || commit_all(pool.clone(), batches.clone())))
}

async fn submit<W: Commit>(submitter: &Submitter<W, Outcome<W>>, write: W) -> Outcome<W> {
    let outcome = submitter.write(write).await;
    outcome.unwrap_or_else(|WriterEnded| Err(CommitError("its writer broke off or has ended".into())))
}

async fn commit_all<W: Commit>(pool: SqlPool, batches: Arc<Batches<W, Outcome<W>>>) {
    let mut reader = batches.reader().await;
    while let Some(batch) = reader.next().await {
        let mut outcomes = commit_batch(&pool, &batch.writes).await;
        if let Some(lost) = why_lost(&pool).await {
            outcomes.iter_mut().for_each(|outcome| *outcome = Err(lost.clone()));
        }
        batch.answer(outcomes);
    }
}

/// Why nothing of a commit is kept, if that is so: a SQLite file that was removed is written to all the same.
async fn why_lost(pool: &SqlPool) -> Option<CommitError> {
    let SqlPool::Sqlite(pools) = pool else { return None };
    match answer(async { Ok(pools.file().is_replaced().await) }).await {
        Ok(is_replaced) => is_replaced.then(|| CommitError(REPLACED.into())),
        Err(error) => Some(CommitError(describe(&error))),
    }
}

/// Commits all, if need be in parts: a write that the database refuses must not fail the others, so a refused
/// batch is halved until the writes to blame stand alone. A database that is gone fails all that are left.
async fn commit_batch<W: Commit>(pool: &SqlPool, writes: &[W]) -> Vec<Outcome<W>> {
    let mut outcomes = Vec::with_capacity(writes.len());
    // The parts that are left, the next one last.
    let mut parts = W::parts(writes);
    parts.reverse();
    while let Some(part) = parts.pop() {
        match answer(W::commit(pool, part)).await {
            Ok(answers) => outcomes.extend(answers),
            Err(error) if is_about_a_write(&error) => {
                if part.len() > 1 {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                } else {
                    outcomes.push(Err(CommitError(describe(&error))));
                }
            }
            Err(error) => {
                let gone = CommitError(describe(&error));
                outcomes.resize_with(writes.len(), || Err(gone.clone()));
                return outcomes;
            }
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use agent_core::ports::JobQueue as _;
    use agent_core::words::JobData;
    use test_servers::Task;

    use super::*;
    use crate::sql::SqlQueue;

    /// A write whose commit panics when it says so.
    #[derive(Debug)]
    struct PanickingWrite(&'static str);

    impl ByteSize for PanickingWrite {
        fn bytes(&self) -> usize {
            self.0.len()
        }
    }

    impl Commit for PanickingWrite {
        type Answer = usize;

        async fn commit(_pool: &SqlPool, writes: &[Self]) -> sqlx::Result<Vec<Outcome<Self>>> {
            tokio::task::yield_now().await;
            assert!(writes.iter().all(|write| write.0 != "panic"), "a bug in a commit");
            Ok(writes.iter().map(|write| Ok(write.0.len())).collect())
        }
    }

    #[tokio::test]
    async fn a_writer_that_panicked_is_run_again_and_nobody_hangs() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("some.db").display());
        let lane = SharedChannel::default();
        let (commits, writer) = open(SqlPool::sqlite(&url).unwrap(), &lane);
        let mut broken = tokio::task::JoinSet::new();
        broken.spawn(writer.run());
        let error = submit(&commits, PanickingWrite("panic")).await.unwrap_err();
        assert!(error.0.contains("broke off"), "{error:?}");
        assert!(broken.join_next().await.unwrap().unwrap_err().is_panic());
        let _writing = Task::begin(writer.run());
        assert_eq!(submit(&commits, PanickingWrite("again")).await.unwrap(), 5);
    }

    #[tokio::test]
    async fn no_job_is_taken_into_a_sqlite_file_that_was_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.db");
        let pool = SqlPool::sqlite(&format!("sqlite://{}", path.display())).unwrap();
        pool.migrate().await.unwrap();
        let (queue, adding) = SqlQueue::new(pool);
        let _adding = Task::begin(adding.run());
        queue.add(&JobData::new("before", "u1")).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let error = queue.add(&JobData::new("behind", "u1")).await.unwrap_err();
        assert!(error.to_string().contains("removed or replaced"), "{error}");
    }
}
