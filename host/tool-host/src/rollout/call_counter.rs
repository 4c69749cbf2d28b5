//! Counts calls of versions on this replica until they are added to the sums of all replicas in the store.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_core::words::{CallCounts, TrialCounts};
use sha2::{Digest as _, Sha256};

/// Bytes of a user's hash before it is written in hex.
const USER_BYTES: usize = 8;

/// Which of the two versions a call was of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The one that serves.
    Old,
    /// The one that is tried.
    New,
}

/// Counts calls under one id, each user's by themselves, too.
pub(crate) struct CallCounter {
    /// Under this the replicas add up.
    pub(super) id: String,
    /// Counts since they were last added to the store. Held for a few instructions.
    counts: Mutex<TrialCounts>,
    /// True when the sums are to be judged although nothing was counted here.
    is_undecided: AtomicBool,
}

impl CallCounter {
    pub(super) fn new(id: String, is_undecided: bool) -> Self {
        Self { id, counts: Mutex::default(), is_undecided: AtomicBool::new(is_undecided) }
    }

    /// Counts a call of a user, or of a caller who is not known.
    pub(super) fn count(&self, side: Side, user: Option<&str>, count: impl Fn(&mut CallCounts)) {
        let user = self.hash(user);
        let mut counts = self.counts.lock();
        match side {
            Side::Old => count(&mut counts.old),
            Side::New => count(&mut counts.new),
        }
        if let Some(of_user) = counts.of_user(&user) {
            match side {
                Side::Old => count(&mut of_user.old),
                Side::New => count(&mut of_user.new),
            }
        }
    }

    /// Notes that there is this user, of whom no call may be counted.
    pub(super) fn note_user(&self, user: Option<&str>) {
        let user = self.hash(user);
        self.counts.lock().of_user(&user);
    }

    /// True when there is nothing to add to the sums.
    pub(super) fn is_empty(&self) -> bool {
        *self.counts.lock() == TrialCounts::default()
    }

    /// A user as the sums have one: nobody who reads them is told a name.
    fn hash(&self, user: Option<&str>) -> String {
        let mut hasher = Sha256::new();
        hasher.update((self.id.len() as u64).to_be_bytes());
        hasher.update(&self.id);
        // A caller who is not known is none of the users.
        hasher.update([u8::from(user.is_some())]);
        hasher.update(user.unwrap_or_default());
        format!("{:.*x}", 2 * USER_BYTES, hasher.finalize())
    }

    pub(super) fn is_undecided(&self) -> bool {
        self.is_undecided.load(Ordering::Relaxed)
    }

    pub(super) fn set_undecided(&self, is_undecided: bool) {
        self.is_undecided.store(is_undecided, Ordering::Relaxed);
    }

    /// Takes the counts, and begins at zero.
    pub(super) fn take(&self) -> TrialCounts {
        std::mem::take(&mut self.counts.lock())
    }

    /// Counts again what was taken and could not be added.
    pub(super) fn put_back(&self, taken: &TrialCounts) {
        self.counts.lock().add(taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_counted_by_themselves_and_not_by_name() {
        let counter = CallCounter::new("t1".into(), false);
        for user in [Some("ann"), Some("ben"), Some("ann"), None] {
            counter.count(Side::New, user, |counts| counts.calls += 1);
        }
        counter.count(Side::Old, Some("ann"), |counts| counts.calls += 1);
        counter.note_user(Some("eve"));
        let taken = counter.take();
        assert_eq!((taken.new.calls, taken.old.calls), (4, 1));
        let mut of_users: Vec<_> =
            taken.users.values().map(|user| (user.new.calls, user.old.calls)).collect();
        of_users.sort_unstable();
        assert_eq!(of_users, [(0, 0), (1, 0), (1, 0), (2, 1)]);
        assert!(!serde_json::to_string(&taken).unwrap().contains("ann"));
        assert_eq!(counter.take(), TrialCounts::default());
        counter.put_back(&taken);
        assert_eq!(counter.take(), taken);
    }
}
