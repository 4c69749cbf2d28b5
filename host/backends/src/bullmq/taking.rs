//! Taking the next job.
//!
//! A look at the queue, once begun, is driven to its end by whoever calls next: a job that Redis gave out
//! while its caller went away is not lost until its lease ends.

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

use super::ours::{attempt_of, new_token};
use super::record::{read_claim, text, to_millis};
use super::{ANSWER_TIMEOUT, Store, broken, now, store_error};

/// How often somebody looks for jobs whose lease has run out, and so the longest wait for a new one: a worker
/// that was killed has its jobs taken up again after a lease and this long.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Redis blocks for no less; 0 would be for ever.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

/// What is under way for whoever comes next.
#[derive(Default)]
pub(super) struct Turn {
    look: Option<BoxFuture<'static, Result<Look, QueueError>>>,
    wait: Option<BoxFuture<'static, Result<(), QueueError>>>,
    /// When somebody last looked for jobs whose lease has run out.
    checked: Option<Instant>,
}

/// What a look at the queue came to.
enum Look {
    Taken(Box<Claim>),
    /// There was nothing. It is worth looking again after this long, or when BullMQ sets its marker.
    Nothing(Duration),
}

/// Takes the next job. However short the patience, there is one look.
pub(super) async fn take(
    store: &Arc<Store>,
    turn: &Mutex<Turn>,
    worker: &str,
    patience: Duration,
) -> Result<Option<Claim>, QueueError> {
    let deadline = Instant::now() + patience;
    let Ok(mut turn) = timeout_at(deadline, turn.lock()).await else { return Ok(None) };
    loop {
        let wait = match turn.look(store, worker).await? {
            Look::Taken(claim) => return Ok(Some(*claim)),
            Look::Nothing(wait) => wait,
        };
        if Instant::now() >= deadline {
            return Ok(None);
        }
        let waiting = turn.wait.get_or_insert_with(|| Box::pin(wait_for_marker(Arc::clone(store), wait)));
        let Ok(waited) = timeout_at(deadline, waiting).await else { return Ok(None) };
        turn.wait = None;
        waited?;
    }
}

/// Ends what is under way. A job that is thereby found goes back to the queue.
pub(super) async fn give_up(store: &Arc<Store>, turn: &Mutex<Turn>) {
    let Ok(mut turn) = timeout(ANSWER_TIMEOUT, turn.lock()).await else { return };
    turn.wait = None;
    let Some(look) = turn.look.take() else { return };
    if let Ok(Ok(Look::Taken(claim))) = timeout(ANSWER_TIMEOUT, look).await
        && let Err(error) = store.finish(&claim, &AttemptEnd::HANDED_BACK).await
    {
        tracing::warn!(job_id = claim.job_id, error = %error, "a job comes back only when its lease has run out");
    }
}

impl Turn {
    async fn look(&mut self, store: &Arc<Store>, worker: &str) -> Result<Look, QueueError> {
        let (checked, now) = (&mut self.checked, Instant::now());
        let look = self.look.get_or_insert_with(|| {
            let check = checked.is_none_or(|checked| now >= checked + CHECK_EVERY);
            if check {
                *checked = Some(now);
            }
            Box::pin(look(Arc::clone(store), worker.to_owned(), check))
        });
        // One that panicked is not polled again by whoever is begun in its worker's place.
        let looked = AssertUnwindSafe(look).catch_unwind().await;
        self.look = None;
        looked.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

async fn look(store: Arc<Store>, worker: String, check: bool) -> Result<Look, QueueError> {
    if check {
        let number: u64 = store.run(&store.ours.give_back(None)).await?;
        if number > 0 {
            tracing::warn!(number, "jobs were left by their workers and go back to the queue");
        }
    }
    loop {
        let token = new_token(&worker);
        let leased_at = Instant::now();
        let take = store.official.take(&token, &worker, now()).map_err(broken)?;
        let (job_id, hash) = match read_taken(store.run(&take).await?) {
            Ok(taken) => taken,
            Err(wait) => return Ok(Look::Nothing(wait)),
        };
        let mut claim = read_claim(job_id, token, &hash, leased_at);
        // A claim whose next iteration cannot be added is given up: the job is taken again when its lease has run out,
        // and a schedule never ends by an outage.
        store.schedule_next(&claim.job_id, &hash).await?;
        // Without its number nothing may be written in the claim's name, so it is given up as well.
        let (epoch, wish): (u64, Option<String>) = store.run(&store.ours.claimed(&claim.job_id)).await?;
        claim.epoch = Epoch(epoch);
        store.list_for_owner(&claim).await;
        if wish == Some(attempt_of(&claim)) {
            store.finish(&claim, &AttemptEnd::Cancelled).await?;
            continue;
        }
        return Ok(Look::Taken(Box::new(claim)));
    }
}

/// The id and the hash of a job, or how long it is worth waiting for one: `[hash or 0, id or 0, how long the
/// queue takes a rest (ms), when the next delayed job is due (ms)]`.
fn read_taken(answer: Value) -> Result<(String, HashMap<String, String>), Duration> {
    let Value::Array(answer) = answer else { return Err(CHECK_EVERY) };
    let millis = |value: &Value| match value {
        Value::Int(millis) => u64::try_from(*millis).unwrap_or(0),
        _ => 0,
    };
    match &answer[..] {
        [Value::Array(hash), Value::BulkString(id), ..] => {
            let (pairs, _nothing_left) = hash.as_chunks::<2>();
            Ok((text(id), pairs.iter().filter_map(read_field).collect()))
        }
        [_, _, rest, next] => {
            let waits = [millis(rest), millis(next).saturating_sub(now())];
            let wait = waits.into_iter().filter(|wait| *wait > 0).map(Duration::from_millis).min();
            // A job that became due just now is there at the next look.
            let due = millis(next) > 0 && waits[1] == 0;
            Err(if due { SHORTEST_WAIT } else { wait.unwrap_or(CHECK_EVERY).min(CHECK_EVERY) })
        }
        _ => Err(CHECK_EVERY),
    }
}

fn read_field([name, value]: &[Value; 2]) -> Option<(String, String)> {
    match (name, value) {
        (Value::BulkString(name), Value::BulkString(value)) => Some((text(name), text(value))),
        _ => None,
    }
}

/// Waits until BullMQ's marker says that there is something to be taken, or that long.
async fn wait_for_marker(store: Arc<Store>, longest: Duration) -> Result<(), QueueError> {
    let longest = longest.max(SHORTEST_WAIT);
    let mut wait = redis::cmd("BZPOPMIN");
    wait.arg(store.keys.marker()).arg(longest.as_secs_f64());
    let wait = &wait;
    let waited = store
        .waiting
        .ask_and_wait(longest, |mut redis| async move { wait.query_async(&mut redis).await })
        .await;
    let _marker: Value = waited.map_err(store_error)?;
    Ok(())
}

impl Store {
    /// Lists a job that was just claimed for its owner: Node may have added it. The job is held whatever Redis says.
    async fn list_for_owner(&self, claim: &Claim) {
        if let Ok(data) = &claim.data {
            let created = to_millis(claim.created_at);
            if let Err(error) = self.list_for(&data.user_id, &claim.job_id, created).await {
                tracing::debug!(job_id = claim.job_id, error = %error, "a job is missing in its owner's list");
            }
        }
    }
}
