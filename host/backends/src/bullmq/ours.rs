//! Our own scripts and keys, for what BullMQ has no word for: cancelling, whose a job is, a worker that is
//! known to be dead.

use std::time::Duration;

use agent_core::ports::Claim;
use agent_core::ports::queue::{QUEUE, address_of, stalled_after};
use bullmq::QueueKeys;
use redis::{Script, ScriptInvocation};

use super::official::{KEPT_FOR, millis};
use super::record::{CLAIMS, FIELDS, to_millis};

/// The scripts, and the keys they are given.
pub(super) struct Ours {
    keys: QueueKeys,
    lease: Duration,
    cancel: Script,
    claimed: Script,
    depth: Script,
    give_back: Script,
    read: Script,
    renew: Script,
}

/// What a lock of a job holds: whose it is, and something that no other taking has.
pub(super) fn new_token(worker: &str) -> String {
    format!("{worker}:{}", uuid::Uuid::now_v7().simple())
}

/// A user's jobs.
pub(super) fn user_key(user_id: &str) -> String {
    format!("agent-host:{QUEUE}:user:{user_id}")
}

/// The wish to cancel an active job.
pub(super) fn wish_key(job_id: &str) -> String {
    format!("agent-host:{QUEUE}:wish:{job_id}")
}

/// How long a wish is kept: much longer than it takes to take up a job whose worker died before it heard of it.
const WISH_KEPT_FOR: Duration = Duration::from_secs(60 * 60);

/// The attempt that a wish is about, as `cancel.lua` and `renew.lua` write it: when the job was added, and how many
/// attempts had ended. Another job of the same id is not meant, nor is one that somebody retries later.
pub(super) fn attempt_of(claim: &Claim) -> String {
    format!("{}:{}", to_millis(claim.created_at), claim.attempts_made)
}

/// What was known of a job that is cancelled.
fn cancelled_key(job_id: &str) -> String {
    format!("agent-host:{QUEUE}:cancelled:{job_id}")
}

impl Ours {
    pub(super) fn new(keys: QueueKeys, lease: Duration) -> Self {
        Self {
            keys,
            lease,
            cancel: Script::new(include_str!("scripts/cancel.lua")),
            claimed: Script::new(include_str!("scripts/claimed.lua")),
            depth: Script::new(include_str!("scripts/depth.lua")),
            give_back: Script::new(include_str!("scripts/give_back.lua")),
            read: Script::new(include_str!("scripts/read.lua")),
            renew: Script::new(include_str!("scripts/renew.lua")),
        }
    }

    /// Reads jobs. Answers a record or nothing for each.
    pub(super) fn read(&self, job_ids: &[&str]) -> ScriptInvocation<'_> {
        let mut read = self.read.prepare_invoke();
        self.add_places(&mut read);
        read.arg(self.keys.key_prefix()).arg(cancelled_key("")).arg(job_ids.len()).arg(job_ids).arg(&FIELDS);
        read
    }

    /// Cancels a job: for its owner, or for the worker who has stopped working on it.
    pub(super) fn cancel(&self, job_id: &str, worker: Option<&Claim>, now: u64) -> ScriptInvocation<'_> {
        let mut cancel = self.cancel.prepare_invoke();
        self.add_places(&mut cancel);
        cancel.key(self.keys.stalled()).key(self.keys.job_key(job_id)).key(self.lock_key(job_id));
        cancel.key(cancelled_key(job_id)).key(wish_key(job_id));
        let token = worker.map_or("", |claim| &claim.token);
        cancel.arg(job_id).arg(token).arg(now).arg(KEPT_FOR.as_secs()).arg(WISH_KEPT_FOR.as_secs());
        cancel.arg(&FIELDS);
        cancel
    }

    /// Numbers the claim of a job that was just taken. Answers that number, and the attempt that is not wanted any more.
    pub(super) fn claimed(&self, job_id: &str) -> ScriptInvocation<'_> {
        let mut claimed = self.claimed.prepare_invoke();
        claimed.key(self.keys.job_key(job_id)).key(wish_key(job_id)).arg(CLAIMS);
        claimed
    }

    /// Puts the jobs of a worker's dead predecessors back to the queue, or all whose lease has run out. Answers
    /// their number.
    pub(super) fn give_back(&self, worker: Option<&str>) -> ScriptInvocation<'_> {
        let keys = &self.keys;
        let mut give_back = self.give_back.prepare_invoke();
        for key in [keys.active(), keys.wait(), keys.prioritized(), keys.stalled(), keys.meta()] {
            give_back.key(key);
        }
        give_back.key(keys.marker()).key(keys.events());
        let worker = worker.unwrap_or_default();
        give_back.arg(keys.key_prefix()).arg(worker).arg(address_of(worker));
        give_back.arg(millis(self.lease - stalled_after(self.lease)));
        give_back
    }

    /// Renews a lease. Answers 0 when it is lost, 1 when it is held, 2 when the job is not wanted any more.
    pub(super) fn renew(&self, claim: &Claim) -> ScriptInvocation<'_> {
        let mut renew = self.renew.prepare_invoke();
        renew.key(self.lock_key(&claim.job_id)).key(self.keys.active()).key(self.keys.stalled());
        renew.key(wish_key(&claim.job_id)).key(self.keys.job_key(&claim.job_id));
        renew.arg(&claim.token).arg(millis(self.lease)).arg(&claim.job_id);
        renew
    }

    /// Counts jobs: waiting, active, delayed, and since when the next one waits.
    pub(super) fn depth(&self) -> ScriptInvocation<'_> {
        let keys = &self.keys;
        let mut depth = self.depth.prepare_invoke();
        for key in [keys.wait(), keys.paused(), keys.prioritized(), keys.active(), keys.delayed()] {
            depth.key(key);
        }
        depth.arg(keys.key_prefix());
        depth
    }

    /// Everywhere a job can stand.
    fn add_places(&self, script: &mut ScriptInvocation<'_>) {
        let keys = &self.keys;
        for key in [keys.completed(), keys.failed(), keys.delayed(), keys.prioritized()] {
            script.key(key);
        }
        for key in [keys.active(), keys.wait(), keys.paused(), keys.waiting_children()] {
            script.key(key);
        }
    }

    fn lock_key(&self, job_id: &str) -> String {
        format!("{}:lock", self.keys.job_key(job_id))
    }
}
