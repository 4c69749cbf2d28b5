//! The holder's side of a [lease](agent_core::ports::lease): it is renewed while the work goes on
//! ([`keep_renewed`]), and given back whatever becomes of that ([`HeldLease`]).
//!
//! Jobs and sweeps are not given back when they are dropped: then their process ends, and their leases do
//! soon after.

use std::fmt::Display;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Renewal, Spawn};
use boxed_async::boxed_async;
use futures::FutureExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::clock;

/// How long giving a claim back may take.
const RELEASE_LIMIT: Duration = Duration::from_secs(10);

/// An owner that no other claim has.
pub fn new_owner() -> String {
    clock::new_id()
}

/// What a process has claimed.
#[boxed_async]
pub trait LeaseClaim: Send + Sync {
    /// What it is, for the log.
    const WHAT: &'static str;
    type Error: Display + Send;

    /// Makes the lease last its whole length from now.
    async fn renew(&self) -> Result<Renewal, Self::Error>;

    /// Ends the claim without a result. This implementation leaves it to its lease.
    async fn release(&self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// How a lease is renewed.
#[derive(Debug, Clone, Copy)]
pub struct RenewalTerms {
    /// How long it lasts unless it is renewed.
    pub lease: Duration,
    /// How often it is renewed, counted from before the store is asked.
    pub every: Duration,
    /// From when the moments are counted at which it is renewed, for those that are renewed together. Absent:
    /// from each renewal.
    pub in_step_since: Option<Instant>,
    /// How long before its end a lease counts as lost that could not be renewed. Absent where losing it costs
    /// less than stopping the work: then it is renewed as soon as the store answers again.
    pub stop_before: Option<Duration>,
}

impl RenewalTerms {
    /// When a lease is renewed next that was asked for at `asked`: rather soon than more than [`Self::every`]
    /// later.
    fn next_renewal(&self, asked: Instant) -> Instant {
        let Some(began) = self.in_step_since else { return asked + self.every };
        let into = asked.saturating_duration_since(began).as_nanos() % self.every.as_nanos();
        asked + self.every.saturating_sub(Duration::from_nanos(u64::try_from(into).unwrap_or(0)))
    }
}

/// Renews the lease of a claim that the store was asked for at `asked`, until it is not held any more, and
/// says why.
///
/// Everything counts from before the store is asked: a store that takes its time shortens neither the lease
/// that may be relied on nor the time until it is renewed.
pub async fn keep_renewed<C: LeaseClaim>(claim: &C, terms: RenewalTerms, asked: Instant) -> Renewal {
    keep_telling(claim, terms, asked, asked + terms.lease, |_ends| {}).await
}

/// Renews as [`keep_renewed`] does a lease that `ends` then, and tells until when it lasts whenever it was
/// renewed.
async fn keep_telling<C: LeaseClaim>(
    claim: &C,
    terms: RenewalTerms,
    mut asked: Instant,
    mut ends: Instant,
    tell: impl Fn(Instant),
) -> Renewal {
    let mut has_lapsed = false;
    loop {
        let stop = terms.stop_before.map(|before| ends - before);
        // Looked at by itself: a store that is known to be down fails every renewal at once, so that a limit
        // of the renewal alone would never be reached.
        tokio::select! {
            biased;
            () = reached(stop) => return Renewal::Lost,
            () = sleep_until(terms.next_renewal(asked)) => {}
        }
        asked = Instant::now();
        // Where nothing stops, the next renewal is not kept waiting by one that gets no answer.
        let limit = stop.unwrap_or(asked + terms.every * 3 / 5);
        match timeout_at(limit, claim.renew()).await {
            Ok(Ok(Renewal::Held)) => {
                (ends, has_lapsed) = (asked + terms.lease, false);
                tell(ends);
            }
            Ok(Ok(ended)) => return ended,
            Ok(Err(error)) => debug!(what = C::WHAT, %error, "a lease could not be renewed"),
            // The lease may have ended: somebody else may have claimed.
            Err(_elapsed) if stop.is_some() => return Renewal::Lost,
            Err(_elapsed) => debug!(what = C::WHAT, "a lease could not be renewed in time"),
        }
        if !has_lapsed && Instant::now() >= ends {
            has_lapsed = true;
            warn!(
                what = C::WHAT,
                "a lease has ended before it could be renewed: others may claim what it is for"
            );
        }
    }
}

async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// Until when a lease lasts at least, for what acts under it. Clones are of the same lease.
#[derive(Debug, Clone)]
pub struct LeaseWatch {
    pub(crate) ends: watch::Receiver<Instant>,
    pub(crate) lost: CancellationToken,
}

impl LeaseWatch {
    /// Resolves at once while the lease lasts. After that others may have claimed: then it resolves when the
    /// lease was renewed, or when its [`HeldLease`] is gone and guards nothing any more.
    pub async fn lasts(&self) {
        let _ = self.ends.clone().wait_for(|ends| Instant::now() < *ends).await;
    }

    /// A token that is cancelled when somebody else has the lease. Cancelled otherwise, it ends nothing else.
    pub fn lost(&self) -> CancellationToken {
        self.lost.child_token()
    }
}

/// A lease that this process holds. Dropped, it is given back in a task of its own.
pub struct HeldLease<C: LeaseClaim + 'static> {
    claim: Arc<C>,
    terms: RenewalTerms,
    spawn: Arc<dyn Spawn>,
    /// When the store was asked for the claim: its lease began then or later.
    asked: Instant,
    ends: watch::Sender<Instant>,
    lost: CancellationToken,
    /// Whether there is nothing to give back.
    has_ended: bool,
}

impl<C: LeaseClaim + 'static> HeldLease<C> {
    /// The lease of what the store is going to be asked for.
    pub fn new(claim: C, terms: RenewalTerms, spawn: Arc<dyn Spawn>) -> Self {
        let asked = Instant::now();
        let ends = watch::Sender::new(asked + terms.lease);
        let (claim, lost) = (Arc::new(claim), CancellationToken::new());
        Self { claim, terms, spawn, asked, ends, lost, has_ended: false }
    }

    pub fn claim(&self) -> &C {
        &self.claim
    }

    /// There is nothing to give back: the claim was settled, or never made.
    pub fn ended(&mut self) {
        self.has_ended = true;
    }

    /// For what acts under the lease.
    pub fn watch(&self) -> LeaseWatch {
        LeaseWatch { ends: self.ends.subscribe(), lost: self.lost.clone() }
    }

    /// Whether anything acts under the lease.
    pub fn is_watched(&self) -> bool {
        !self.ends.is_closed()
    }

    /// Resolves when nothing acts under the lease any more.
    pub async fn unwatched(&self) {
        self.ends.closed().await;
    }

    /// What `work` comes to, also when the lease is lost meanwhile.
    pub async fn while_running<T>(&self, work: impl Future<Output = T>) -> T {
        let keep = async {
            self.lost().await;
            pending().await
        };
        tokio::select! {
            biased;
            ended = work => ended,
            ended = keep => ended,
        }
    }

    /// What `work` comes to. Nothing when the lease is lost first, with which it is dropped.
    pub async fn while_held<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            ended = work => Some(ended),
            () = self.lost() => None,
        }
    }

    /// Renews the lease until it is lost.
    async fn lost(&self) {
        let tell = |ends| self.ends.send_modify(|told| *told = ends);
        // An earlier piece of work may have had it renewed.
        let ends = *self.ends.borrow();
        keep_telling(&*self.claim, self.terms, self.asked, ends, tell).await;
        self.lost.cancel();
        debug!(what = C::WHAT, "a lease was lost");
    }

    /// Gives the claim back. When this is dropped half-way, a task does the rest.
    pub async fn release(mut self) {
        if !self.has_ended {
            release(&*self.claim).await;
            self.has_ended = true;
        }
    }
}

async fn release<C: LeaseClaim>(claim: &C) {
    match timeout(RELEASE_LIMIT, claim.release()).await {
        Ok(Ok(())) => {}
        // Not for operators: that the store is away was told once, and each claim would be a line more.
        Ok(Err(error)) => {
            debug!(what = C::WHAT, %error, "a claim could not be given back: it ends with its lease")
        }
        Err(_elapsed) => warn!(what = C::WHAT, "a claim could not be given back: it ends with its lease"),
    }
}

impl<C: LeaseClaim + 'static> Drop for HeldLease<C> {
    fn drop(&mut self) {
        if !self.has_ended {
            let claim = self.claim.clone();
            self.spawn.spawn("lease-release", async move { release(&*claim).await }.boxed());
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use tokio::time::sleep;

    use super::*;
    use agent_core::ports::lease::Lease;
    use agent_core::testing::{Switch, TokioSpawn};

    const SECOND: Duration = Duration::from_secs(1);
    const TERMS: RenewalTerms = RenewalTerms {
        lease: Duration::from_secs(6),
        every: SECOND,
        in_step_since: None,
        stop_before: Some(SECOND),
    };

    /// What `a` has claimed in memory.
    #[derive(Default, Clone)]
    struct Claim {
        lease: Arc<Mutex<Lease>>,
        switch: Switch,
    }

    impl Claim {
        fn of(owner: &str) -> Self {
            let claim = Self::default();
            assert!(claim.lease.lock().claim(owner, TERMS.lease, Instant::now()));
            claim
        }

        fn is_held(&self) -> bool {
            self.lease.lock().is_held(Instant::now())
        }
    }

    #[boxed_async]
    impl LeaseClaim for Claim {
        const WHAT: &'static str = "test";
        type Error = String;

        async fn renew(&self) -> Result<Renewal, String> {
            self.switch.check().await?;
            Ok(self.lease.lock().renew("a", TERMS.lease, Instant::now()))
        }

        async fn release(&self) -> Result<(), String> {
            self.lease.lock().end("a");
            Ok(())
        }
    }

    #[test]
    fn leases_that_are_in_step_are_renewed_at_moments_that_are_the_same_for_all() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let in_step = RenewalTerms { in_step_since: Some(began), ..TERMS };
        for (asked, next) in [(0, 1000), (1, 1000), (750, 1000), (999, 1000), (1000, 2000), (1003, 2000)] {
            assert_eq!(in_step.next_renewal(at(asked)), at(next), "{asked}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_lost_before_it_ends_or_when_somebody_else_has_it() {
        for hangs in [true, false] {
            let (claim, began) = (Claim::of("a"), Instant::now());
            if hangs {
                claim.switch.hang(true)
            } else {
                claim.switch.fail(true)
            }
            assert_eq!(keep_renewed(&claim, TERMS, began).await, Renewal::Lost);
            assert_eq!(began.elapsed(), TERMS.lease - SECOND, "{hangs}");
        }
        let (claim, began) = (Claim::of("b"), Instant::now());
        assert_eq!(keep_renewed(&claim, TERMS, began).await, Renewal::Lost);
        assert_eq!(began.elapsed(), SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_nothing_stops_for_is_renewed_when_the_store_is_back_and_given_back_when_dropped() {
        let (claim, terms) = (Claim::of("a"), RenewalTerms { stop_before: None, ..TERMS });
        let held = HeldLease::new(claim.clone(), terms, Arc::new(TokioSpawn));
        claim.switch.hang(true);
        let outage = async {
            sleep(2 * TERMS.lease).await;
            assert!(!claim.is_held());
            claim.switch.hang(false);
            sleep(2 * SECOND).await;
            assert!(claim.is_held());
        };
        tokio::join!(held.while_running(sleep(3 * TERMS.lease)), outage);
        drop(held);
        sleep(SECOND / 1000).await;
        assert!(!claim.is_held());
    }

    #[tokio::test(start_paused = true)]
    async fn what_acts_under_a_lease_waits_from_its_end_until_it_is_renewed_and_ends_when_it_is_lost() {
        let (claim, terms) = (Claim::of("a"), RenewalTerms { stop_before: None, ..TERMS });
        let (held, began) = (HeldLease::new(claim.clone(), terms, Arc::new(TokioSpawn)), Instant::now());
        let watch = held.watch();
        claim.switch.fail(true);
        let acting = async {
            watch.lasts().await;
            assert_eq!(began.elapsed(), Duration::ZERO);
            sleep(TERMS.lease).await;
            watch.lasts().await;
            assert_eq!(began.elapsed(), TERMS.lease + 2 * SECOND);
        };
        let outage = async {
            sleep(TERMS.lease + 3 * SECOND / 2).await;
            claim.switch.fail(false);
        };
        let (acted, ()) = tokio::join!(held.while_held(acting), outage);
        assert_eq!(acted, Some(()));
        claim.lease.lock().end("a");
        let lost = watch.lost();
        assert!(!lost.is_cancelled());
        assert_eq!(held.while_held(pending::<()>()).await, None);
        assert!(lost.is_cancelled());
        sleep(TERMS.lease).await;
        drop(held);
        watch.lasts().await;
    }
}
