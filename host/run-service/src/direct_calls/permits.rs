//! How many calls one caller may have under way at once.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use agent_core::words::Principal;

/// Twice what a run makes at once: enough for a program that has several models working, and few enough that
/// one caller does not fill the tools' own queues.
pub const MOST_AT_ONCE: usize = 32;

/// The calls under way of each caller; callers without an id are one. Clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct CallPermits(Arc<Mutex<HashMap<Option<String>, usize>>>);

/// The right to one call, until it is dropped.
#[derive(Debug)]
pub(super) struct CallPermit {
    permits: CallPermits,
    user_id: Option<String>,
}

impl CallPermits {
    /// One more call of that caller, unless there are too many.
    pub(super) fn acquire(&self, caller: &Principal) -> Option<CallPermit> {
        let user_id = caller.user_id.clone();
        let mut calls = self.0.lock();
        let count = calls.entry(user_id.clone()).or_default();
        if *count >= MOST_AT_ONCE {
            return None;
        }
        *count += 1;
        Some(CallPermit { permits: self.clone(), user_id })
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut calls = self.permits.0.lock();
        match calls.get_mut(&self.user_id) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(calls.remove(&self.user_id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_so_many_calls_at_once() {
        let permits = CallPermits::default();
        let one = Principal::user("u1");
        let mut held: Vec<_> = (0..MOST_AT_ONCE).map(|_| permits.acquire(&one).unwrap()).collect();
        assert!(permits.acquire(&one).is_none());
        let others = [permits.acquire(&Principal::user("u2")), permits.acquire(Principal::nobody())];
        assert!(others.iter().all(Option::is_some));
        held.pop();
        held.push(permits.acquire(&one).unwrap());
        assert!(permits.acquire(&one).is_none());
        drop((held, others));
        assert!(permits.0.lock().is_empty());
    }
}
