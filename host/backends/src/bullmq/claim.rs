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
use std::task::Poll;
use std::time::Duration;

use agent_core::ports::{AttemptEnd, Claim, Epoch, QueueError};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use redis::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::cancel_request;
use super::job_hash::{LISTED, OPTIONS, read_claim, text};
use super::official_scripts::NextClaim;
use super::own_scripts::new_token;
use super::store::{ANSWER_TIMEOUT, STALLED_CHECK_INTERVAL, Store, broken, store_error};
use super::submitter;
use super::time::{now, to_millis};

/// Redis blocks for no less; 0 would be for ever.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

/// How long a shard that failed when it was asked last is waited for, beside others that answer.
const FAILING_PATIENCE: Duration = Duration::from_millis(50);

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
    /// One that its owner had asked to cancel, and that is cancelled now.
    Cancelled,
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
) -> Result<Option<Claim>, QueueError> {
    let deadline = Instant::now() + patience;
    let Ok(mut pollers) = timeout_at(deadline, pollers.lock()).await else { return Ok(None) };
    let mut is_first = true;
    loop {
        if let Some(claim) = pollers.poll_each(stores, worker, patience, is_first).await? {
            return Ok(Some(claim));
        }
        is_first = false;
        if Instant::now() >= deadline {
            return Ok(None);
        }
        let Ok(waited) = timeout_at(deadline, pollers.wait(stores)).await else { return Ok(None) };
        waited?;
    }
}

/// Ends what is under way. A job that was claimed by it is released.
pub(super) async fn release_pending(stores: &[Arc<Store>], pollers: &Mutex<Pollers>) {
    let Ok(mut pollers) = timeout(ANSWER_TIMEOUT, pollers.lock()).await else { return };
    for (store, poller) in stores.iter().zip(&mut pollers.each) {
        poller.wait = None;
        let Some(poll) = poller.poll.take() else { continue };
        if let Ok(Ok(Polled::Claimed(claim, _))) = timeout(ANSWER_TIMEOUT, poll).await
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
    ) -> Result<Option<Claim>, QueueError> {
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
    ) -> Result<Option<Claim>, QueueError> {
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
    loop {
        let token = new_token(&worker);
        let leased_at = Instant::now();
        let looks_for_stalled = store.is_stalled_check_due();
        let next = NextClaim { token: &token, worker: &worker, looks_for_stalled };
        let claim = store.official.claim(&next, now()).map_err(broken)?;
        let answer = store.run(&claim).await?;
        match store.read_given(answer, token, leased_at).await? {
            ClaimReply::Claim(claim, is_more) => return Ok(Polled::Claimed(claim, is_more)),
            ClaimReply::Cancelled => {}
            ClaimReply::Nothing(wait) => return Ok(Polled::Empty(wait)),
        }
    }
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
        claim.earlier.are_none = epoch == 1
            && self.has_known_since(to_millis(claim.created_at))
            && submitter::run_of(hash.get(OPTIONS).map(String::as_str)).is_none();
        if let Some(reason) = self.schedule_next(&job_id, &hash).await? {
            claim.data = Err(reason);
        }
        if !hash.contains_key(LISTED) {
            self.list_for_owner(&claim).await;
        }
        if cancel_request == Some(cancel_request::attempt_of(&claim)) {
            self.cancel_as_worker(&claim).await?;
            return Ok(ClaimReply::Cancelled);
        }
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
    let waited = store
        .waiting
        .query_blocking(longest, |mut redis| async move { wait.query_async(&mut redis).await })
        .await;
    let _marker: Value = waited.map_err(store_error)?;
    Ok(())
}

impl Store {
    /// Lists a job for its owner that was just claimed: another producer added it. The job is held whatever
    /// Redis says to that.
    async fn list_for_owner(&self, claim: &Claim) {
        let Ok(data) = &claim.data else { return };
        let created = to_millis(claim.created_at);
        if let Err(error) = self.list_for(&data.user_id, self.shard.local_id(&claim.job_id), created).await {
            tracing::debug!(job_id = claim.job_id, error = %error, "a job is missing in its owner's list");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use agent_core::ports::queue::LEASE;

    use super::*;
    use crate::bullmq::BullQueue;
    use crate::bullmq::shard::Shard;
    use crate::redis::Redis;

    /// A poll outlives its caller, so a panic in it must not be met by everybody who claims afterwards.
    #[tokio::test]
    async fn a_poll_that_panicked_is_not_taken_up_by_the_next_caller() {
        let queue = BullQueue::open_with_lease("redis://127.0.0.1:1", Duration::from_secs(1)).unwrap();
        let broken = async { panic!("a bug in a poll of the queue") };
        queue.pollers.lock().await.each[0].poll = Some(Box::pin(broken));
        let claim = || claim(&queue.stores, &queue.pollers, "worker", STALLED_CHECK_INTERVAL);
        let claimed = AssertUnwindSafe(claim()).catch_unwind().await;
        assert!(claimed.is_err(), "the panic is the first caller's");
        // Nobody listens there: the queue has been polled anew.
        let claimed = claim().await;
        assert!(matches!(claimed, Err(QueueError::Store { .. })), "{claimed:?}");
    }

    /// Shards of a Redis that is not there.
    fn stores() -> Vec<Arc<Store>> {
        let redis = Redis::open("redis://127.0.0.1:1").unwrap();
        let store = |index| Arc::new(Store::new(&redis, Shard { index, count: 3 }, LEASE, LEASE));
        (0..3).map(store).collect()
    }

    fn waits(pollers: &Pollers) -> Vec<bool> {
        pollers.each.iter().map(|poller| poller.wait.is_some()).collect()
    }

    #[tokio::test]
    async fn a_shard_whose_marker_is_waited_for_is_polled_by_an_impatient_caller_alone() {
        let (stores, mut pollers) = (stores(), Pollers::new(3));
        for poller in &mut pollers.each {
            poller.poll = Some(Box::pin(ready(Ok(Polled::Empty(LEASE)))));
            poller.wait = Some(Box::pin(ready(Ok(()))));
        }
        pollers.each[1].wait = Some(Box::pin(pending()));
        // Without stores no wait is begun.
        pollers.wait(&[]).await.unwrap();
        assert_eq!(waits(&pollers), [false, true, false], "all that have ended are taken at once");
        let moment = STALLED_CHECK_INTERVAL / 2;
        for (is_first, patience, left) in [
            (false, LEASE, [false, true, false]),
            (true, LEASE, [false, true, false]),
            (false, moment, [false, true, false]),
            (true, moment, [false; 3]),
        ] {
            // Only a poll that was not made yet is still there afterwards.
            for poller in &mut pollers.each {
                poller.poll = Some(Box::pin(ready(Ok(Polled::Empty(LEASE)))));
            }
            assert_eq!(pollers.poll_each(&stores, "worker", patience, is_first).await, Ok(None));
            let unpolled: Vec<_> = pollers.each.iter().map(|poller| poller.poll.is_some()).collect();
            assert_eq!(unpolled, left, "{is_first} {patience:?}");
        }
    }

    #[tokio::test]
    async fn a_shard_that_fails_beside_others_is_no_failure_and_all_of_them_are_one() {
        let (stores, mut pollers) = (stores(), Pollers::new(3));
        let polled = |answer| -> BoxFuture<'static, Result<Polled, QueueError>> { Box::pin(ready(answer)) };
        let fails = || polled(Err(QueueError::Store { detail: "down".into() }));
        for (failing, is_failure) in [(1, false), (2, false), (3, true)] {
            for (index, poller) in pollers.each.iter_mut().enumerate() {
                poller.poll = Some(if index < failing { fails() } else { polled(Ok(Polled::Empty(LEASE))) });
            }
            let polled = pollers.poll_each(&stores, "worker", LEASE, true).await;
            assert_eq!(polled.is_err(), is_failure, "{failing}");
        }
        // Polled by itself, beside two that answered.
        pollers.each[1].is_failing = false;
        pollers.each[2].is_failing = false;
        for poller in &mut pollers.each[1..] {
            poller.wait = Some(Box::pin(pending()));
        }
        pollers.each[0].poll = Some(fails());
        assert_eq!(pollers.poll_each(&stores, "worker", LEASE, false).await, Ok(None));
    }

    #[test]
    fn while_no_job_is_active_a_poll_is_worth_less_often() {
        let (idle, second) = (Duration::from_secs(4), STALLED_CHECK_INTERVAL);
        let wait = |answer: &[u64]| {
            let answer = answer.iter().map(|number| Value::Int(*number as i64)).collect();
            read_leased(Value::Array(answer), idle).err().unwrap()
        };
        let due = now() + 2_500;
        assert_eq!(wait(&[0, 0, 0, 0]), second, "the answer behind the end of a job");
        assert_eq!(wait(&[0, 0, 0, 0, 1]), second);
        assert_eq!(wait(&[0, 0, 0, 0, 0]), idle);
        assert_eq!(wait(&[0, 0, 1_500, 0, 0]), Duration::from_millis(1_500), "the queue is limited");
        let delayed = wait(&[0, 0, 0, due, 0]);
        assert!(delayed > second && delayed <= Duration::from_millis(2_500), "{delayed:?}");
    }

    #[tokio::test]
    async fn a_wait_that_fails_at_once_is_not_followed_by_a_poll_at_once() {
        let (stores, mut pollers, begun) = (stores(), Pollers::new(3), Instant::now());
        pollers.wait(&stores).await.unwrap();
        assert!(begun.elapsed() >= STALLED_CHECK_INTERVAL);
    }
}
