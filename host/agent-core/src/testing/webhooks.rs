//! The outbox of webhooks, in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use boxed_async::boxed_async;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::clock::store_clock;
use crate::ports::lease::Lease;
use crate::ports::webhooks::{ClaimBounds, NewWebhook};
use crate::ports::{WebhookError, WebhookOutbox, WebhookResult};
use crate::words::{Webhook, WebhookState};

/// Webhooks by the ids of their jobs: passes the contract suite of the real outboxes
/// (`backends/tests/it/memory.rs`), and simulations stand on it (`host/sim`).
#[derive(Debug, Default)]
pub struct TestOutbox {
    kept: Mutex<BTreeMap<String, OutboxEntry>>,
    fails: AtomicBool,
    /// One write at a time, in the order in which they were asked for, as SQLite has it.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct OutboxEntry {
    webhook: Webhook,
    /// Absent when nothing is to be sent any more.
    due: Option<Instant>,
    lease: Lease,
}

impl TestOutbox {
    /// From now on it fails, or works again.
    pub fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }

    fn check(&self) -> WebhookResult {
        if self.fails.load(Ordering::Relaxed) { Err(WebhookError("it is down".into())) } else { Ok(()) }
    }

    /// Changes a webhook, as if it had been put in so.
    pub fn change(&self, job_id: &str, change: impl FnOnce(&mut Webhook)) {
        if let Some(kept) = self.kept.lock().get_mut(job_id) {
            change(&mut kept.webhook);
        }
    }

    /// All that were put in.
    pub fn all(&self) -> Vec<Webhook> {
        self.kept.lock().values().map(|kept| kept.webhook.clone()).collect()
    }
}

#[boxed_async]
impl WebhookOutbox for TestOutbox {
    async fn put(&self, webhook: &NewWebhook<'_>) -> WebhookResult {
        self.check()?;
        let mut all = self.kept.lock();
        if let Some(kept) = all.get_mut(webhook.job_id) {
            let Webhook { state, tries, created_at, .. } = &mut kept.webhook;
            if *tries == 0 && matches!(state, WebhookState::Waiting | WebhookState::Failed) {
                (*state, *created_at) = (WebhookState::Waiting, store_clock());
                (kept.due, kept.lease) = (Some(Instant::now()), Lease::default());
            }
            return Ok(());
        }
        let put = OutboxEntry {
            webhook: Webhook {
                job_id: webhook.job_id.to_owned(),
                user_id: webhook.user_id.to_owned(),
                url: webhook.url.to_owned(),
                traceparent: None,
                state: WebhookState::Waiting,
                tries: 0,
                created_at: store_clock(),
                attempts: Vec::new(),
            },
            due: Some(Instant::now()),
            lease: Lease::default(),
        };
        all.insert(webhook.job_id.to_owned(), put);
        Ok(())
    }

    async fn claim(&self, owner: &str, lease: Duration, bounds: ClaimBounds) -> WebhookResult<Vec<Webhook>> {
        let _turn = self.turn.lock().await;
        self.check()?;
        let (mut all, now) = (self.kept.lock(), Instant::now());
        let mut of_users = BTreeMap::<String, u32>::new();
        for kept in all.values().filter(|kept| kept.lease.is_held(now)) {
            *of_users.entry(kept.webhook.user_id.clone()).or_default() += 1;
        }
        let free =
            |kept: &&mut OutboxEntry| !kept.lease.is_held(now) && kept.due.is_some_and(|due| due <= now);
        let mut due: Vec<_> = all.values_mut().filter(free).collect();
        due.sort_by(|one, other| (one.due, &one.webhook.job_id).cmp(&(other.due, &other.webhook.job_id)));
        let mut claimed = Vec::new();
        for kept in due {
            let of_user = of_users.entry(kept.webhook.user_id.clone()).or_default();
            if claimed.len() < bounds.most as usize && *of_user < bounds.of_a_user {
                *of_user += 1;
                kept.lease = Lease::default();
                kept.lease.claim(owner, lease, now);
                claimed.push(kept.webhook.clone());
            }
        }
        Ok(claimed)
    }

    async fn settle(&self, owner: &str, webhook: &Webhook, next: Option<Duration>) -> WebhookResult<bool> {
        let _turn = self.turn.lock().await;
        self.check()?;
        let mut all = self.kept.lock();
        let Some(kept) = all.get_mut(&webhook.job_id).filter(|kept| kept.lease.is_held_by(owner)) else {
            return Ok(false);
        };
        kept.lease.end(owner);
        kept.due = next.map(|next| Instant::now() + next);
        kept.webhook = webhook.clone();
        Ok(true)
    }

    async fn read(&self, job_id: &str) -> WebhookResult<Option<Webhook>> {
        self.check()?;
        Ok(self.kept.lock().get(job_id).map(|kept| kept.webhook.clone()))
    }

    async fn replay(&self, job_id: &str) -> WebhookResult<bool> {
        let mut all = self.kept.lock();
        let ended = |kept: &&mut OutboxEntry| {
            matches!(kept.webhook.state, WebhookState::Delivered | WebhookState::Failed)
        };
        let Some(kept) = all.get_mut(job_id).filter(ended) else { return Ok(false) };
        (kept.webhook.state, kept.webhook.tries) = (WebhookState::Pending, 0);
        kept.due = Some(Instant::now());
        Ok(true)
    }

    async fn rearm(&self, job_id: &str, not_before: SystemTime) -> WebhookResult<bool> {
        let _turn = self.turn.lock().await;
        self.check()?;
        let mut all = self.kept.lock();
        let Some(kept) = all.get_mut(job_id) else { return Ok(false) };
        (kept.webhook.state, kept.webhook.tries) = (WebhookState::Waiting, 0);
        kept.webhook.created_at = store_clock().max(not_before);
        (kept.due, kept.lease) = (Some(Instant::now()), Lease::default());
        Ok(true)
    }
}
