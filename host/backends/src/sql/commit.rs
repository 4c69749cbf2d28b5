//! Group commit: writes that wait at the same time are flushed to the disk together. One future commits for
//! everybody; while it does, the next batch gathers.

use std::mem::take;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::SqlPool;
use super::failure::describe;

/// How many writes may wait for the next batch; more wait until there is room.
const MOST_WAITING: usize = 1024;

/// Most writes of one commit.
const MOST_WRITES: usize = 512;

/// The size at which a batch is closed, in bytes: that long texts do not make one statement of gigabytes.
const ENOUGH_BYTES: usize = 4 << 20;

/// How long a commit may take until it counts as failed: one connection that hangs must not hold up everybody.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Something that is written together with others of its kind.
pub(super) trait Write: Send + Sync + Sized + 'static {
    /// What whoever waits is told about a write that was committed.
    type Answer: Send + 'static;

    /// What it takes, roughly.
    fn bytes(&self) -> usize;

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
pub(super) struct Commits<W: Write>(mpsc::Sender<Waiting<W>>);

#[derive(Debug)]
struct Waiting<W: Write> {
    write: W,
    answer: oneshot::Sender<Result<W::Answer, CommitError>>,
}

impl<W: Write> Commits<W> {
    /// The place to wait, and the future that commits. It ends when the place is gone and everything that
    /// waited is written.
    pub(super) fn new(pool: SqlPool) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        (Self(sender), commit_all(pool, receiver))
    }

    /// Waits until it is committed. Once it has been handed in it will be, also if nobody waits any more.
    pub(super) async fn write(&self, write: W) -> Result<W::Answer, CommitError> {
        let stopped = || CommitError("the service is shutting down".into());
        let (answer, answered) = oneshot::channel();
        self.0.send(Waiting { write, answer }).await.map_err(|_closed| stopped())?;
        answered.await.map_err(|_dropped| stopped())?
    }
}

async fn commit_all<W: Write>(pool: SqlPool, mut receiver: mpsc::Receiver<Waiting<W>>) {
    let (mut writes, mut answers) = (Vec::new(), Vec::new());
    while let Some(first) = receiver.recv().await {
        let (mut bytes, mut next) = (0, Some(first));
        while let Some(Waiting { write, answer }) = next {
            bytes += write.bytes();
            writes.push(write);
            answers.push(answer);
            let is_full = writes.len() >= MOST_WRITES || bytes >= ENOUGH_BYTES;
            next = if is_full { None } else { receiver.try_recv().ok() };
        }
        let outcomes = commit_batch(&pool, &writes).await;
        for (answer, outcome) in take(&mut answers).into_iter().zip(outcomes) {
            let _nobody_waits_any_more = answer.send(outcome);
        }
        writes.clear();
    }
}

async fn commit_batch<W: Write>(pool: &SqlPool, writes: &[W]) -> Vec<Result<W::Answer, CommitError>> {
    let error = match commit_in_time(pool, writes).await {
        Ok(answers) => return answers.into_iter().map(Ok).collect(),
        Err(error) => error,
    };
    // A row that the database refuses must not fail the others; a database that is gone fails them all.
    let refused = matches!(error, Some(sqlx::Error::Database(_) | sqlx::Error::Encode(_)));
    if !refused || writes.len() == 1 {
        let error = failure(error.as_ref());
        return writes.iter().map(|_| Err(error.clone())).collect();
    }
    let mut outcomes = Vec::with_capacity(writes.len());
    for write in writes {
        let answer = match commit_in_time(pool, std::slice::from_ref(write)).await {
            Ok(answers) => answers.into_iter().next().ok_or_else(|| failure(None)),
            Err(error) => Err(failure(error.as_ref())),
        };
        outcomes.push(answer);
    }
    outcomes
}

/// `Err(None)` when it took too long.
async fn commit_in_time<W: Write>(
    pool: &SqlPool,
    writes: &[W],
) -> Result<Vec<W::Answer>, Option<sqlx::Error>> {
    timeout(COMMIT_TIMEOUT, W::commit(pool, writes)).await.map_err(|_elapsed| None)?.map_err(Some)
}

fn failure(error: Option<&sqlx::Error>) -> CommitError {
    CommitError(error.map_or_else(|| "the database does not answer".into(), describe))
}
