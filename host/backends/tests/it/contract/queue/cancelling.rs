//! Jobs that their owners do not want any more.

use agent_core::ports::queue::stalled_after;
use agent_core::ports::{AttemptEnd, Renewal};
use agent_core::words::{CancelOutcome, JobStatus, RetryOutcome};
use tokio::time::sleep;

use super::{
    Bench, add, add_and_claim, assert_nothing_to_claim, claim_next, completed, data, failed, read, status,
};

pub(crate) async fn a_waiting_job_is_cancelled_at_once(bench: &Bench) {
    let id = add(bench, "unwanted").await;
    assert_eq!(bench.peer.cancel(&id).await.unwrap(), CancelOutcome::Done);
    let job = read(bench, &id).await;
    assert_eq!(job.status, JobStatus::Cancelled);
    assert!(job.finished_at.is_some() && job.result.is_none());
    assert_nothing_to_claim(bench).await;
}

pub(crate) async fn a_delayed_job_is_cancelled_at_once(bench: &Bench) {
    let (id, claim) = add_and_claim(bench, "unwanted").await;
    bench.queue.settle(&claim, &failed("not yet", true)).await.unwrap();
    assert_eq!(bench.queue.cancel(&id).await.unwrap(), CancelOutcome::Done);
    assert_eq!(status(bench, &id).await, JobStatus::Cancelled);
    // Whatever is taken from now on, it is not that job.
    let other = add(bench, "wanted").await;
    let claim = claim_next(&*bench.queue, "worker").await;
    assert_eq!(claim.job_id, other);
    bench.queue.settle(&claim, &completed("1")).await.unwrap();
    let late = bench.queue.claim("worker", 2 * agent_core::ports::queue::FIRST_BACKOFF).await.unwrap();
    assert_eq!(late, None);
}

pub(crate) async fn whoever_works_on_a_job_is_asked_to_stop(bench: &Bench) {
    let (id, claim) = add_and_claim(bench, "unwanted").await;
    assert_eq!(bench.queue.renew(&claim).await.unwrap(), Renewal::Held);
    for _ in 0..2 {
        assert_eq!(bench.peer.cancel(&id).await.unwrap(), CancelOutcome::Asked);
        assert_eq!(bench.queue.renew(&claim).await.unwrap(), Renewal::Cancelled);
        assert_eq!(status(bench, &id).await, JobStatus::Active, "something still works on it");
    }
    bench.queue.settle(&claim, &AttemptEnd::Cancelled).await.unwrap();
    let job = read(bench, &id).await;
    assert_eq!(job.status, JobStatus::Cancelled);
    assert!(job.finished_at.is_some() && job.result.is_none());
    assert_nothing_to_claim(bench).await;
}

pub(crate) async fn a_job_that_has_ended_cannot_be_cancelled(bench: &Bench) {
    for end in [completed("1"), failed("no", false)] {
        let (id, claim) = add_and_claim(bench, "job").await;
        bench.queue.settle(&claim, &end).await.unwrap();
        let before = status(bench, &id).await;
        assert_eq!(bench.queue.cancel(&id).await.unwrap(), CancelOutcome::HadEnded);
        assert_eq!(status(bench, &id).await, before);
    }
    let id = add(bench, "job").await;
    bench.queue.cancel(&id).await.unwrap();
    assert_eq!(bench.queue.cancel(&id).await.unwrap(), CancelOutcome::HadEnded);
    for unknown in ["none", "", "\0", "🦀"] {
        assert_eq!(bench.queue.cancel(unknown).await.unwrap(), CancelOutcome::Unknown);
    }
}

/// A worker that goes away or fails just then does not bring the job back.
pub(crate) async fn a_cancelled_job_is_not_handed_to_anybody_else(bench: &Bench) {
    for end in [AttemptEnd::HANDED_BACK, failed("not yet", true)] {
        let (id, claim) = add_and_claim(bench, "unwanted").await;
        assert_eq!(bench.queue.cancel(&id).await.unwrap(), CancelOutcome::Asked);
        bench.queue.settle(&claim, &end).await.unwrap();
        assert_eq!(status(bench, &id).await, JobStatus::Cancelled, "{end:?}");
        assert_nothing_to_claim(bench).await;
    }
}

pub(crate) async fn a_result_that_came_before_the_stop_is_kept(bench: &Bench) {
    let (id, claim) = add_and_claim(bench, "unwanted").await;
    assert_eq!(bench.queue.cancel(&id).await.unwrap(), CancelOutcome::Asked);
    bench.queue.settle(&claim, &completed("1")).await.unwrap();
    assert_eq!(status(bench, &id).await, JobStatus::Completed);
}

pub(crate) async fn a_final_failure_that_came_before_the_stop_is_kept(bench: &Bench) {
    let (id, claim) = add_and_claim(bench, "unwanted").await;
    assert_eq!(bench.peer.cancel(&id).await.unwrap(), CancelOutcome::Asked);
    bench.queue.settle(&claim, &failed("it makes no sense", false)).await.unwrap();
    let job = read(bench, &id).await;
    assert_eq!((job.status, job.error.as_deref()), (JobStatus::Failed, Some("it makes no sense")));
    // Whoever has it tried again wants it to be done.
    assert_eq!(bench.peer.retry(&id).await, Ok(RetryOutcome::Done));
    let again = claim_next(&*bench.queue, "worker").await;
    assert_eq!((&again.job_id, again.cancel_asked), (&id, false));
    assert_eq!(bench.queue.renew(&again).await.unwrap(), Renewal::Held);
}

/// The run has to be ended by somebody.
pub(crate) async fn a_cancel_request_outlives_the_worker(bench: &Bench) {
    let id = add(bench, "unwanted").await;
    let dead = claim_next(&*bench.queue, "dead").await;
    assert!(!dead.cancel_asked);
    assert_eq!(bench.peer.cancel(&id).await.unwrap(), CancelOutcome::Asked);
    let alive = claim_next(&*bench.peer, "alive").await;
    assert_eq!((&alive.job_id, &alive.run_id, alive.cancel_asked), (&id, &dead.run_id, true));
    assert_eq!(status(bench, &id).await, JobStatus::Active);
    assert_eq!(bench.peer.renew(&alive).await.unwrap(), Renewal::Cancelled);
    bench.peer.settle(&alive, &AttemptEnd::Cancelled).await.unwrap();
    let job = read(bench, &id).await;
    assert_eq!((job.status, job.finished_at.is_some()), (JobStatus::Cancelled, true));
    assert_nothing_to_claim(bench).await;
}

/// Also when it is claimed with the end of another job.
pub(crate) async fn a_cancel_request_outlives_being_reclaimed(bench: &Bench) {
    let (unwanted, other) = (add(bench, "unwanted").await, add(bench, "other").await);
    assert_eq!(claim_next(&*bench.queue, "here:1#a").await.job_id, unwanted);
    let held = claim_next(&*bench.queue, "elsewhere:1#a").await;
    assert_eq!(held.job_id, other);
    assert_eq!(bench.peer.cancel(&unwanted).await.unwrap(), CancelOutcome::Asked);
    sleep(stalled_after(bench.lease)).await;
    let began = bench.peer.now().await.unwrap();
    assert_eq!(bench.peer.reclaim("here:1#b", began).await.unwrap(), 1);
    assert_eq!(status(bench, &unwanted).await, JobStatus::Waiting, "nobody has ended its run");
    let next = bench.queue.settle_and_claim(&held, &completed("1"), "elsewhere:1#a").await.unwrap();
    let next = match next {
        Some(next) => next,
        None => claim_next(&*bench.queue, "elsewhere:1#a").await,
    };
    assert_eq!((&next.job_id, next.cancel_asked), (&unwanted, true));
    bench.queue.settle(&next, &AttemptEnd::Cancelled).await.unwrap();
    assert_eq!(status(bench, &unwanted).await, JobStatus::Cancelled);
}

/// By a client that had no answer the first time and repeats its request.
pub(crate) async fn a_cancelled_job_does_not_come_back_when_it_is_added_again(bench: &Bench) {
    let job = data("u1", "once").with_id("0198f0c2d3a47b119c0123456789abce");
    let id = bench.queue.add(&job).await.unwrap();
    assert_eq!(bench.peer.cancel(&id).await.unwrap(), CancelOutcome::Done);
    assert_eq!(bench.queue.add(&job).await, Ok(id.clone()));
    assert_nothing_to_claim(bench).await;
    assert_eq!(status(bench, &id).await, JobStatus::Cancelled);
}
