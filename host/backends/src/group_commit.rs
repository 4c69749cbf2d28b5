//! Group commit: writes that wait at the same time are flushed to the disk together. One future writes for
//! everybody; while it does, the next batch gathers.
//!
//! What does not belong here: how a batch is written. That is the store's.

use std::sync::{Arc, Weak};

use tokio::sync::{Mutex, MutexGuard, mpsc, oneshot};

/// How large a batch may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// How many writes may wait for the next batch; more wait until there is room.
    pub(crate) waiting: usize,
    /// Most writes of one batch.
    pub(crate) writes: usize,
    /// The size at which a batch is closed, in bytes: that long texts do not make one that takes too long.
    pub(crate) bytes: usize,
}

/// Something that is written together with others of its kind.
pub(crate) trait ByteSize {
    /// About how many bytes it takes.
    fn bytes(&self) -> usize;
}

/// The future that writes has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriterEnded;

/// Submits writes to the next batch. Clones submit to the same queue.
#[derive(Debug)]
pub(crate) struct Submitter<W, A>(mpsc::Sender<Submission<W, A>>);

/// The batches, one after the other. A writer borrows them for as long as it runs, so that its successor goes
/// on where one broke off: what had not been taken into a batch still waits, and the writes of the batch
/// itself are answered with [`WriterEnded`].
#[derive(Debug)]
pub(crate) struct Batches<W, A> {
    receiver: Mutex<mpsc::Receiver<Submission<W, A>>>,
    bounds: Bounds,
}

/// Reads the next batches; there is one reader at a time.
pub(crate) struct BatchReader<'a, W, A> {
    receiver: MutexGuard<'a, mpsc::Receiver<Submission<W, A>>>,
    bounds: Bounds,
}

/// Writes that waited at the same time, and who waits for them.
#[derive(Debug)]
pub(crate) struct Batch<W, A> {
    pub(crate) writes: Vec<W>,
    answers: Vec<oneshot::Sender<A>>,
}

/// A queue of writes that several have in common, who open it one after the other. It lasts as long as one of
/// them submits to it and one has its batches; then it is made anew.
#[derive(Debug)]
pub(crate) struct SharedChannel<W, A>(parking_lot::Mutex<Opened<W, A>>);

/// Nothing, or a channel that others hold.
type Opened<W, A> = Option<(mpsc::WeakSender<Submission<W, A>>, Weak<Batches<W, A>>)>;

#[derive(Debug)]
struct Submission<W, A> {
    write: W,
    answer: oneshot::Sender<A>,
}

/// A bounded queue of writes: who submits to it, and the batches that come of it.
pub(crate) fn channel<W: ByteSize, A>(bounds: Bounds) -> (Submitter<W, A>, Batches<W, A>) {
    let (sender, receiver) = mpsc::channel(bounds.waiting);
    (Submitter(sender), Batches { receiver: Mutex::new(receiver), bounds })
}

impl<W: ByteSize, A> SharedChannel<W, A> {
    /// The queue that is open, or a new one.
    pub(crate) fn open(&self, bounds: Bounds) -> (Submitter<W, A>, Arc<Batches<W, A>>) {
        let mut opened = self.0.lock();
        let theirs =
            opened.as_ref().and_then(|(sender, batches)| Some((sender.upgrade()?, batches.upgrade()?)));
        if let Some((sender, batches)) = theirs {
            return (Submitter(sender), batches);
        }
        let (submitter, batches) = channel(bounds);
        let batches = Arc::new(batches);
        *opened = Some((submitter.0.downgrade(), Arc::downgrade(&batches)));
        (submitter, batches)
    }
}

impl<W, A> Default for SharedChannel<W, A> {
    /// Nobody has opened it.
    fn default() -> Self {
        Self(parking_lot::Mutex::new(None))
    }
}

impl<W, A> Submitter<W, A> {
    /// Waits until it is written. Once it has been handed in it will be, also if nobody waits any more.
    pub(crate) async fn write(&self, write: W) -> Result<A, WriterEnded> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Submission { write, answer }).await.map_err(|_closed| WriterEnded)?;
        answered.await.map_err(|_dropped| WriterEnded)
    }
}

impl<W, A> Batches<W, A> {
    /// Waits until nobody else writes.
    pub(crate) async fn reader(&self) -> BatchReader<'_, W, A> {
        BatchReader { receiver: self.receiver.lock().await, bounds: self.bounds }
    }
}

impl<W: ByteSize, A> BatchReader<'_, W, A> {
    /// All that waits now, as much as one batch takes; nothing once every submitter is gone.
    pub(crate) async fn next(&mut self) -> Option<Batch<W, A>> {
        let mut batch = Batch { writes: Vec::new(), answers: Vec::new() };
        let (mut bytes, mut next) = (0, Some(self.receiver.recv().await?));
        while let Some(Submission { write, answer }) = next {
            bytes += write.bytes();
            batch.writes.push(write);
            batch.answers.push(answer);
            let is_full = batch.writes.len() >= self.bounds.writes || bytes >= self.bounds.bytes;
            next = if is_full { None } else { self.receiver.try_recv().ok() };
        }
        Some(batch)
    }
}

impl<W, A> Batch<W, A> {
    /// Tells everybody, in the order of the writes, what came of theirs.
    pub(crate) fn answer(self, outcomes: impl IntoIterator<Item = A>) {
        for (answer, outcome) in self.answers.into_iter().zip(outcomes) {
            let _nobody_waits_any_more = answer.send(outcome);
        }
    }
}

impl<W, A> Clone for Submitter<W, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use futures::future::{join, join_all};

    use super::*;

    impl ByteSize for String {
        fn bytes(&self) -> usize {
            self.len()
        }
    }

    const BOUNDS: Bounds = Bounds { waiting: 8, writes: 3, bytes: 10 };

    async fn batches_of(writes: &[&str]) -> Vec<usize> {
        let (submitter, batches) = channel::<String, usize>(BOUNDS);
        let waiting = async {
            let answers = join_all(writes.iter().map(|write| submitter.write((*write).to_owned()))).await;
            drop(submitter);
            answers
        };
        let writing = async {
            let mut sizes = Vec::new();
            let mut reader = batches.reader().await;
            while let Some(batch) = reader.next().await {
                sizes.push(batch.writes.len());
                let lengths: Vec<_> = batch.writes.iter().map(String::len).collect();
                batch.answer(lengths);
            }
            sizes
        };
        let (answers, sizes) = join(waiting, writing).await;
        assert_eq!(answers, writes.iter().map(|write| Ok(write.len())).collect::<Vec<_>>());
        sizes
    }

    #[tokio::test]
    async fn what_waits_at_the_same_time_is_written_together_within_bounds() {
        assert_eq!(batches_of(&["a", "b"]).await, [2]);
        assert_eq!(batches_of(&["a", "b", "c", "d"]).await, [3, 1]);
        assert_eq!(batches_of(&["0123456789", "b", "c"]).await, [1, 2]);
        assert!(batches_of(&[]).await.is_empty());
    }

    #[tokio::test]
    async fn whoever_waits_hears_when_nobody_writes_any_more() {
        let (submitter, batches) = channel::<String, ()>(BOUNDS);
        drop(batches);
        assert_eq!(submitter.write("a".into()).await, Err(WriterEnded));
        let (submitter, batches) = channel::<String, ()>(BOUNDS);
        let broken = async { drop(batches.reader().await.next().await) };
        let (answer, ()) = join(submitter.write("a".into()), broken).await;
        assert_eq!(answer, Err(WriterEnded), "the batch was dropped, and nothing hangs");
        let next = async { batches.reader().await.next().await.unwrap().answer([()]) };
        let (answer, ()) = join(submitter.write("b".into()), next).await;
        assert_eq!(answer, Ok(()), "another writer goes on");
    }
    #[tokio::test]
    async fn who_opens_a_shared_queue_writes_into_the_same_batches_until_nobody_has_it_any_more() {
        let shared = SharedChannel::<String, ()>::default();
        let (one, batches) = shared.open(BOUNDS);
        let (other, same) = shared.open(BOUNDS);
        assert!(Arc::ptr_eq(&batches, &same));
        let both = join(one.write("a".into()), other.write("b".into()));
        let written = async {
            let batch = batches.reader().await.next().await.unwrap();
            let count = batch.writes.len();
            batch.answer([(), ()]);
            count
        };
        assert_eq!(join(both, written).await, ((Ok(()), Ok(())), 2));
        drop((one, other));
        assert!(batches.reader().await.next().await.is_none(), "it does not keep itself open");
        let (_again, anew) = shared.open(BOUNDS);
        assert!(!Arc::ptr_eq(&batches, &anew));
    }
}
