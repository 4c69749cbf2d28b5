//! Claiming the next job: one poller per process asks for it, and waits on BullMQ's marker while there is
//! none. A worker that has ended a job for good may be given the next one in the same step instead
//! (`finish.rs`).
//!
//! A poll, once begun, is driven to its end by the next caller: a job that Redis leased while its caller went
//! away is not lost until its lease expires.
//!
//! Where there are several shards they are asked in turn, each time beginning with the one after that which
//! gave the last job, so that none of them waits for another one's backlog. A shard that does not answer
//! holds up the others for a moment only.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use agent_core::ports::{AttemptEnd, Claim, ClaimedJob, Epoch, QueueError};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use redis::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::cancel_request;
use super::job_hash::{CLAIMS, LISTED, OPTIONS, read_claim, text};
use super::official_scripts::NextClaim;
use super::own_scripts::new_token;
use super::store::{ANSWER_TIMEOUT, STALLED_CHECK_INTERVAL, Store, broken, store_error};
use super::submitter;
use super::time::{millis, now, to_millis};
use crate::redis::{Manner, QueryError};

/// Redis blocks for no less; 0 would be for ever.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

/// How long a shard that failed when it was asked last is waited for, beside others that answer.
const FAILING_PATIENCE: Duration = Duration::from_millis(50);

/// A job that waited for this part of the time for which lists are kept is listed anew when it is claimed:
/// its list is kept from when it was added, and the job from its end.
const LISTED_ANEW: u32 = 24;

/// One poller for each shard. The slots of a process share them, behind a mutex.
pub(super) struct Pollers {
    each: Vec<Poller>,
    /// The shard that is asked first.
    first: usize,
}

/// The poll and the wait that are under way in one shard.
#[derive(Default)]
pub(super) struct Poller {
    poll: Option<BoxFuture<'static, Result<Polled, QueueError>>>,
    wait: Option<BoxFuture<'static, Result<(), QueueError>>>,
    /// The last poll claimed the last job there was: there is no other one until BullMQ sets its marker.
    is_drained: bool,
    /// How long to wait for the marker if nothing is known of it.
    patience: Duration,
    /// The last poll failed.
    is_failing: bool,
}

/// What a poll of the queue came to.
enum Polled {
    /// A job, and whether there are more that wait or are delayed.
    Claimed(Box<Claim>, bool),
    /// There was nothing. It is worth polling again after this long, or when BullMQ sets its marker.
    Empty(Duration),
}

/// What `scripts/claim.lua` gave.
pub(super) enum ClaimReply {
    /// A job, and whether there are more that wait or are delayed.
    Claim(Box<Claim>, bool),
    /// Nothing. It is worth asking again after this long, or when BullMQ sets its marker.
    Nothing(Duration),
}

/// A job that was leased, as `scripts/claim.lua` answers it.
struct Leased {
    job_id: String,
    hash: HashMap<String, String>,
    epoch: u64,
    cancel_request: Option<String>,
    is_more: bool,
}

/// Claims the next job. With less patience than [`STALLED_CHECK_INTERVAL`] each shard is polled once, also
/// one whose marker is waited for.
pub(super) async fn claim(
    stores: &[Arc<Store>],
    pollers: &Mutex<Pollers>,
    worker: &str,
    patience: Duration,
) -> ClaimedJob {
    let deadline = Instant::now() + patience;
    let Ok(mut pollers) = timeout_at(deadline, pollers.lock()).await else { return nothing(stores) };
    let mut is_first = true;
    loop {
        if let Some(claim) = pollers.poll_each(stores, worker, patience, is_first).await? {
            return Ok(Some(claim));
        }
        is_first = false;
        if Instant::now() >= deadline {
            return Ok(None);
        }
        let Ok(waited) = timeout_at(deadline, pollers.wait(stores)).await else { return nothing(stores) };
        if let Err(error) = waited {
            stores.iter().for_each(|store| store.is_failing.store(true, Ordering::Relaxed));
            return Err(error);
        }
    }
}

/// There is no job, as far as is known. Where no shard answers that is not known: to say so would pass
/// for the end of the outage.
fn nothing(stores: &[Arc<Store>]) -> ClaimedJob {
    let answers =
        |store: &Arc<Store>| store.redis.circuit_is_closed() && !store.is_failing.load(Ordering::Relaxed);
    if stores.iter().any(answers) { Ok(None) } else { Err(store_error(QueryError::CircuitOpen)) }
}

/// Ends what is under way. A job that was claimed by it is released. One that is to be cancelled keeps its
/// lease until that ends: released, it would be cancelled without a worker that ends its run.
pub(super) async fn release_pending(stores: &[Arc<Store>], pollers: &Mutex<Pollers>) {
    let Ok(mut pollers) = timeout(ANSWER_TIMEOUT, pollers.lock()).await else { return };
    for (store, poller) in stores.iter().zip(&mut pollers.each) {
        poller.wait = None;
        let Some(poll) = poller.poll.take() else { continue };
        if let Ok(Ok(Polled::Claimed(claim, _))) = timeout(ANSWER_TIMEOUT, poll).await
            && !claim.cancel_asked
            && let Err(error) = store.finish(&claim, &AttemptEnd::HANDED_BACK).await
        {
            tracing::warn!(
                job_id = claim.job_id,
                error = %error,
                "a job is claimed again only when its lease has expired"
            );
        }
    }
}

impl Pollers {
    pub(super) fn new(shards: usize) -> Self {
        Self { each: std::iter::repeat_with(Poller::default).take(shards).collect(), first: 0 }
    }

    /// Polls each shard until one has a job, but for those that were found empty and whose marker is waited
    /// for. A caller with less patience than such a wait has polls them too, the first time. Fails when one
    /// does and the others failed as well when they were polled last.
    async fn poll_each(
        &mut self,
        stores: &[Arc<Store>],
        worker: &str,
        patience: Duration,
        is_first: bool,
    ) -> ClaimedJob {
        let mut failure = None;
        for step in 0..stores.len() {
            let index = (self.first + step) % stores.len();
            let (Some(store), Some(poller)) = (stores.get(index), self.each.get_mut(index)) else { continue };
            // The wait began for another slot that found nothing: a poll now would find nothing either.
            let may_wait = !is_first || patience >= STALLED_CHECK_INTERVAL;
            if may_wait && poller.wait.is_some() {
                continue;
            }
            match poller.poll_unless_drained(store, worker, patience).await {
                Ok(Some(claim)) => {
                    self.first = index + 1;
                    return Ok(Some(claim));
                }
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if self.each.iter().all(|poller| poller.is_failing) => Err(error),
            _ => Ok(None),
        }
    }

    /// Waits until one of the shards may have a job. Where there is only one, its failure is told; one of
    /// several is polled again, which tells.
    async fn wait(&mut self, stores: &[Arc<Store>]) -> Result<(), QueueError> {
        for (store, poller) in stores.iter().zip(&mut self.each) {
            poller.begin_to_wait(store);
        }
        let waited = poll_fn(|context| {
            let mut ended = None;
            for poller in &mut self.each {
                if let Some(wait) = &mut poller.wait
                    && let Poll::Ready(waited) = wait.as_mut().poll(context)
                {
                    poller.wait = None;
                    ended = Some(waited);
                }
            }
            ended.map_or(Poll::Pending, Poll::Ready)
        });
        waited.await
    }
}

impl Poller {
    /// Whoever claimed the last job left nothing to be polled for until it is time to look for stalled ones.
    /// A caller with less patience than is waited then wants to know nevertheless.
    async fn poll_unless_drained(
        &mut self,
        store: &Arc<Store>,
        worker: &str,
        patience: Duration,
    ) -> ClaimedJob {
        if std::mem::take(&mut self.is_drained) && patience >= STALLED_CHECK_INTERVAL {
            self.patience = store.stalled_check_in();
            if !self.patience.is_zero() {
                return Ok(None);
            }
        }
        let polled = if self.is_failing && store.shard.count > 1 {
            match timeout(FAILING_PATIENCE, self.poll(store, worker)).await {
                Ok(polled) => polled,
                Err(_elapsed) => return Ok(None),
            }
        } else {
            self.poll(store, worker).await
        };
        self.note(store, polled.as_ref().err());
        match polled? {
            Polled::Claimed(claim, is_more) => {
                self.is_drained = !is_more;
                Ok(Some(*claim))
            }
            Polled::Empty(wait) => {
                self.patience = wait;
                Ok(None)
            }
        }
    }

    /// Says in the log when one of several shards begins or ceases to fail. Where there is one, the worker
    /// says so.
    fn note(&mut self, store: &Store, error: Option<&QueueError>) {
        let (did_fail, shard) = (std::mem::replace(&mut self.is_failing, error.is_some()), store.shard.index);
        store.is_failing.store(error.is_some(), Ordering::Relaxed);
        match error {
            Some(error) if !did_fail && store.shard.count > 1 => {
                tracing::warn!(shard, %error, "a shard of the queue fails: jobs of the others are worked off");
            }
            None if did_fail && store.shard.count > 1 => {
                tracing::info!(shard, "a shard of the queue works again");
            }
            _ => {}
        }
    }

    /// A shard that fails is polled again after a while, and one of several whose wait fails as well: its
    /// next poll says why.
    fn begin_to_wait(&mut self, store: &Arc<Store>) {
        if self.wait.is_some() {
            return;
        }
        let is_failing = self.is_failing;
        let waiting = wait_for_marker(Arc::clone(store), self.patience);
        let wait: BoxFuture<'static, Result<(), QueueError>> = if store.shard.count > 1 {
            Box::pin(async move {
                if is_failing || waiting.await.is_err() {
                    sleep(STALLED_CHECK_INTERVAL).await;
                }
                Ok(())
            })
        } else {
            Box::pin(waiting)
        };
        self.wait = Some(wait);
    }

    async fn poll(&mut self, store: &Arc<Store>, worker: &str) -> Result<Polled, QueueError> {
        let poll = self.poll.get_or_insert_with(|| Box::pin(poll(Arc::clone(store), worker.to_owned())));
        // A poll that panicked must not be polled again by the next caller.
        let polled = AssertUnwindSafe(poll).catch_unwind().await;
        self.poll = None;
        polled.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

async fn poll(store: Arc<Store>, worker: String) -> Result<Polled, QueueError> {
    let token = new_token(&worker);
    let leased_at = Instant::now();
    let looks_for_stalled = store.is_stalled_check_due();
    let next = NextClaim { token: &token, worker: &worker, looks_for_stalled };
    let claim = store.official.claim(&next, now()).map_err(broken)?;
    let answer = store.run(&claim).await?;
    Ok(match store.read_given(answer, token, leased_at).await? {
        ClaimReply::Claim(claim, is_more) => Polled::Claimed(claim, is_more),
        ClaimReply::Nothing(wait) => Polled::Empty(wait),
    })
}

impl Store {
    /// Reads the answer of `scripts/claim.lua`, and does what is left to do about a job that was leased. When
    /// that fails the claim is given up, and the job is claimed again when its lease has expired.
    pub(super) async fn read_given(
        &self,
        answer: Value,
        token: String,
        leased_at: Instant,
    ) -> Result<ClaimReply, QueueError> {
        let (reclaimed, answer) = match answer {
            Value::Array(both) => <[Value; 2]>::try_from(both)
                .map_or((0, Value::Nil), |[reclaimed, answer]| {
                    (if let Value::Int(number) = reclaimed { number } else { 0 }, answer)
                }),
            _ => (0, Value::Nil),
        };
        if reclaimed > 0 {
            tracing::warn!(
                number = reclaimed,
                "stalled jobs go back to the queue: their workers let the lease expire"
            );
        }
        let leased = match read_leased(answer, self.idle_check_interval) {
            Ok(leased) => leased,
            Err(wait) => return Ok(ClaimReply::Nothing(wait)),
        };
        let Leased { job_id, hash, epoch, cancel_request, is_more } = leased;
        let mut claim = read_claim(self.shard.public_id(&job_id), token, &hash, leased_at);
        claim.epoch = Epoch(epoch);
        // The job as it was before this claim was numbered.
        claim.earlier.are_none = !hash.contains_key(CLAIMS)
            && self.has_known_since(to_millis(claim.created_at))
            && submitter::run_of(hash.get(OPTIONS).map(String::as_str)).is_none();
        if let Some(reason) = self.schedule_next(&job_id, &hash).await? {
            claim.data = Err(reason);
        }
        let waited = now().saturating_sub(to_millis(claim.created_at));
        if !hash.contains_key(LISTED) || waited > millis(self.kept_for / LISTED_ANEW) {
            self.list_for_owner(&claim).await;
        }
        claim.cancel_asked = cancel_request == Some(cancel_request::attempt_of(&claim));
        Ok(ClaimReply::Claim(Box::new(claim), is_more))
    }
}

/// A job that was leased, or how long it is worth waiting for one: BullMQ says `[0, 0, how long the queue is
/// rate-limited (ms), when the next delayed job is due (ms)]`, and the script adds how many are active:
/// with none, that is `when_idle` at most.
fn read_leased(answer: Value, when_idle: Duration) -> Result<Leased, Duration> {
    let Value::Array(answer) = answer else { return Err(STALLED_CHECK_INTERVAL) };
    let whole = |value: &Value| match value {
        Value::Int(number) => u64::try_from(*number).unwrap_or(0),
        _ => 0,
    };
    match &answer[..] {
        [Value::Array(hash), Value::BulkString(id), epoch, request, is_more] => {
            let (pairs, _nothing_left) = hash.as_chunks::<2>();
            Ok(Leased {
                job_id: text(id),
                hash: pairs.iter().filter_map(read_field).collect(),
                epoch: whole(epoch),
                cancel_request: if let Value::BulkString(request) = request {
                    Some(text(request))
                } else {
                    None
                },
                is_more: whole(is_more) > 0,
            })
        }
        [_, _, limited, next, active @ ..] => {
            let waits = [whole(limited), whole(next).saturating_sub(now())];
            let wait = waits.into_iter().filter(|wait| *wait > 0).map(Duration::from_millis).min();
            // A job that became due just now is there at the next poll.
            let due = whole(next) > 0 && waits[1] == 0;
            let is_idle = active.first().is_some_and(|active| whole(active) == 0);
            let longest = if is_idle { when_idle } else { STALLED_CHECK_INTERVAL };
            let wait = wait.unwrap_or(longest).min(longest);
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
    let ask = |mut redis| async move { wait.query_async(&mut redis).await };
    let waited = store.waiting.send(Manner::Repeatable(longest), ask).await;
    let _marker: Value = waited.map_err(store_error)?;
    Ok(())
}

impl Store {
    /// Lists a job for its owner that was just claimed: another producer added it, or it was added long ago.
    /// The job is held whatever Redis says to that.
    async fn list_for_owner(&self, claim: &Claim) {
        let Ok(data) = &claim.data else { return };
        let created = to_millis(claim.created_at);
        if let Err(error) = self.list_for(&data.user_id, self.shard.local_id(&claim.job_id), created).await {
            tracing::debug!(job_id = claim.job_id, error = %error, "a job is missing in its owner's list");
        }
    }
}

#[cfg(test)]
mod tests;
