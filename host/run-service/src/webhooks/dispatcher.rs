//! Delivers webhooks: claims those that are due, reads how their jobs ended, sends that, and notes what
//! became of it.
//!
//! One task does all of it, [`AT_ONCE`] deliveries at a time and [`OF_A_USER`] of one user, so that a user
//! whose receivers hang delays nobody else. However many do so, a user who has none under way is next when
//! one of theirs has ended. A process that dies leaves its claims to the others when their lease ends.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::ports::webhooks::{ClaimBounds, MOST_LOGGED, WebhookMessage, WebhookReply};
use agent_core::ports::{WebhookOutbox, WebhookSender};
use agent_core::trace::InTrace as _;
use agent_core::words::{Job, JobStatus, Webhook, WebhookAttempt, WebhookState, short_run};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, warn};

use super::{schedule, spans};
use crate::clock;
use crate::held_lease::new_owner;
use crate::jobs::{CLOCKS_APART, Jobs};
use crate::outage::Outage;
use crate::waits::{JobWait, Waits};

/// Most deliveries of a process at once.
const AT_ONCE: usize = 16;

/// Most deliveries of one user at once, in all processes together.
const OF_A_USER: u32 = 4;

/// How long deliveries under way may take when the service stops. Those that take longer are made again.
const GRACE: Duration = Duration::from_secs(2);

/// How long a claim lasts: longer than any delivery.
const LEASE: Duration = Duration::from_secs(60);

/// How often the outbox is asked when nothing was due.
const POLL: Duration = Duration::from_secs(1);

/// How long to wait after the outbox or the queue failed.
const PAUSE: Duration = Duration::from_secs(5);

/// How long after its submission a job that the queue does not know counts as never added.
const NEVER_ADDED: Duration = Duration::from_mins(10);

/// How long after a webhook was armed for a retry its job may still have the failure of before: longer than a
/// statement takes to arrive at the queue whose sender has died.
const PUT_BACK_WITHIN: Duration = Duration::from_mins(2);

/// The message about the end of a job, or about what its run waits for, as JSON: type, timestamp, data.
pub type RenderJob = fn(&Job, &[JobWait]) -> String;

/// The dependencies of a dispatcher.
pub struct DispatcherContext {
    /// Where webhooks are.
    pub outbox: Arc<dyn WebhookOutbox>,
    /// Say how they ended, also when the queue has forgotten them.
    pub jobs: Jobs,
    /// Knows what parked jobs wait for.
    pub waits: Waits,
    /// Sends messages.
    pub sender: Arc<dyn WebhookSender>,
    /// Writes messages.
    pub render: RenderJob,
}

/// Delivers webhooks.
pub struct Dispatcher {
    context: DispatcherContext,
    outage: Outage,
}

/// The owner of a claim, and a webhook that was claimed.
type Claimed = (String, Webhook);

/// What is to be written about a webhook, and when it is due again.
struct Settled {
    webhook: Webhook,
    next: Option<Duration>,
}

impl Dispatcher {
    /// A dispatcher that delivers nothing unless [`Self::run`] runs.
    pub fn new(context: DispatcherContext) -> Self {
        Self { context, outage: Outage::default() }
    }

    /// Delivers until `stopping` is cancelled, and then what is under way for `GRACE`. Dropped, it leaves
    /// what it has claimed to the lease.
    pub async fn run(&self, stopping: CancellationToken) {
        let mut deliveries = FuturesUnordered::new();
        let (mut next_claim, mut may_be_more) = (Instant::now(), false);
        while !stopping.is_cancelled() {
            if deliveries.len() < AT_ONCE && Instant::now() >= next_claim {
                let room = u32::try_from(AT_ONCE - deliveries.len()).unwrap_or(1);
                let is_idle = deliveries.is_empty();
                let claimed = beside(&mut deliveries, self.claim(room, is_idle)).await;
                // More may be due, of users who have as many deliveries under way as they may, or of anybody.
                may_be_more = claimed.as_ref().is_some_and(|due| !due.is_empty());
                next_claim = Instant::now()
                    + claimed
                        .as_ref()
                        .map_or(PAUSE, |due| if due.len() == room as usize { Duration::ZERO } else { POLL });
                for (owner, webhook) in claimed.unwrap_or_default() {
                    deliveries.push(self.attend(owner, webhook));
                }
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                Some(()) = deliveries.next() => {
                    if may_be_more {
                        next_claim = next_claim.min(Instant::now());
                    }
                }
                () = tokio::time::sleep_until(next_claim), if deliveries.len() < AT_ONCE => {}
            }
        }
        let last = async { while deliveries.next().await.is_some() {} };
        if timeout(GRACE, last).await.is_err() {
            warn!("webhooks are delivered again by another process: their receivers are slow");
        }
    }

    /// Beside others, one of each user who has none under way comes first: users whose receivers hang, and
    /// who have more due than is ever sent, would else be given each place that becomes free.
    async fn claim(&self, most: u32, is_idle: bool) -> Option<Vec<Claimed>> {
        let of_a_user = if is_idle { OF_A_USER } else { 1 };
        let mut due = self.claim_within(ClaimBounds { most, of_a_user }).await?;
        let left = most.saturating_sub(u32::try_from(due.len()).unwrap_or(most));
        if left > 0 && !is_idle {
            let bounds = ClaimBounds { most: left, of_a_user: OF_A_USER };
            due.extend(self.claim_within(bounds).await.unwrap_or_default());
        }
        Some(due)
    }

    async fn claim_within(&self, bounds: ClaimBounds) -> Option<Vec<Claimed>> {
        // Of each claim: of a job that was retried meanwhile, one process may have two deliveries.
        let owner = new_owner();
        match self.context.outbox.claim(&owner, LEASE, bounds).await {
            Ok(due) => {
                if let Some(lasted) = self.outage.ends() {
                    tracing::info!(outage_ms = lasted.as_millis(), "webhooks are delivered again");
                }
                Some(due.into_iter().map(|webhook| (owner.clone(), webhook)).collect())
            }
            Err(error) => {
                if self.outage.begins() {
                    warn!(%error, "webhooks are not delivered until their outbox works again");
                }
                None
            }
        }
    }

    /// Does what is due for one webhook.
    async fn attend(&self, owner: String, webhook: Webhook) {
        let job_id = webhook.job_id.clone();
        let Settled { webhook, next } = self.proceed(webhook).await;
        for _ in 0..3 {
            match self.context.outbox.settle(&owner, &webhook, next).await {
                Ok(true) => return,
                Ok(false) => {
                    warn!(
                        job_id,
                        "a webhook's lease ended before its delivery did, or its job was retried: it may be delivered twice"
                    );
                    return;
                }
                Err(error) => {
                    warn!(job_id, %error, "what became of a webhook could not be noted: it may be delivered twice");
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    async fn proceed(&self, webhook: Webhook) -> Settled {
        let jobs = &self.context.jobs;
        let found = jobs.read(&webhook.user_id, &webhook.job_id, Duration::ZERO).await;
        // For how long a job may still be added, or put back, goes by the queue's clock: one of this process
        // that is wrong by hours would have an end told to nobody.
        let is_to_come = match &found {
            Ok(Some(job)) => is_to_be_put_back(&webhook, job),
            Ok(None) => true,
            Err(_error) => false,
        };
        let now = if is_to_come { jobs.now().await } else { Ok(clock::now()) };
        let Ok(now) = now else { return Settled { webhook, next: Some(PAUSE) } };
        let age = now.duration_since(webhook.created_at).unwrap_or_default();
        match found {
            Err(_error) => Settled { webhook, next: Some(PAUSE) },
            Ok(Some(job)) if is_to_be_put_back(&webhook, &job) && age < PUT_BACK_WITHIN => {
                Settled { webhook, next: Some(schedule::poll(age)) }
            }
            Ok(Some(job)) if job.status.has_ended() => self.deliver(webhook, &job).await,
            Ok(Some(job)) if job.status == JobStatus::Parked => self.tell_waits(webhook, &job, age).await,
            Ok(None) if age >= NEVER_ADDED || webhook.state == WebhookState::Pending => {
                let mut webhook = Webhook { state: WebhookState::Failed, ..webhook };
                log(
                    &mut webhook,
                    clock::now(),
                    Duration::ZERO,
                    Err("neither the queue nor the records have the job".into()),
                );
                Settled { webhook, next: None }
            }
            Ok(_) => Settled { webhook, next: Some(schedule::poll(age)) },
        }
    }

    /// Tells what a job waits for and its child runs, once for each wait that is undecided when it is the
    /// newest: of a parent that waits for its children also each that these begin.
    async fn tell_waits(&self, mut webhook: Webhook, job: &Job, age: Duration) -> Settled {
        // The job may end meanwhile.
        let look_again = schedule::poll_parked(age);
        let Ok(family) = self.context.waits.of_family(job).await else {
            return Settled { webhook, next: Some(PAUSE) };
        };
        let open = family.waits;
        let Some(newest) = newest_of(&open).map(|wait| wait.id.clone()) else {
            return Settled { webhook, next: Some(look_again) };
        };
        let wanted = next_telling(&webhook, &newest);
        if wanted != Some(Duration::ZERO) {
            return Settled { webhook, next: Some(sooner(look_again, wanted)) };
        }
        let body = (self.context.render)(job, &open);
        let message = WebhookMessage { id: format!("msg_{newest}"), body };
        self.send(&mut webhook, &message, Some(newest.clone())).await;
        let next = sooner(look_again, next_telling(&webhook, &newest));
        Settled { webhook, next: Some(next) }
    }

    /// Sends a message and notes what came of it. Says that, and when the receiver wants to be asked again.
    async fn send(
        &self,
        webhook: &mut Webhook,
        message: &WebhookMessage,
        wait: Option<String>,
    ) -> (WebhookState, Option<Duration>) {
        let (at, began) = (clock::now(), Instant::now());
        let (around, span) = spans::deliver(webhook);
        let sending = self.context.sender.send(&webhook.user_id, &webhook.url, message);
        let reply = sending.in_trace(span.inner()).instrument(around).await;
        spans::delivered(&span, &reply);
        let (state, retry_after) = (reply.state(), reply.retry_after);
        log(webhook, at, began.elapsed(), reply.outcome);
        if let Some(last) = webhook.attempts.last_mut() {
            last.wait = wait;
        }
        (state, retry_after)
    }

    async fn deliver(&self, mut webhook: Webhook, job: &Job) -> Settled {
        // Read behind the job: when that was retried since the webhook was claimed, its end may be another
        // one, which has another id.
        let kept = self.context.outbox.read(&webhook.job_id).await;
        if !kept.is_ok_and(|kept| kept.is_some_and(|kept| kept.created_at == webhook.created_at)) {
            return Settled { webhook, next: Some(PAUSE) };
        }
        let message = WebhookMessage { id: end_id(&webhook, job), body: (self.context.render)(job, &[]) };
        let (state, retry_after) = self.send(&mut webhook, &message, None).await;
        let next = match state {
            WebhookState::Delivered | WebhookState::Failed => None,
            WebhookState::Waiting | WebhookState::Pending => {
                schedule::retry(webhook.tries, retry_after, spread(&webhook))
            }
        };
        webhook.tries = webhook.tries.saturating_add(1);
        webhook.state = match next {
            None if state == WebhookState::Pending => {
                warn!(job_id = webhook.job_id, tries = webhook.tries, "a webhook is given up");
                WebhookState::Failed
            }
            _ => state,
        };
        Settled { webhook, next }
    }
}

/// The wait that began last, of those of a run before those of its children. What a child waits for came
/// behind the wait for that child, whatever the clocks of their replicas say.
fn newest_of(open: &[JobWait]) -> Option<&JobWait> {
    let (mut waited_for, mut newest) = (HashMap::<&str, u64>::new(), None::<(u64, &JobWait)>);
    for wait in open {
        let of_parent = waited_for.get(wait.job_id.as_str()).copied().unwrap_or_default();
        let began = wait.open.wait.began_at.max(of_parent);
        if let Some(child) = &wait.open.wait.child {
            waited_for.insert(child.job_id.as_str(), began);
        }
        if newest.is_none_or(|(last, _)| began >= last) {
            newest = Some((began, wait));
        }
    }
    newest.map(|(_, wait)| wait)
}

/// In how long the receiver is to be told of that wait; zero when that is due. None when the receiver has
/// confirmed it or is gone, or was told as often as of an end: then it is left alone until that.
///
/// The job is looked at more often than a receiver is asked again. So this goes by the time of the last
/// attempt, and not by when the webhook is due.
fn next_telling(webhook: &Webhook, wait: &str) -> Option<Duration> {
    let is_told = |attempt: &&WebhookAttempt| attempt.wait.as_deref() == Some(wait);
    let told: Vec<_> = webhook.attempts.iter().filter(is_told).collect();
    let Some(last) = told.last() else { return Some(Duration::ZERO) };
    let state = |status: u16| WebhookReply { outcome: Ok(status), retry_after: None }.state();
    if told.iter().filter_map(|attempt| attempt.status).any(|status| state(status) != WebhookState::Pending) {
        return None;
    }
    let before = u32::try_from(told.len() - 1).unwrap_or(u32::MAX);
    let pause = schedule::retry(before, None, spread(webhook))?;
    let ended = UNIX_EPOCH + Duration::from_millis(last.at.saturating_add(last.duration_ms));
    Some((ended + pause).duration_since(clock::now()).unwrap_or_default())
}

fn sooner(look_again: Duration, telling: Option<Duration>) -> Duration {
    telling.map_or(look_again, |telling| telling.min(look_again))
}

/// Whether the webhook was armed for a retry that the queue has not carried out yet.
fn is_to_be_put_back(webhook: &Webhook, job: &Job) -> bool {
    let failed_before = job.finished_at.is_some_and(|failed| failed < webhook.created_at);
    job.status == JobStatus::Failed && failed_before && is_armed(webhook, job)
}

/// Whether the webhook was put in again since the job was added: it is put in before the job, and again when
/// the job is retried.
fn is_armed(webhook: &Webhook, job: &Job) -> bool {
    webhook.created_at > job.created_at + CLOCKS_APART
}

/// The id of the message that a job has ended. The end of a retried job's new run is another message, which
/// no receiver takes for a repetition.
fn end_id(webhook: &Webhook, job: &Job) -> String {
    let run = if is_armed(webhook, job) { format!("_{}", short_run(&job.run_id)) } else { String::new() };
    format!("msg_{}{run}", webhook.job_id)
}

/// Waits for `work` while the deliveries go on. A delivery that is not polled may hold what the work waits
/// for, such as the one connection that writes to SQLite, which it was given when its turn came: both would
/// wait until their time is over, and everybody else who writes with them.
async fn beside<T>(
    deliveries: &mut FuturesUnordered<impl Future<Output = ()>>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            Some(()) = deliveries.next() => {}
        }
    }
}

fn log(webhook: &mut Webhook, at: SystemTime, took: Duration, outcome: Result<u16, String>) {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (status, error) = match outcome {
        Ok(status) => (Some(status), None),
        Err(error) => (None, Some(error)),
    };
    let at = ms(at.duration_since(UNIX_EPOCH).unwrap_or_default());
    webhook.attempts.push(WebhookAttempt { at, duration_ms: ms(took), status, error, wait: None });
    let excess = webhook.attempts.len().saturating_sub(MOST_LOGGED);
    webhook.attempts.drain(..excess);
}

/// Different for different webhooks, 0 to 1.
fn spread(webhook: &Webhook) -> f64 {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((&webhook.job_id, webhook.tries));
    (hash % 1000) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_to_be_put_back_only_behind_a_webhook_that_was_armed_for_a_retry() {
        let at = |millis: u64| UNIX_EPOCH + Duration::from_millis(10_000 + millis);
        for (failed, armed, status, expected) in [
            // The clocks of the queue and the outbox differ by up to a second.
            (10, 11, JobStatus::Failed, false),
            (10, 1_000, JobStatus::Failed, false),
            (10, 2_000, JobStatus::Failed, true),
            (10, 2_000, JobStatus::Completed, false),
            (2_001, 2_000, JobStatus::Failed, false),
        ] {
            let job = Job {
                created_at: at(0),
                finished_at: Some(at(failed)),
                ..agent_core::testing::job("1", status)
            };
            let webhook = Webhook {
                job_id: job.id.clone(),
                user_id: job.user_id.clone(),
                url: String::new(),
                traceparent: None,
                state: WebhookState::Waiting,
                tries: 0,
                created_at: at(armed),
                attempts: Vec::new(),
            };
            assert_eq!(is_to_be_put_back(&webhook, &job), expected, "{failed} {armed} {status:?}");
        }
    }
}
