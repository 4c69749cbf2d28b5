//! How a batch of writes is committed: all in one transaction.

use std::sync::Arc;

use super::error::{describe, is_about_a_write};
use super::{SqlPool, answer};
use crate::Writer;
use crate::group_commit::{Batches, Bounds, ByteSize, Submitter, WriterEnded, channel};

const BOUNDS: Bounds = Bounds { waiting: 1024, writes: 512, bytes: 4 << 20 };

/// Something that is written together with others of its kind.
pub(super) trait Write: ByteSize + Send + Sync + Sized + 'static {
    /// What the caller is told about a write that was committed.
    type Answer: std::fmt::Debug + Send + 'static;

    /// Commits all of them or none, and says what came of each. It may be called again with what it had
    /// already committed, when that did not come out.
    fn commit(
        pool: &SqlPool,
        writes: &[Self],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, sqlx::Error>> + Send;
}

/// Why something was not written, or may not have been.
#[derive(Debug, Clone)]
pub(super) struct CommitError(pub(super) String);

/// Submits writes to the next commit.
#[derive(Debug)]
pub(super) struct Commits<W: Write>(Submitter<W, Outcome<W>>);

type Outcome<W> = Result<<W as Write>::Answer, CommitError>;

impl<W: Write> Commits<W> {
    /// Who submits writes, and the background task that commits them.
    pub(super) fn new(pool: SqlPool) -> (Self, Writer) {
        let (submitter, batches) = channel(BOUNDS);
        let batches = Arc::new(batches);
        (Self(submitter), Writer::new(move || commit_all(pool.clone(), batches.clone())))
    }

    /// Waits until it is committed. Once it has been handed in it will be, also if nobody waits any more.
    pub(super) async fn write(&self, write: W) -> Result<W::Answer, CommitError> {
        let outcome = self.0.write(write).await;
        outcome.unwrap_or_else(|WriterEnded| Err(CommitError("its writer broke off or has ended".into())))
    }
}

async fn commit_all<W: Write>(pool: SqlPool, batches: Arc<Batches<W, Outcome<W>>>) {
    let mut reader = batches.reader().await;
    while let Some(batch) = reader.next().await {
        let outcomes = commit_batch(&pool, &batch.writes).await;
        batch.answer(outcomes);
    }
}

/// Commits all, if need be in parts: a write that the database refuses must not fail the others, so a refused batch is
/// halved until the writes to blame stand alone. A database that is gone fails all that are left.
async fn commit_batch<W: Write>(pool: &SqlPool, writes: &[W]) -> Vec<Outcome<W>> {
    let mut outcomes = Vec::with_capacity(writes.len());
    // The parts that are left, the next one last.
    let mut parts = vec![writes];
    while let Some(part) = parts.pop() {
        match answer(W::commit(pool, part)).await {
            Ok(answers) => outcomes.extend(answers.into_iter().map(Ok)),
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
    use test_servers::Task;

    use super::*;

    /// A write whose commit panics when it says so.
    #[derive(Debug)]
    struct PanickingWrite(&'static str);

    impl ByteSize for PanickingWrite {
        fn bytes(&self) -> usize {
            self.0.len()
        }
    }

    impl Write for PanickingWrite {
        type Answer = usize;

        async fn commit(_pool: &SqlPool, writes: &[Self]) -> Result<Vec<usize>, sqlx::Error> {
            tokio::task::yield_now().await;
            assert!(writes.iter().all(|write| write.0 != "panic"), "a bug in a commit");
            Ok(writes.iter().map(|write| write.0.len()).collect())
        }
    }

    #[tokio::test]
    async fn a_writer_that_panicked_is_run_again_and_nobody_hangs() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("some.db").display());
        let (commits, writer) = Commits::<PanickingWrite>::new(SqlPool::sqlite(&url).unwrap());
        let mut broken = tokio::task::JoinSet::new();
        broken.spawn(writer.run());
        let error = commits.write(PanickingWrite("panic")).await.unwrap_err();
        assert!(error.0.contains("broke off"), "{error:?}");
        assert!(broken.join_next().await.unwrap().unwrap_err().is_panic());
        let _writing = Task::begin(writer.run());
        assert_eq!(commits.write(PanickingWrite("again")).await.unwrap(), 5);
    }
}
