//! Claiming the next job: one poller per process asks for it, and waits on BullMQ's marker while there is none.
//!
//! A poll, once begun, is driven to its end by whoever calls next: a job that Redis leased while its caller went away
//! is not lost until its lease expires.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{AttemptEnd, Claim, Epoch, QueueError};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use redis::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use super::cancel_request;
use super::job_hash::{read_claim, text};
use super::own_scripts::new_token;
use super::store::{ANSWER_TIMEOUT, Store, broken, store_error};
use super::time::{now, to_millis};

/// How often the process looks for stalled jobs, and so the longest wait for a new one: a job whose worker was killed is
/// claimed again after a lease and this long.
const STALLED_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Redis blocks for no less; 0 would be for ever.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

/// What is under way for whoever calls next. Slots of a process that want a job share one, behind a mutex.
#[derive(Default)]
pub(super) struct Poller {
    poll: Option<BoxFuture<'static, Result<Polled, QueueError>>>,
    wait: Option<BoxFuture<'static, Result<(), QueueError>>>,
    /// When this process last looked for stalled jobs.
    checked_at: Option<Instant>,
}

/// What a poll of the queue came to.
enum Polled {
    Claimed(Box<Claim>),
    /// There was nothing. It is worth polling again after this long, or when BullMQ sets its marker.
    Empty(Duration),
}

/// Claims the next job. However short the patience, the queue is polled once.
pub(super) async fn claim(
    store: &Arc<Store>,
    poller: &Mutex<Poller>,
    worker: &str,
    patience: Duration,
) -> Result<Option<Claim>, QueueError> {
    let deadline = Instant::now() + patience;
    let Ok(mut poller) = timeout_at(deadline, poller.lock()).await else { return Ok(None) };
    loop {
        let wait = match poller.poll(store, worker).await? {
            Polled::Claimed(claim) => return Ok(Some(*claim)),
            Polled::Empty(wait) => wait,
        };
        if Instant::now() >= deadline {
            return Ok(None);
        }
        let waiting = poller.wait.get_or_insert_with(|| Box::pin(wait_for_marker(Arc::clone(store), wait)));
        let Ok(waited) = timeout_at(deadline, waiting).await else { return Ok(None) };
        poller.wait = None;
        waited?;
    }
}

/// Ends what is under way. A job that was claimed by it is released.
pub(super) async fn release_pending(store: &Arc<Store>, poller: &Mutex<Poller>) {
    let Ok(mut poller) = timeout(ANSWER_TIMEOUT, poller.lock()).await else { return };
    poller.wait = None;
    let Some(poll) = poller.poll.take() else { return };
    if let Ok(Ok(Polled::Claimed(claim))) = timeout(ANSWER_TIMEOUT, poll).await
        && let Err(error) = store.finish(&claim, &AttemptEnd::HANDED_BACK).await
    {
        tracing::warn!(
            job_id = claim.job_id,
            error = %error,
            "a job is claimed again only when its lease has expired"
        );
    }
}

impl Poller {
    async fn poll(&mut self, store: &Arc<Store>, worker: &str) -> Result<Polled, QueueError> {
        let (checked_at, now) = (&mut self.checked_at, Instant::now());
        let poll = self.poll.get_or_insert_with(|| {
            let check = checked_at.is_none_or(|checked| now >= checked + STALLED_CHECK_INTERVAL);
            if check {
                *checked_at = Some(now);
            }
            Box::pin(poll(Arc::clone(store), worker.to_owned(), check))
        });
        // A poll that panicked must not be polled again by the next caller.
        let polled = AssertUnwindSafe(poll).catch_unwind().await;
        self.poll = None;
        polled.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

async fn poll(store: Arc<Store>, worker: String, check_for_stalled: bool) -> Result<Polled, QueueError> {
    if check_for_stalled {
        store.reclaim_expired().await?;
    }
    loop {
        let token = new_token(&worker);
        let leased_at = Instant::now();
        let claim = store.official.claim(&token, &worker, now()).map_err(broken)?;
        let (job_id, hash) = match read_claimed(store.run(&claim).await?) {
            Ok(claimed) => claimed,
            Err(wait) => return Ok(Polled::Empty(wait)),
        };
        let mut claim = read_claim(job_id, token, &hash, leased_at);
        if let Some(reason) = store.schedule_next(&claim.job_id, &hash).await? {
            claim.data = Err(reason);
        }
        // Without its number nothing may be written in the claim's name. When that fails the claim is given up, and the
        // job is claimed again when its lease has expired.
        let number = store.own.number_claim(&claim.job_id);
        let (epoch, cancel_request): (u64, Option<String>) = store.run(&number).await?;
        claim.epoch = Epoch(epoch);
        store.list_for_owner(&claim).await;
        if cancel_request == Some(cancel_request::attempt_of(&claim)) {
            store.finish(&claim, &AttemptEnd::Cancelled).await?;
            continue;
        }
        return Ok(Polled::Claimed(Box::new(claim)));
    }
}

/// The id and the hash of a job, or how long it is worth waiting for one: `[hash or 0, id or 0, how long the
/// queue is rate-limited (ms), when the next delayed job is due (ms)]`.
fn read_claimed(answer: Value) -> Result<(String, HashMap<String, String>), Duration> {
    let Value::Array(answer) = answer else { return Err(STALLED_CHECK_INTERVAL) };
    let millis = |value: &Value| match value {
        Value::Int(millis) => u64::try_from(*millis).unwrap_or(0),
        _ => 0,
    };
    match &answer[..] {
        [Value::Array(hash), Value::BulkString(id), ..] => {
            let (pairs, _nothing_left) = hash.as_chunks::<2>();
            Ok((text(id), pairs.iter().filter_map(read_field).collect()))
        }
        [_, _, limited, next] => {
            let waits = [millis(limited), millis(next).saturating_sub(now())];
            let wait = waits.into_iter().filter(|wait| *wait > 0).map(Duration::from_millis).min();
            // A job that became due just now is there at the next poll.
            let due = millis(next) > 0 && waits[1] == 0;
            let wait = wait.unwrap_or(STALLED_CHECK_INTERVAL).min(STALLED_CHECK_INTERVAL);
            Err(if due { SHORTEST_WAIT } else { wait })
        }
        _ => Err(STALLED_CHECK_INTERVAL),
    }
}

fn read_field([name, value]: &[Value; 2]) -> Option<(String, String)> {
    match (name, value) {
        (Value::BulkString(name), Value::BulkString(value)) => Some((text(name), text(value))),
        _ => None,
    }
}

/// Waits until BullMQ's marker says that there may be a job, or that long.
async fn wait_for_marker(store: Arc<Store>, longest: Duration) -> Result<(), QueueError> {
    let longest = longest.max(SHORTEST_WAIT);
    let mut wait = redis::cmd("BZPOPMIN");
    wait.arg(store.keys.marker()).arg(longest.as_secs_f64());
    let wait = &wait;
    let waited = store
        .waiting
        .query_blocking(longest, |mut redis| async move { wait.query_async(&mut redis).await })
        .await;
    let _marker: Value = waited.map_err(store_error)?;
    Ok(())
}

impl Store {
    /// Lists a job that was just claimed for its owner, who may have had it added by Node. The job is held whatever Redis
    /// says to that.
    async fn list_for_owner(&self, claim: &Claim) {
        let Ok(data) = &claim.data else { return };
        let created = to_millis(claim.created_at);
        if let Err(error) = self.list_for(&data.user_id, &claim.job_id, created).await {
            tracing::debug!(job_id = claim.job_id, error = %error, "a job is missing in its owner's list");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bullmq::BullQueue;

    /// A poll outlives its caller, so a panic in it must not be met by everybody who claims afterwards.
    #[tokio::test]
    async fn a_poll_that_panicked_is_not_taken_up_by_the_next_caller() {
        let queue = BullQueue::open_with_lease("redis://127.0.0.1:1", Duration::from_secs(1)).unwrap();
        let broken = async { panic!("a bug in a poll of the queue") };
        queue.poller.lock().await.poll = Some(Box::pin(broken));
        let claim = || claim(&queue.store, &queue.poller, "worker", STALLED_CHECK_INTERVAL);
        let claimed = AssertUnwindSafe(claim()).catch_unwind().await;
        assert!(claimed.is_err(), "the panic is the first caller's");
        // Nobody listens there: the queue has been polled anew.
        let claimed = claim().await;
        assert!(matches!(claimed, Err(QueueError::Store { .. })), "{claimed:?}");
    }
}
