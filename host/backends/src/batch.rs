//! Group commit: writes that wait at the same time are flushed to the disk together. One future writes for
//! everybody; while it does, the next batch gathers.
//!
//! What does not belong here: how a batch is written. That is the store's.

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
pub(crate) trait Weigh {
    /// What it takes, roughly.
    fn bytes(&self) -> usize;
}

/// The future that writes has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended;

/// Where writes wait for the next batch. Clones are the same place.
#[derive(Debug)]
pub(crate) struct Waiters<W, A>(mpsc::Sender<Waiting<W, A>>);

/// The batches, one after the other. Whoever writes them borrows them for as long, so that another can go on where one
/// broke off: what had not been taken into a batch still waits, and the writes of the batch itself are answered with
/// [`Ended`].
#[derive(Debug)]
pub(crate) struct Batches<W, A> {
    receiver: Mutex<mpsc::Receiver<Waiting<W, A>>>,
    bounds: Bounds,
}

/// The right to write the next batches.
pub(crate) struct Turn<'a, W, A> {
    receiver: MutexGuard<'a, mpsc::Receiver<Waiting<W, A>>>,
    bounds: Bounds,
}

/// Writes that waited at the same time, and who waits for them.
#[derive(Debug)]
pub(crate) struct Batch<W, A> {
    pub(crate) writes: Vec<W>,
    answers: Vec<oneshot::Sender<A>>,
}

#[derive(Debug)]
struct Waiting<W, A> {
    write: W,
    answer: oneshot::Sender<A>,
}

/// A place to wait, and the batches that come of it.
pub(crate) fn gather<W: Weigh, A>(bounds: Bounds) -> (Waiters<W, A>, Batches<W, A>) {
    let (sender, receiver) = mpsc::channel(bounds.waiting);
    (Waiters(sender), Batches { receiver: Mutex::new(receiver), bounds })
}

impl<W, A> Waiters<W, A> {
    /// Waits until it is written. Once it has been handed in it will be, also if nobody waits any more.
    pub(crate) async fn write(&self, write: W) -> Result<A, Ended> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Waiting { write, answer }).await.map_err(|_closed| Ended)?;
        answered.await.map_err(|_dropped| Ended)
    }
}

impl<W, A> Batches<W, A> {
    /// Waits until nobody else writes.
    pub(crate) async fn begin(&self) -> Turn<'_, W, A> {
        Turn { receiver: self.receiver.lock().await, bounds: self.bounds }
    }
}

impl<W: Weigh, A> Turn<'_, W, A> {
    /// All that waits now, as much as one batch takes; nothing once every place to wait is gone.
    pub(crate) async fn next(&mut self) -> Option<Batch<W, A>> {
        let mut batch = Batch { writes: Vec::new(), answers: Vec::new() };
        let (mut bytes, mut next) = (0, Some(self.receiver.recv().await?));
        while let Some(Waiting { write, answer }) = next {
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

impl<W, A> Clone for Waiters<W, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use futures::future::{join, join_all};

    use super::*;

    impl Weigh for String {
        fn bytes(&self) -> usize {
            self.len()
        }
    }

    const BOUNDS: Bounds = Bounds { waiting: 8, writes: 3, bytes: 10 };

    async fn batches_of(writes: &[&str]) -> Vec<usize> {
        let (waiters, batches) = gather::<String, usize>(BOUNDS);
        let waiting = async {
            let answers = join_all(writes.iter().map(|write| waiters.write((*write).to_owned()))).await;
            drop(waiters);
            answers
        };
        let writing = async {
            let mut sizes = Vec::new();
            let mut turn = batches.begin().await;
            while let Some(batch) = turn.next().await {
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
        let (waiters, batches) = gather::<String, ()>(BOUNDS);
        drop(batches);
        assert_eq!(waiters.write("a".into()).await, Err(Ended));
        let (waiters, batches) = gather::<String, ()>(BOUNDS);
        let broken = async { drop(batches.begin().await.next().await) };
        let (answer, ()) = join(waiters.write("a".into()), broken).await;
        assert_eq!(answer, Err(Ended), "the batch was dropped, and nothing hangs");
        let next = async { batches.begin().await.next().await.unwrap().answer([()]) };
        let (answer, ()) = join(waiters.write("b".into()), next).await;
        assert_eq!(answer, Ok(()), "another writer goes on");
    }
}
