//! Leases: what is done once at a time, by whichever process.
//!
//! Jobs, conversations, idempotency keys, webhooks and sweeps are claimed alike, and their ports use the same
//! words for it:
//!
//! | word | what the store does, in one atomic step |
//! |---|---|
//! | claim | makes an owner the holder for the length of the lease, unless another one is |
//! | renew | makes the lease last its length from now, if that owner is the holder ([`Renewal`]) |
//! | settle | writes what the work came to and ends the claim, if that owner is the holder |
//! | release | ends the claim and leaves the rest as it was, if that owner is the holder |
//!
//! Time is the store's, so that processes whose clocks differ agree on when a lease ends. An owner is a text
//! that no other claim has, and each operation names the whole of it: a holder that was
//! replaced changes nothing. One whose lease has ended is the holder until somebody else claims, unless the
//! store has forgotten it. How a holder keeps its lease is in `run-service/src/held_lease.rs`.

use std::time::{Duration, Instant};

use boxed_async::boxed_async;

use super::journal::Epoch;

/// Separates the run from the epoch in the owner of an attempt at a job.
const BEFORE_EPOCH: char = '#';

/// What a renewal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// Go on.
    Held,
    /// What is held is not wanted any more: stop, then settle it. Only queues of jobs say so.
    Cancelled,
    /// Somebody else has it: stop and leave it alone.
    Lost,
}

impl Renewal {
    /// Of a store that says whether the owner was the holder.
    pub fn of_holder(is_holder: bool) -> Self {
        if is_holder { Self::Held } else { Self::Lost }
    }
}

/// The owner of the claim that an attempt at a job makes: `<run id>#<epoch>`. All attempts share the run, and
/// each has an epoch of its own, which has 20 digits: such texts compare as their numbers do.
pub fn owner_of_attempt(run_id: &str, epoch: Epoch) -> String {
    format!("{run_id}{BEFORE_EPOCH}{:020}", epoch.0)
}

/// What the owners of all attempts at one job begin with, up to the epoch. Of any other owner it is the
/// whole.
pub fn attempts_of(owner: &str) -> &str {
    owner.rfind(BEFORE_EPOCH).and_then(|end| owner.get(..=end)).unwrap_or(owner)
}

/// Whether `owner` may claim what `holder` holds: as the same owner, or as a later attempt at the same job,
/// whose earlier attempt was replaced.
pub fn takes_over(owner: &str, holder: &str) -> bool {
    holder.starts_with(attempts_of(owner)) && holder <= owner
}

/// A lease as a value, for what is kept in memory. Time is an argument.
#[derive(Debug, Clone, Default)]
pub struct Lease {
    /// The holder, and until when nobody else may claim.
    held: Option<(String, Instant)>,
}

impl Lease {
    /// Claims for `lease` from `now`. False when somebody else holds it whom `owner` does not
    /// [take over](takes_over).
    pub fn claim(&mut self, owner: &str, lease: Duration, now: impl Into<Instant>) -> bool {
        let now = now.into();
        if self.is_held(now) && !self.held.as_ref().is_some_and(|(holder, _)| takes_over(owner, holder)) {
            return false;
        }
        self.held = Some((owner.to_owned(), now + lease));
        true
    }

    /// Lasts for `lease` from `now`.
    pub fn renew(&mut self, owner: &str, lease: Duration, now: impl Into<Instant>) -> Renewal {
        let is_holder = self.is_held_by(owner);
        if is_holder {
            self.held = Some((owner.to_owned(), now.into() + lease));
        }
        Renewal::of_holder(is_holder)
    }

    /// Ends the claim. False when `owner` is not the holder.
    pub fn end(&mut self, owner: &str) -> bool {
        let is_holder = self.is_held_by(owner);
        if is_holder {
            self.held = None;
        }
        is_holder
    }

    /// Whether nobody else may claim at that time.
    pub fn is_held(&self, now: impl Into<Instant>) -> bool {
        let now = now.into();
        self.held.as_ref().is_some_and(|(_, until)| *until > now)
    }

    /// Whether nobody has claimed since `owner` did.
    pub fn is_held_by(&self, owner: &str) -> bool {
        self.held.as_ref().is_some_and(|(holder, _)| holder == owner)
    }
}

/// When something that is done again and again may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimTime {
    /// When it is due.
    WhenDue,
    /// At any time, as somebody asked for it.
    Now,
}

/// Leases by name, of what is done again and again by one process at a time, such as sweeps.
///
/// Every operation fails within a time limit of the store when that does not answer. None is
/// cancellation-safe: dropped, it may have been carried out or not.
#[boxed_async]
pub trait Leases: Send + Sync {
    /// Claims `name` for `lease` from now. False when somebody else holds it, or when it is not yet time.
    async fn claim(&self, name: &str, owner: &str, lease: Duration, time: ClaimTime) -> LeaseResult<bool>;

    /// Makes the claim last for `lease` from now.
    async fn renew(&self, name: &str, owner: &str, lease: Duration) -> LeaseResult<Renewal>;

    /// Ends the claim of work that was done: it is due again after `next`, whoever does it. False when
    /// `owner` is not the holder: then nothing is changed.
    async fn settle(&self, name: &str, owner: &str, next: Duration) -> LeaseResult<bool>;
}

/// The result of an operation on a store of leases.
pub type LeaseResult<T = ()> = Result<T, LeaseError>;

/// The store of leases failed. It holds no address and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LeaseError(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_attempt_takes_over_and_nobody_else() {
        let attempt = |run, epoch| owner_of_attempt(run, Epoch(epoch));
        for (owner, holder, may) in [
            (attempt("run_1", 10), attempt("run_1", 9), true),
            (attempt("run_1", 10), attempt("run_1", 10), true),
            (attempt("run_1", 9), attempt("run_1", 10), false),
            (attempt("run_1", u64::MAX), attempt("run_1", 1), true),
            (attempt("run_1", 10), attempt("run_2", 9), false),
            (attempt("run_1", 10), attempt("run_11", 9), false),
            (attempt("run_1", 10), "run_1".to_owned(), false),
            ("run_1".to_owned(), attempt("run_1", 10), false),
            ("a".to_owned(), "a".to_owned(), true),
            ("ab".to_owned(), "a".to_owned(), false),
            ("a".to_owned(), "ab".to_owned(), false),
        ] {
            assert_eq!(takes_over(&owner, &holder), may, "{owner} of {holder}");
        }
    }
}
