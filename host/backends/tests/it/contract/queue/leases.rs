//! Workers that die, and those that only seem to.

use agent_core::ports::queue::stalled_after;
use agent_core::ports::{AttemptEnd, EarlierClaims, QueueError, Renewal};
use agent_core::words::JobStatus;
use futures::FutureExt as _;
use tokio::time::{Instant, interval, sleep};

use super::{Bench, add, assert_nothing_to_claim, claim_next, completed, failed, read, status};

pub(crate) async fn a_renewed_lease_lasts(bench: &Bench) {
    add(bench, "long work").await;
    let claim = claim_next(&*bench.queue, "worker").await;
    let mut taking = Box::pin(bench.peer.claim("another", 3 * bench.lease));
    let until = Instant::now() + 2 * bench.lease;
    let mut ticks = interval(bench.lease / 4);
    while Instant::now() < until {
        ticks.tick().await;
        assert_eq!(bench.queue.renew(&claim).await.unwrap(), Renewal::Held);
        assert_eq!(taking.as_mut().now_or_never(), None, "the other got it");
    }
    bench.queue.finish(&claim, &completed("1")).await.unwrap();
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
    bench.peer.finish(&alive, &AttemptEnd::HANDED_BACK).await.unwrap();
    let again = claim_next(&*bench.peer, "alive").await;
    assert_eq!(again.earlier, alive.earlier);
    bench.peer.finish(&again, &completed("1")).await.unwrap();
    assert_eq!(status(bench, &id).await, JobStatus::Completed);
}

pub(crate) async fn who_lost_a_lease_changes_nothing_any_more(bench: &Bench) {
    let id = add(bench, "job").await;
    let late = claim_next(&*bench.queue, "late").await;
    let holder = claim_next(&*bench.peer, "holder").await;
    assert_eq!(bench.queue.renew(&late).await.unwrap(), Renewal::Lost);
    for end in [completed("2"), failed("no", false), AttemptEnd::Cancelled, AttemptEnd::HANDED_BACK] {
        let error = bench.queue.finish(&late, &end).await.unwrap_err();
        assert_eq!(error, QueueError::LeaseLost { job_id: id.clone() }, "{end:?}");
        assert_eq!(status(bench, &id).await, JobStatus::Active);
    }
    assert_eq!(bench.peer.renew(&holder).await.unwrap(), Renewal::Held);
    bench.peer.finish(&holder, &completed("1")).await.unwrap();
    assert_eq!(read(bench, &id).await.result.expect("a result").get(), "1");
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
    assert_eq!(bench.peer.reclaim("here:1#c").await.unwrap(), 0);
    sleep(stalled_after(bench.lease)).await;
    assert_eq!(bench.queue.renew(&living).await.unwrap(), Renewal::Held);
    assert_eq!(bench.peer.reclaim("here:1#c").await.unwrap(), 2);
    assert_eq!(bench.peer.reclaim("here:1#c").await.unwrap(), 0);
    let mut again = Vec::new();
    for claim in dead {
        assert_eq!(bench.queue.renew(&claim).await.unwrap(), Renewal::Lost);
        let claim = bench.queue.claim("here:1#c", std::time::Duration::ZERO).await.unwrap();
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
