//! Our own scripts and keys, for what BullMQ has no command for: cancelling, whose a job is, leases that are
//! renewed after they expired, and stalled jobs that are reclaimed within seconds.

use std::time::{Duration, SystemTime};

use agent_core::ports::Claim;
use agent_core::ports::queue::{address_of, stalled_after};
use agent_core::words::WaitKind;
use bullmq::QueueKeys;
use redis::{Script, ScriptInvocation};

use super::job_hash::{CANCELLED, FIELDS, PARKED};
use super::lua;
use super::official_scripts::Packed;
use super::own_keys::OwnKeys;
use super::time::{millis, to_millis};

/// The scripts, and the keys they are given.
pub(super) struct OwnScripts {
    keys: QueueKeys,
    own: OwnKeys,
    lease: Duration,
    /// For how long it is known of a job that it was cancelled or is to be.
    kept_for: Duration,
    cancel: Script,
    depth: Script,
    read: Script,
    reclaim_stalled: Script,
    renew: Script,
    resume: Script,
}

/// How many parked jobs of a kind are looked at to find one that still is, and so how many are forgotten at
/// once that are not.
const MOST_CHECKED: usize = 100;

/// What a lock of a job holds: whose it is, and something that no other claim has.
pub(super) fn new_token(worker: &str) -> String {
    format!("{worker}:{}", uuid::Uuid::now_v7().simple())
}

impl OwnScripts {
    pub(super) fn new(keys: QueueKeys, own: OwnKeys, lease: Duration, kept_for: Duration) -> Self {
        Self {
            keys,
            own,
            lease,
            kept_for,
            cancel: Script::new(include_str!("scripts/cancel.lua")),
            depth: Script::new(include_str!("scripts/depth.lua")),
            read: Script::new(include_str!("scripts/read.lua")),
            reclaim_stalled: Script::new(include_str!("scripts/reclaim_stalled.lua")),
            renew: lua::renew(),
            resume: lua::resume(),
        }
    }

    /// Reads these fields of jobs. Answers a record or nothing for each.
    pub(super) fn read(&self, job_ids: &[&str], fields: &[&str]) -> ScriptInvocation<'_> {
        let keys = &self.keys;
        let mut read = self.read.prepare_invoke();
        read.key(&[keys.completed(), keys.failed(), keys.delayed(), keys.prioritized()]);
        read.arg(keys.key_prefix()).arg(self.own.cancelled("")).arg(CANCELLED);
        read.arg(job_ids.len()).arg(job_ids).arg(fields);
        read
    }

    /// Cancels a job: for its owner, or for the worker who has stopped working on it.
    pub(super) fn cancel(&self, job_id: &str, worker: Option<&Claim>, now: u64) -> ScriptInvocation<'_> {
        let mut cancel = self.cancel.prepare_invoke();
        let keys = &self.keys;
        cancel.key(&[keys.completed(), keys.failed(), keys.delayed(), keys.prioritized()]);
        cancel.key(&[keys.active(), keys.wait(), keys.paused(), keys.waiting_children()]);
        cancel.key(keys.stalled()).key(self.keys.job_key(job_id)).key(self.lock_key(job_id));
        cancel.key(self.own.cancelled(job_id)).key(self.own.cancel_request(job_id));
        let token = worker.map_or("", |claim| &claim.token);
        cancel.arg(job_id).arg(token).arg(now).arg(self.kept_for.as_secs());
        cancel.arg(CANCELLED).arg(PARKED).arg(self.own.prefix()).arg(&FIELDS);
        cancel
    }

    /// Puts jobs of a worker's dead predecessors back to the queue: of so many active jobs, counted from the
    /// oldest, or of all the youngest that one script looks at. Answers how many were put back, and how many
    /// older ones are still to be looked at. Jobs whose lease has expired are put back by whoever claims.
    pub(super) fn reclaim_stalled(
        &self,
        worker: &str,
        began: SystemTime,
        up_to: Option<u64>,
    ) -> ScriptInvocation<'_> {
        let keys = &self.keys;
        let mut reclaim_stalled = self.reclaim_stalled.prepare_invoke();
        reclaim_stalled.key(&[keys.active(), keys.wait(), keys.prioritized(), keys.stalled(), keys.meta()]);
        reclaim_stalled.key(keys.marker()).key(keys.events());
        reclaim_stalled.arg(keys.key_prefix()).arg(worker).arg(address_of(worker));
        reclaim_stalled.arg(millis(self.lease - stalled_after(self.lease)));
        reclaim_stalled
            .arg(up_to.map_or_else(String::new, |up_to| up_to.to_string()))
            .arg(lua::MOST_LOOKED_AT)
            .arg(to_millis(began + self.lease));
        reclaim_stalled
    }

    /// Renews leases: of each, the job's id and the token. Answers for each 0 when it is lost, 1 when it is
    /// held, 2 when the job is to be cancelled.
    pub(super) fn renew(&self, leases: &[(String, String)]) -> Packed<ScriptInvocation<'_>> {
        let ids: Vec<&str> = leases.iter().map(|(id, _)| &**id).collect();
        let tokens: Vec<&str> = leases.iter().map(|(_, token)| &**token).collect();
        let mut renew = self.renew.prepare_invoke();
        renew.key(self.keys.stalled()).key(self.keys.active());
        renew.arg(self.keys.key_prefix()).arg(rmp_serde::to_vec(&tokens)?).arg(rmp_serde::to_vec(&ids)?);
        renew.arg(millis(self.lease)).arg(self.own.prefix());
        Ok(renew)
    }

    /// Has a parked job claimed within a time. Answers 1, or 0 when it is not parked.
    pub(super) fn resume(&self, job_id: &str, within: Duration, now: u64) -> ScriptInvocation<'_> {
        let keys = &self.keys;
        let mut resume = self.resume.prepare_invoke();
        resume.key(&[keys.delayed(), keys.wait(), keys.paused(), keys.meta(), keys.prioritized()]);
        resume.key(keys.active()).key(keys.pc()).key(keys.events()).key(keys.marker());
        resume.key(keys.job_key(job_id));
        resume.arg(keys.key_prefix()).arg(job_id).arg(millis(within)).arg(now).arg(PARKED);
        resume.arg(self.own.prefix());
        resume
    }

    /// Counts jobs: waiting, active, delayed, since when the next one waits, and those that are parked by
    /// what they wait for.
    pub(super) fn depth(&self) -> ScriptInvocation<'_> {
        let keys = &self.keys;
        let mut depth = self.depth.prepare_invoke();
        depth.key(&[keys.wait(), keys.paused(), keys.prioritized(), keys.active(), keys.delayed()]);
        depth.arg(keys.key_prefix()).arg(self.own.prefix()).arg(PARKED).arg(MOST_CHECKED);
        depth.arg(&WaitKind::ALL.map(WaitKind::as_str));
        depth
    }

    fn lock_key(&self, job_id: &str) -> String {
        format!("{}:lock", self.keys.job_key(job_id))
    }
}
