//! Group commit: writes that wait at the same time are flushed to the disk together. One future commits for
//! everybody; while it does, the next batch gathers.

use tokio::sync::{mpsc, oneshot};

use super::failure::describe;
use super::{SqlPool, answer};

/// How many writes may wait for the next batch; more wait until there is room.
const MOST_WAITING: usize = 1024;

/// Most writes of one commit.
const MOST_WRITES: usize = 512;

/// The size at which a batch is closed, in bytes: that long texts do not make one statement of gigabytes.
const ENOUGH_BYTES: usize = 4 << 20;

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
    while let Some(first) = receiver.recv().await {
        let (mut writes, mut answers) = (Vec::new(), Vec::new());
        let (mut bytes, mut next) = (0, Some(first));
        while let Some(Waiting { write, answer }) = next {
            bytes += write.bytes();
            writes.push(write);
            answers.push(answer);
            let is_full = writes.len() >= MOST_WRITES || bytes >= ENOUGH_BYTES;
            next = if is_full { None } else { receiver.try_recv().ok() };
        }
        let outcomes = commit_batch(&pool, &writes).await;
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            let _nobody_waits_any_more = answer.send(outcome);
        }
    }
}

async fn commit_batch<W: Write>(pool: &SqlPool, writes: &[W]) -> Vec<Result<W::Answer, CommitError>> {
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
