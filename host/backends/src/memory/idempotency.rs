//! Idempotency keys of this process, for a service without any store: a restart forgets them, and another
//! replica does not know them.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use agent_core::ports::lease::Lease;
use agent_core::ports::{
    IdempotencyKey, IdempotencyStore, KeyBounds, KeyClaim, KeyResult, KeyTerms, Renewal,
};
use boxed_async::boxed_async;
use tokio::time::Instant;

/// Keeps keys in memory.
#[derive(Debug)]
pub struct MemoryIdempotency {
    /// Of each caller.
    bounds: KeyBounds,
    /// Of all callers together.
    total: KeyBounds,
    /// Held for a few instructions, never across an await.
    kept: Mutex<Keys>,
}

/// Caller and key.
type Name = (String, String);

#[derive(Debug, Default, Clone)]
struct Keys {
    entries: HashMap<Name, Entry>,
    /// Names of the entries by age, the oldest first.
    by_age: BTreeMap<u64, Name>,
    callers: HashMap<String, KeyBounds>,
    bytes: u64,
    next: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    age: u64,
    request: String,
    claim: String,
    lease: Lease,
    expires_at: Instant,
    answer: Option<Vec<u8>>,
}

/// A clone has the keys of that moment, and changes apart from then on.
impl Clone for MemoryIdempotency {
    fn clone(&self) -> Self {
        Self { bounds: self.bounds, total: self.total, kept: Mutex::new(self.kept.lock().clone()) }
    }
}

impl MemoryIdempotency {
    /// Keeps as many keys and bytes of all callers together as `total` says.
    pub fn new(total: KeyBounds) -> Self {
        Self { bounds: KeyBounds::default(), total, kept: Mutex::default() }
    }

    /// Sets other bounds for each caller.
    #[must_use]
    pub fn with_bounds(self, bounds: KeyBounds) -> Self {
        Self { bounds, ..self }
    }

    /// Changes a key that is still claimed by `owner`.
    fn change(&self, key: IdempotencyKey<'_>, owner: &str, change: impl FnOnce(&mut Keys, &Name)) -> bool {
        let name = name(key);
        let mut kept = self.kept.lock();
        let now = Instant::now();
        let is_held = |entry: &Entry| entry.lease.is_held_by(owner) && entry.expires_at > now;
        if !kept.entries.get(&name).is_some_and(is_held) {
            return false;
        }
        change(&mut kept, &name);
        kept.trim(key.caller, self.bounds, self.total, now);
        true
    }
}

impl Keys {
    fn insert(&mut self, name: Name, entry: Entry) {
        self.by_age.insert(entry.age, name.clone());
        self.callers.entry(name.0.clone()).or_insert(KeyBounds { keys: 0, bytes: 0 }).keys += 1;
        self.entries.insert(name, entry);
    }

    fn remove(&mut self, name: &Name) {
        let Some(entry) = self.entries.remove(name) else { return };
        self.by_age.remove(&entry.age);
        let bytes = entry.answer.map_or(0, |answer| answer.len() as u64);
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(used) = self.callers.get_mut(&name.0) {
            *used = KeyBounds { keys: used.keys.saturating_sub(1), bytes: used.bytes.saturating_sub(bytes) };
            if used.keys == 0 {
                self.callers.remove(&name.0);
            }
        }
    }

    /// Removes what has expired, and the oldest while there is too much of a caller or of all. What is
    /// claimed stays.
    fn trim(&mut self, caller: &str, bounds: KeyBounds, total: KeyBounds, now: Instant) {
        loop {
            let used = self.callers.get(caller).copied().unwrap_or(KeyBounds { keys: 0, bytes: 0 });
            let too_much_of_caller = used.keys > bounds.keys || used.bytes > bounds.bytes;
            let too_much_of_all = self.entries.len() > total.keys as usize || self.bytes > total.bytes;
            let entry = |name: &&Name| self.entries.get(*name);
            // All keys are kept for equally long, so the oldest expires first.
            let expired = self
                .by_age
                .values()
                .next()
                .filter(|name| entry(name).is_some_and(|entry| entry.expires_at <= now));
            let removable = |name: &&Name| entry(name).is_some_and(|entry| !entry.lease.is_held(now));
            let mut oldest = self.by_age.values().filter(removable);
            let chosen = match expired {
                Some(name) => Some(name),
                None if too_much_of_all => oldest.next(),
                None if too_much_of_caller => oldest.find(|name| name.0 == caller),
                None => None,
            };
            let Some(name) = chosen.cloned() else { return };
            self.remove(&name);
        }
    }
}

#[boxed_async]
impl IdempotencyStore for MemoryIdempotency {
    async fn claim(&self, key: IdempotencyKey<'_>, owner: &str, terms: KeyTerms) -> KeyResult<KeyClaim> {
        let (name, now) = (name(key), Instant::now());
        let mut kept = self.kept.lock();
        if let Some(entry) = kept.entries.get_mut(&name).filter(|entry| entry.expires_at > now) {
            return Ok(match &entry.answer {
                _ if entry.request != key.request => KeyClaim::OtherRequest,
                Some(answer) => KeyClaim::Answered(answer.clone()),
                None if entry.lease.claim(owner, terms.lease, now) => {
                    KeyClaim::Claimed { id: entry.claim.clone() }
                }
                None => KeyClaim::InFlight,
            });
        }
        kept.remove(&name);
        kept.next += 1;
        let mut lease = Lease::default();
        lease.claim(owner, terms.lease, now);
        let entry = Entry {
            age: kept.next,
            request: key.request.to_owned(),
            claim: owner.to_owned(),
            lease,
            expires_at: now + terms.kept,
            answer: None,
        };
        kept.insert(name, entry);
        kept.trim(key.caller, self.bounds, self.total, now);
        Ok(KeyClaim::Claimed { id: owner.to_owned() })
    }

    async fn renew(&self, key: IdempotencyKey<'_>, owner: &str, lease: Duration) -> KeyResult<Renewal> {
        Ok(Renewal::of_holder(self.change(key, owner, |kept, name| {
            if let Some(entry) = kept.entries.get_mut(name) {
                entry.lease.renew(owner, lease, Instant::now());
            }
        })))
    }

    async fn settle(&self, key: IdempotencyKey<'_>, owner: &str, answer: &[u8]) -> KeyResult<bool> {
        Ok(self.change(key, owner, |kept, name| {
            let Some(entry) = kept.entries.get_mut(name) else { return };
            entry.lease.end(owner);
            entry.answer = Some(answer.to_vec());
            kept.bytes += answer.len() as u64;
            kept.callers.get_mut(&name.0).into_iter().for_each(|used| used.bytes += answer.len() as u64);
        }))
    }

    async fn release(&self, key: IdempotencyKey<'_>, owner: &str) -> KeyResult {
        self.change(key, owner, |kept, name| {
            if let Some(entry) = kept.entries.get_mut(name) {
                entry.lease.end(owner);
            }
        });
        Ok(())
    }
}

fn name(key: IdempotencyKey<'_>) -> Name {
    (key.caller.to_owned(), key.key.to_owned())
}
