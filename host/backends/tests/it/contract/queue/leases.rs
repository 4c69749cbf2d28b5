//! Workers that die, and those that only seem to.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agent_core::ports::queue::stalled_after;
use agent_core::ports::{AttemptEnd, Claim, EarlierClaims, QueueError, Renewal};
use agent_core::words::JobStatus;
use boxed_async::boxed_async;
use tokio::time::sleep;

use super::{Bench, Leased, add, assert_nothing_to_claim, claim_next, completed, failed, is_peer, status};

#[boxed_async]
impl Leased for Bench {
    type Claim = Claim;

    fn short(&self) -> Duration {
        self.lease
    }

    async fn add(&self) {
        add(self, "leased").await;
    }

    /// A queue has leases of one length.
    async fn claim(&self, owner: &str, _lease: Duration) -> Option<Claim> {
        let queue = if is_peer(owner) { &self.peer } else { &self.queue };
        queue.claim(owner, Duration::ZERO).await.unwrap()
    }

    async fn renew(&self, claim: &Claim, _lease: Duration) -> Option<Renewal> {
        Some(self.queue.renew(claim).await.unwrap())
    }

    /// With another result each time: an end that is told again is no second one.
    async fn settle(&self, claim: &Claim) -> bool {
        static RESULTS: AtomicU32 = AtomicU32::new(0);
        let result = completed(&RESULTS.fetch_add(1, Ordering::Relaxed).to_string());
        let is_held = self.queue.settle(claim, &result).await.is_ok();
        let later = AttemptEnd::HandedBack { delay: self.lease };
        for end in [result, failed("no", false), AttemptEnd::Cancelled, later] {
            let lost = QueueError::LeaseLost { job_id: claim.job_id.clone() };
            if !is_held {
                assert_eq!(self.queue.settle(claim, &end).await, Err(lost), "{end:?}");
            }
        }
        is_held
    }

    async fn release(&self, claim: &Claim) {
        let _lost = self.queue.settle(claim, &AttemptEnd::HANDED_BACK).await;
    }
}

pub(crate) async fn a_job_of_a_dead_worker_goes_to_another(bench: &Bench) {
    let id = add(bench, "job").await;
    let dead = claim_next(&*bench.queue, "dead").await;
    let alive = claim_next(&*bench.peer, "alive").await;
    assert_eq!((&alive.job_id, &alive.run_id), (&id, &dead.run_id));
    assert_eq!(alive.data, dead.data);
    assert_ne!(alive.token, dead.token);
    assert_eq!((dead.earlier.lost, alive.earlier), (0, EarlierClaims { are_none: false, lost: 1 }));
    // What is handed back is not lost.
    bench.peer.settle(&alive, &AttemptEnd::HANDED_BACK).await.unwrap();
    let again = claim_next(&*bench.peer, "alive").await;
    assert_eq!(again.earlier, alive.earlier);
    bench.peer.settle(&again, &completed("1")).await.unwrap();
    assert_eq!(status(bench, &id).await, JobStatus::Completed);
}

/// Whoever asks is told alike.
pub(crate) async fn one_life_of_the_server_has_one_name(bench: &Bench) {
    let name = bench.queue.incarnation().await.unwrap();
    assert_eq!(bench.peer.incarnation().await.unwrap(), name);
    assert_ne!(name.as_deref(), Some(""), "the server names none");
}

/// A statement of a process that has died is carried out when its own successor has claimed jobs, and could
/// not renew them.
pub(crate) async fn a_late_reclaim_takes_nothing_that_was_claimed_or_renewed_since(bench: &Bench) {
    let (first, second) = (add(bench, "renewed").await, add(bench, "claimed").await);
    let earlier = claim_next(&*bench.queue, "here:1#a").await;
    let began = bench.queue.now().await.unwrap();
    let successors = claim_next(&*bench.queue, "here:1#c").await;
    assert_eq!((&earlier.job_id, &successors.job_id), (&first, &second));
    assert_eq!(bench.queue.renew(&earlier).await.unwrap(), Renewal::Held);
    sleep(stalled_after(bench.lease)).await;
    assert_eq!(bench.peer.reclaim("here:1#b", began).await.unwrap(), 0);
    for claim in [earlier, successors] {
        assert_eq!(bench.queue.renew(&claim).await.unwrap(), Renewal::Held);
    }
}

pub(crate) async fn a_restarted_worker_gives_its_predecessors_jobs_back_soon(bench: &Bench) {
    let mut ids = Vec::new();
    for query in ["1", "2", "3", "4", "5"] {
        ids.push(add(bench, query).await);
    }
    let dead = [claim_next(&*bench.queue, "here:1#a").await, claim_next(&*bench.queue, "here:1#b").await];
    let elsewhere = claim_next(&*bench.queue, "here:12#a").await;
    let own = claim_next(&*bench.queue, "here:1#c").await;
    let living = claim_next(&*bench.queue, "here:1#d").await;
    // A lease that was renewed a moment ago belongs to somebody who lives.
    let began = bench.peer.now().await.unwrap();
    assert_eq!(bench.peer.reclaim("here:1#c", began).await.unwrap(), 0);
    sleep(stalled_after(bench.lease)).await;
    let began = bench.peer.now().await.unwrap();
    assert_eq!(bench.queue.renew(&living).await.unwrap(), Renewal::Held);
    assert_eq!(bench.peer.reclaim("here:1#c", began).await.unwrap(), 2);
    assert_eq!(bench.peer.reclaim("here:1#c", began).await.unwrap(), 0);
    let mut again = Vec::new();
    for claim in dead {
        assert_eq!(bench.queue.renew(&claim).await.unwrap(), Renewal::Lost);
        let claim = bench.queue.claim("here:1#c", Duration::ZERO).await.unwrap();
        again.push(claim.expect("given back").job_id);
    }
    again.sort();
    let mut expected = ids[..2].to_vec();
    expected.sort();
    assert_eq!(again, expected);
    for claim in [elsewhere, own, living] {
        assert_eq!(bench.queue.renew(&claim).await.unwrap(), Renewal::Held);
    }
    assert_nothing_to_claim(bench).await;
}
