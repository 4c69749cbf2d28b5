//! What everything promises that is claimed under a lease (`agent_core::ports::lease`), said once. The suite
//! of each port says with [`Leased`] what a claim is there, and has these cases among its own.

use std::time::Duration;

use agent_core::ports::Renewal;
use boxed_async::boxed_async;
use futures::future::join_all;
use test_servers::eventually;
use tokio::time::{Instant, interval};

/// Longer than any test.
pub(crate) const LONG: Duration = Duration::from_secs(900);

/// Short enough to wait for, and longer than two calls of a slow store take.
pub(crate) const SHORT: Duration = Duration::from_millis(600);

/// Whether an owner is of the other process.
pub(crate) fn is_peer(owner: &str) -> bool {
    owner.starts_with("peer")
}

/// One thing that is claimed under a lease.
#[boxed_async]
pub(crate) trait Leased: Send + Sync {
    type Claim: Send + Sync;

    /// How long a lease lasts that is waited for.
    fn short(&self) -> Duration {
        SHORT
    }

    /// Puts it there, if it is not made by its first claim.
    async fn add(&self) {}

    /// Nothing when somebody else has it.
    async fn claim(&self, owner: &str, lease: Duration) -> Option<Self::Claim>;

    /// Nothing where leases are not renewed.
    async fn renew(&self, claim: &Self::Claim, lease: Duration) -> Option<Renewal>;

    /// Whether the claim was still held.
    async fn settle(&self, claim: &Self::Claim) -> bool;

    async fn release(&self, claim: &Self::Claim);
}

/// The cases below and those of a suite.
macro_rules! test_leased {
    ($test:ident $suite:ident, $benches:tt: $($case:ident),+ $(,)?) => {
        crate::contract::$test! { $suite, $benches:
            of_many_claims_at_once_one_succeeds,
            a_lease_that_is_not_renewed_ends_and_its_holder_has_lost_it,
            a_lease_lasts_as_long_as_it_is_renewed,
            a_claim_is_settled_once,
            a_claim_that_was_released_is_free_at_once_and_its_holder_has_lost_it,
            $($case),+
        }
    };
}
pub(crate) use test_leased;

pub(crate) async fn of_many_claims_at_once_one_succeeds<L: Leased>(leased: &L) {
    leased.add().await;
    let owners: Vec<_> = (0..8).flat_map(|nth| [format!("holder{nth}"), format!("peer{nth}")]).collect();
    let claims = join_all(owners.iter().map(|owner| leased.claim(owner, LONG))).await;
    assert_eq!(claims.into_iter().flatten().count(), 1);
}

pub(crate) async fn a_lease_that_is_not_renewed_ends_and_its_holder_has_lost_it<L: Leased>(leased: &L) {
    leased.add().await;
    let dead = leased.claim("dead", leased.short()).await.expect("it is free");
    assert!(leased.claim("peer", LONG).await.is_none());
    let next = eventually("the lease to end", async || leased.claim("peer", LONG).await).await;
    assert_lost(leased, &dead).await;
    assert!(leased.claim("third", LONG).await.is_none());
    assert!(leased.settle(&next).await);
}

pub(crate) async fn a_lease_lasts_as_long_as_it_is_renewed<L: Leased>(leased: &L) {
    leased.add().await;
    let lease = leased.short();
    let claim = leased.claim("holder", lease).await.expect("it is free");
    let until = Instant::now() + 2 * lease;
    let mut ticks = interval(lease / 4);
    while Instant::now() < until {
        ticks.tick().await;
        assert_eq!(leased.renew(&claim, lease).await, Some(Renewal::Held));
        assert!(leased.claim("peer", LONG).await.is_none());
    }
    assert!(leased.settle(&claim).await);
}

pub(crate) async fn a_claim_is_settled_once<L: Leased>(leased: &L) {
    leased.add().await;
    let claim = leased.claim("holder", LONG).await.expect("it is free");
    assert!(leased.settle(&claim).await);
    assert_lost(leased, &claim).await;
}

pub(crate) async fn a_claim_that_was_released_is_free_at_once_and_its_holder_has_lost_it<L: Leased>(
    leased: &L,
) {
    leased.add().await;
    let released = leased.claim("holder", LONG).await.expect("it is free");
    leased.release(&released).await;
    assert_lost(leased, &released).await;
    let other = leased.claim("peer", LONG).await.expect("it is free");
    assert_lost(leased, &released).await;
    assert!(leased.settle(&other).await);
}

/// Nothing can be done with that claim.
async fn assert_lost<L: Leased>(leased: &L, claim: &L::Claim) {
    assert_ne!(leased.renew(claim, LONG).await, Some(Renewal::Held));
    assert!(!leased.settle(claim).await);
    leased.release(claim).await;
}
