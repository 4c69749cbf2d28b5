//! How a batch of writes is committed: all in one transaction.

use super::failure::describe;
use super::{SqlPool, answer};
use crate::batch::{Batches, Bounds, Ended, Waiters, Weigh, gather};

const BOUNDS: Bounds = Bounds { waiting: 1024, writes: 512, bytes: 4 << 20 };

/// Something that is written together with others of its kind.
pub(super) trait Write: Weigh + Send + Sync + Sized + 'static {
    /// What whoever waits is told about a write that was committed.
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

/// Where writes wait for the next commit.
#[derive(Debug)]
pub(super) struct Commits<W: Write>(Waiters<W, Outcome<W>>);

type Outcome<W> = Result<<W as Write>::Answer, CommitError>;

impl<W: Write> Commits<W> {
    /// The place to wait, and the future that commits. It ends when the place is gone and everything that
    /// waited is written.
    pub(super) fn new(pool: SqlPool) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (waiters, batches) = gather(BOUNDS);
        (Self(waiters), commit_all(pool, batches))
    }

    /// Waits until it is committed. Once it has been handed in it will be, also if nobody waits any more.
    pub(super) async fn write(&self, write: W) -> Result<W::Answer, CommitError> {
        let outcome = self.0.write(write).await;
        outcome.unwrap_or_else(|Ended| Err(CommitError("the service is shutting down".into())))
    }
}

async fn commit_all<W: Write>(pool: SqlPool, mut batches: Batches<W, Outcome<W>>) {
    while let Some(batch) = batches.next().await {
        let outcomes = commit_batch(&pool, &batch.writes).await;
        batch.answer(outcomes);
    }
}

async fn commit_batch<W: Write>(pool: &SqlPool, writes: &[W]) -> Vec<Outcome<W>> {
    let mut error = match answer(W::commit(pool, writes)).await {
        Ok(answers) => return answers.into_iter().map(Ok).collect(),
        Err(error) => error,
    };
    let mut outcomes = Vec::with_capacity(writes.len());
    // A write that the database refuses must not fail the others.
    while is_refusal(&error) && writes.len() > 1 && outcomes.len() < writes.len() {
        match answer(W::commit(pool, &writes[outcomes.len()..=outcomes.len()])).await {
            Ok(answers) => outcomes.extend(answers.into_iter().map(Ok)),
            Err(refusal) => {
                outcomes.push(Err(CommitError(describe(&refusal))));
                error = refusal;
            }
        }
    }
    // A database that is gone fails all that are left.
    let gone = CommitError(describe(&error));
    outcomes.resize_with(writes.len(), || Err(gone.clone()));
    outcomes
}

fn is_refusal(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(_) | sqlx::Error::Encode(_))
}
