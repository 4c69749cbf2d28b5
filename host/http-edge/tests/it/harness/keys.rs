//! Idempotency keys in memory, whose leases never end unless a test ends them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::ports::{
    IdempotencyError, IdempotencyKey, IdempotencyStore, KeyClaim, KeyResult, KeyTerms, Renewal,
};
use agent_core::testing::TokioSpawn;
use boxed_async::boxed_async;
use http_edge::Idempotency;
use tokio::sync::{Notify, RwLock, RwLockWriteGuard, watch};

/// The keys of a service, or of two that share them.
#[derive(Default)]
pub(crate) struct Keys {
    kept: Mutex<HashMap<(String, String), KeyEntry>>,
    calls: AtomicUsize,
    is_broken: AtomicBool,
    loses_answers: AtomicBool,
    loses_claim: AtomicBool,
    /// How many answers it fails to keep from now on.
    failures: AtomicUsize,
    answered: Notify,
    /// Held while claims that were carried out are not answered.
    late: RwLock<()>,
    claims: watch::Sender<usize>,
    releases: watch::Sender<usize>,
}

struct KeyEntry {
    request: String,
    id: String,
    /// Absent when nobody carries the request out.
    owner: Option<String>,
    answer: Option<Vec<u8>>,
}

impl Keys {
    /// How often the store was asked.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Every lease ends, as if its owner had died.
    pub(crate) fn end_leases(&self) {
        self.kept.lock().values_mut().for_each(|kept| kept.owner = None);
    }

    /// Another replica has every key by now.
    pub(crate) fn take_over(&self) {
        self.kept.lock().values_mut().for_each(|kept| kept.owner = Some("another replica".into()));
    }

    /// The store loses all keys, as Redis does that fails over without its last second.
    pub(crate) fn forget(&self) {
        self.kept.lock().clear();
    }

    /// From now on the store fails.
    pub(crate) fn break_down(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }

    /// The store answers again from here on.
    pub(crate) fn mend(&self) {
        self.is_broken.store(false, Ordering::Relaxed);
    }

    /// The next answer is not kept, as if its process had died before it could.
    pub(crate) fn lose_answer(&self) {
        self.loses_answers.store(true, Ordering::Relaxed);
    }

    /// The next claim is carried out, and its answer lost on the way.
    pub(crate) fn lose_claim(&self) {
        self.loses_claim.store(true, Ordering::Relaxed);
    }

    /// Answers are not kept the next few times, and whoever wants that is told so.
    pub(crate) fn fail_to_keep(&self, times: usize) {
        self.failures.store(times, Ordering::Relaxed);
    }

    /// Waits until an answer was kept.
    pub(crate) async fn answered(&self) {
        self.answered.notified().await;
    }

    /// Claims are carried out, and answered when what this returns is dropped.
    pub(crate) fn answer_claims_late(&self) -> RwLockWriteGuard<'_, ()> {
        self.late.try_write().unwrap()
    }

    /// Waits until that many claims were carried out.
    pub(crate) async fn claimed(&self, count: usize) {
        self.claims.subscribe().wait_for(|claims| *claims >= count).await.unwrap();
    }

    /// Waits until that many keys were given free.
    pub(crate) async fn released(&self, count: usize) {
        self.releases.subscribe().wait_for(|releases| *releases >= count).await.unwrap();
    }

    fn carry_out_claim(&self, key: IdempotencyKey<'_>, owner: &str) -> KeyClaim {
        let mut all = self.kept.lock();
        let kept = all.entry(name(key)).or_insert_with(|| KeyEntry {
            request: key.request.into(),
            id: owner.into(),
            owner: None,
            answer: None,
        });
        match kept {
            _ if kept.request != key.request => KeyClaim::OtherRequest,
            KeyEntry { answer: Some(answer), .. } => KeyClaim::Answered(answer.clone()),
            KeyEntry { owner: Some(_), .. } => KeyClaim::InFlight,
            kept => {
                kept.owner = Some(owner.into());
                KeyClaim::Claimed { id: kept.id.clone() }
            }
        }
    }

    fn change(&self, key: IdempotencyKey<'_>, owner: &str, change: impl FnOnce(&mut KeyEntry)) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.kept.lock();
        let held = kept.get_mut(&name(key)).filter(|kept| kept.owner.as_deref() == Some(owner));
        held.map(change).is_some()
    }
}

#[boxed_async]
impl IdempotencyStore for Keys {
    async fn claim(&self, key: IdempotencyKey<'_>, owner: &str, _terms: KeyTerms) -> KeyResult<KeyClaim> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(IdempotencyError("the store is gone".into()));
        }
        let claim = self.carry_out_claim(key, owner);
        self.claims.send_modify(|claims| *claims += 1);
        drop(self.late.read().await);
        if self.loses_claim.swap(false, Ordering::Relaxed) {
            return Err(IdempotencyError("no answer in time".into()));
        }
        Ok(claim)
    }

    async fn renew(&self, key: IdempotencyKey<'_>, owner: &str, _lease: Duration) -> KeyResult<Renewal> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(IdempotencyError("the store is gone".into()));
        }
        Ok(Renewal::of_holder(self.change(key, owner, |_kept| {})))
    }

    async fn settle(&self, key: IdempotencyKey<'_>, owner: &str, answer: &[u8]) -> KeyResult<bool> {
        if self.loses_answers.swap(false, Ordering::Relaxed) {
            return Ok(true);
        }
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.fetch_sub(1, Ordering::Relaxed);
            return Err(IdempotencyError("the store is gone".into()));
        }
        let kept = self.change(key, owner, |kept| (kept.owner, kept.answer) = (None, Some(answer.to_vec())));
        self.answered.notify_one();
        Ok(kept)
    }

    async fn release(&self, key: IdempotencyKey<'_>, owner: &str) -> KeyResult {
        self.change(key, owner, |kept| kept.owner = None);
        self.releases.send_modify(|releases| *releases += 1);
        Ok(())
    }
}

/// What a service needs to keep its keys there.
pub(crate) fn of_a_service(keys: &Arc<Keys>) -> Idempotency {
    Idempotency { store: Arc::clone(keys) as Arc<dyn IdempotencyStore>, spawn: Arc::new(TokioSpawn) }
}

fn name(key: IdempotencyKey<'_>) -> (String, String) {
    (key.caller.into(), key.key.into())
}
