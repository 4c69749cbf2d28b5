//! The events of all shards as one stream. Its cursor is those of the shards, side by side.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use agent_core::ports::{ChangedJobs, JobChanges, QueueError};
use futures::future::{BoxFuture, try_join_all};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::store::Store;

/// How long a shard is left alone that could not be read.
const PAUSE: Duration = Duration::from_secs(1);

const SEPARATOR: &str = ",";

/// What is being read of each shard. A read that is begun goes on with the next call: its connection answers
/// nothing else until it has ended.
pub(super) struct Readers(Vec<Option<Reader>>);

struct Reader {
    after: String,
    reading: BoxFuture<'static, JobChanges>,
}

impl Readers {
    pub(super) fn new(shards: usize) -> Self {
        Self(std::iter::repeat_with(|| None).take(shards).collect())
    }
}

/// What has happened in any shard since `after`.
pub(super) async fn changes(
    stores: &[Arc<Store>],
    readers: &Mutex<Readers>,
    after: Option<&str>,
) -> Result<JobChanges, QueueError> {
    if let [only] = stores {
        return only.changes(after).await;
    }
    let Some(mut cursors) = after.and_then(|after| split(after, stores.len())) else {
        // Reads that are under way would keep the connections from answering. Nobody goes on with them.
        for (store, reader) in stores.iter().zip(&mut readers.lock().await.0) {
            if reader.take().is_some() {
                store.events.disconnect();
            }
        }
        let begun = try_join_all(stores.iter().map(|store| store.changes(None))).await?;
        let cursors: Vec<_> = begun.into_iter().map(|begun| begun.cursor).collect();
        return Ok(JobChanges { cursor: cursors.join(SEPARATOR), jobs: ChangedJobs::Any });
    };
    let mut readers = readers.lock().await;
    for ((store, reader), after) in stores.iter().zip(&mut readers.0).zip(&cursors) {
        begin(store, reader, after);
    }
    let changed = poll_fn(|context| {
        for (index, reader) in readers.0.iter_mut().enumerate() {
            if let Some(Reader { reading, .. }) = reader
                && let Poll::Ready(changed) = reading.as_mut().poll(context)
            {
                *reader = None;
                return Poll::Ready((index, changed));
            }
        }
        Poll::Pending
    });
    let (index, changed) = changed.await;
    if let Some(cursor) = cursors.get_mut(index) {
        *cursor = changed.cursor;
    }
    Ok(JobChanges { cursor: cursors.join(SEPARATOR), jobs: changed.jobs })
}

/// Reads on, unless that is under way.
fn begin(store: &Arc<Store>, reader: &mut Option<Reader>, after: &str) {
    match reader {
        Some(reader) if reader.after == after => return,
        // Whoever reads has begun anew.
        Some(_) => store.events.disconnect(),
        None => {}
    }
    let reading = Box::pin(read(store.clone(), after.to_owned()));
    *reader = Some(Reader { after: after.to_owned(), reading });
}

/// What has happened in a shard. One that fails is read on later, and does not keep the others from being
/// read.
async fn read(store: Arc<Store>, after: String) -> JobChanges {
    match store.changes(Some(&after)).await {
        Ok(changes) => changes,
        Err(error) => {
            tracing::debug!(shard = store.shard.index, %error, "the events of a shard are not read at the moment");
            sleep(PAUSE).await;
            JobChanges { cursor: after, jobs: ChangedJobs::These(vec![]) }
        }
    }
}

/// The cursors of so many shards.
fn split(cursor: &str, shards: usize) -> Option<Vec<String>> {
    let cursors: Vec<_> = cursor.split(SEPARATOR).map(str::to_owned).collect();
    (cursors.len() == shards).then_some(cursors)
}
