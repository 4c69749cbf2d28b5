//! How attempts end, and what comes after them.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime};

use agent_core::ports::queue::{ATTEMPTS, FIRST_BACKOFF};
use agent_core::ports::{AttemptEnd, Claim, QueueError, Renewal};
use agent_core::words::{JobStatus, OpenKinds, RetryOutcome};
use futures::future::join_all;

use super::{
    Bench, add, add_and_claim, assert_nothing_to_claim, claim_next, completed, failed, read, status,
};

pub(crate) async fn a_completed_job_has_its_result(bench: &Bench) {
    let (id, claim) = add_and_claim(bench, "job").await;
    // Numbers and the order of members are the agent's, not the store's.
    let result = r#"{"z":1.0,"a":12345678901234567890,"text":"\u0000","nothing":null}"#;
    bench.queue.settle(&claim, &completed(result)).await.unwrap();
    let job = read(bench, &id).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Completed, 1));
    assert_eq!(job.result.expect("a result").get(), result);
    assert_eq!(job.error, None);
    let (started, finished) = (job.started_at.expect("begun"), job.finished_at.expect("ended"));
    assert!(job.created_at <= started && started <= finished);
    assert_nothing_to_claim(bench).await;
}

pub(crate) async fn a_failed_attempt_is_made_again_later_and_not_for_ever(bench: &Bench) {
    let id = add(bench, "job").await;
    let mut backoff = FIRST_BACKOFF;
    for attempt in 1..ATTEMPTS {
        let claim = claim_next(&*bench.queue, "worker").await;
        assert_eq!((&claim.job_id, claim.attempts_made), (&id, attempt - 1));
        let failed_at = Instant::now();
        bench.queue.settle(&claim, &failed(&format!("attempt {attempt}"), true)).await.unwrap();
        let job = read(bench, &id).await;
        assert_eq!((job.status, job.attempts_made), (JobStatus::Delayed, attempt));
        assert_eq!(job.error, Some(format!("attempt {attempt}")));
        assert!(job.result.is_none() && job.finished_at.is_none());
        let claim = claim_next(&*bench.peer, "another").await;
        // Stores count whole milliseconds.
        assert!(failed_at.elapsed().as_millis() + 1 >= backoff.as_millis(), "it was taken too early");
        bench.peer.settle(&claim, &AttemptEnd::HANDED_BACK).await.unwrap();
        backoff *= 2;
    }
    let claim = claim_next(&*bench.queue, "worker").await;
    bench.queue.settle(&claim, &failed("the last", true)).await.unwrap();
    let job = read(bench, &id).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Failed, ATTEMPTS));
    assert_eq!(job.error.as_deref(), Some("the last"));
    assert!(job.finished_at.is_some());
    assert_nothing_to_claim(bench).await;
}

pub(crate) async fn a_job_that_failed_for_good_can_be_tried_again(bench: &Bench) {
    assert_eq!(bench.queue.retry("none").await, Ok(RetryOutcome::Unknown));
    let id = add(bench, "job").await;
    assert_eq!(bench.queue.retry(&id).await, Ok(RetryOutcome::NotFailed));
    let first = claim_next(&*bench.queue, "worker").await;
    assert_eq!(bench.peer.retry(&id).await, Ok(RetryOutcome::NotFailed), "it is worked on");
    bench.queue.settle(&first, &failed("it makes no sense", false)).await.unwrap();
    let job = read(bench, &id).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Failed, 1), "no attempt can help");
    assert_eq!((job.error.as_deref(), &job.run_id), (Some("it makes no sense"), &first.run_id));
    assert!(job.finished_at.is_some());
    assert_nothing_to_claim(bench).await;
    assert_eq!(bench.peer.retry(&id).await, Ok(RetryOutcome::Done));
    let job = read(bench, &id).await;
    assert_eq!((job.status, job.attempts_made, job.finished_at), (JobStatus::Waiting, 1, None));
    let second = claim_next(&*bench.queue, "worker").await;
    assert_eq!((&second.job_id, second.attempts_made), (&id, 1));
    assert_ne!(second.run_id, first.run_id, "a run that ended is not taken up");
    assert!(second.epoch > first.epoch);
    bench.queue.settle(&second, &completed("1")).await.unwrap();
    assert_eq!(bench.queue.retry(&id).await, Ok(RetryOutcome::NotFailed));
    let job = read(bench, &id).await;
    assert_eq!((job.status, job.run_id), (JobStatus::Completed, second.run_id));
    assert_nothing_to_claim(bench).await;
}

pub(crate) async fn a_released_job_goes_to_the_front_and_counts_no_attempt(bench: &Bench) {
    let (first, second) = (add(bench, "first").await, add(bench, "second").await);
    let before = claim_next(&*bench.queue, "worker").await;
    assert_eq!(before.job_id, first);
    bench.queue.settle(&before, &AttemptEnd::HANDED_BACK).await.unwrap();
    let job = read(bench, &first).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Waiting, 0));
    let again = claim_next(&*bench.peer, "another").await;
    assert_eq!((&again.job_id, &again.run_id, again.attempts_made), (&first, &before.run_id, 0));
    assert_ne!(again.token, before.token);
    assert_eq!(claim_next(&*bench.queue, "worker").await.job_id, second);
}

pub(crate) async fn a_job_released_for_a_while_waits_that_long_and_counts_no_attempt(bench: &Bench) {
    let (first, second) = (add(bench, "first").await, add(bench, "second").await);
    let before = claim_next(&*bench.queue, "worker").await;
    assert_eq!(before.job_id, first);
    let (handed_back_at, delay) = (Instant::now(), Duration::from_secs(1));
    bench.queue.settle(&before, &AttemptEnd::HandedBack { delay }).await.unwrap();
    let job = read(bench, &first).await;
    assert_eq!((job.status, job.attempts_made, job.error), (JobStatus::Delayed, 0, None));
    assert_eq!(claim_next(&*bench.queue, "worker").await.job_id, second);
    let again = claim_next(&*bench.peer, "another").await;
    assert!(handed_back_at.elapsed().as_millis() + 1 >= delay.as_millis(), "it was taken too early");
    assert_eq!((&again.job_id, &again.run_id, again.attempts_made), (&first, &before.run_id, 0));
}

pub(crate) async fn an_attempt_ends_once(bench: &Bench) {
    let (id, claim) = add_and_claim(bench, "job").await;
    bench.queue.settle(&claim, &completed("1")).await.unwrap();
    for end in [completed("2"), failed("no", true), AttemptEnd::Cancelled, AttemptEnd::HANDED_BACK] {
        let error = bench.queue.settle(&claim, &end).await.unwrap_err();
        assert_eq!(error, QueueError::LeaseLost { job_id: id.clone() }, "{end:?}");
    }
    assert_eq!(bench.queue.renew(&claim).await.unwrap(), Renewal::Lost);
    assert_eq!(status(bench, &id).await, JobStatus::Completed);
    assert_eq!(read(bench, &id).await.result.expect("a result").get(), "1");
}

/// By a worker that had no answer: it has not lost its lease, and what is left to do behind the end is its.
pub(crate) async fn an_end_that_is_told_again_is_the_same_end(bench: &Bench) {
    let hour = Duration::from_secs(3600);
    let parked = AttemptEnd::Parked { until: SystemTime::now() + hour, open: OpenKinds::default() };
    let later = AttemptEnd::HandedBack { delay: hour };
    let failures = [failed("no", false), failed("not yet", true)];
    for end in [completed("1"), parked, later, AttemptEnd::HANDED_BACK].into_iter().chain(failures) {
        add(bench, "job").await;
        let claim = claim_next(&*bench.queue, "worker").await;
        bench.queue.settle(&claim, &end).await.unwrap();
        let before = read(bench, &claim.job_id).await;
        assert_eq!(bench.queue.settle(&claim, &end).await, Ok(()), "{end:?}");
        let after = read(bench, &claim.job_id).await;
        assert_eq!((after.status, after.attempts_made), (before.status, before.attempts_made), "{end:?}");
        assert_eq!(bench.queue.renew(&claim).await.unwrap(), Renewal::Lost);
    }
}

/// The end of an attempt, and the next job: claimed with it, or by itself where the queue says nothing of
/// one.
async fn settle_and_claim(bench: &Bench, claim: &Claim, end: &AttemptEnd) -> Claim {
    match bench.queue.settle_and_claim(claim, end, "worker").await.unwrap() {
        Some(next) => next,
        None => claim_next(&*bench.queue, "worker").await,
    }
}

pub(crate) async fn the_end_of_an_attempt_may_claim_the_next_job(bench: &Bench) {
    let ids = [add(bench, "1").await, add(bench, "2").await, add(bench, "3").await];
    let first = claim_next(&*bench.queue, "worker").await;
    let before = Instant::now();
    let second = settle_and_claim(bench, &first, &completed("1")).await;
    assert_eq!((&second.job_id, second.attempts_made, second.earlier.lost), (&ids[1], 0, 0));
    assert!(second.epoch.0 >= 1 && second.token != first.token && second.leased_at >= before);
    assert_eq!(second.data.as_ref().map(|data| &*data.query), Ok("2"));
    let job = read(bench, &ids[0]).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Completed, 1));
    assert_eq!(job.result.expect("a result").get(), "1");
    let job = read(bench, &ids[1]).await;
    assert_eq!(
        (job.status, job.run_id, job.created_at),
        (JobStatus::Active, second.run_id.clone(), second.created_at)
    );
    assert!(job.started_at.is_some());
    assert_eq!(bench.queue.renew(&second).await.unwrap(), Renewal::Held);
    let third = settle_and_claim(bench, &second, &failed("it makes no sense", false)).await;
    assert_eq!(third.job_id, ids[2]);
    assert_eq!(status(bench, &ids[1]).await, JobStatus::Failed);
    assert_eq!(bench.queue.settle_and_claim(&third, &completed("3"), "worker").await, Ok(None));
    assert_eq!(status(bench, &ids[2]).await, JobStatus::Completed);
    assert_nothing_to_claim(bench).await;
}

pub(crate) async fn an_end_that_is_refused_claims_nothing(bench: &Bench) {
    let (first, second) = (add(bench, "first").await, add(bench, "second").await);
    let claim = claim_next(&*bench.queue, "worker").await;
    let stranger = Claim { token: "00000000000000000000000000000000".into(), ..claim.clone() };
    let lost = QueueError::LeaseLost { job_id: first.clone() };
    assert_eq!(bench.queue.settle_and_claim(&stranger, &completed("2"), "worker").await, Err(lost.clone()));
    assert_eq!(status(bench, &first).await, JobStatus::Active);
    bench.queue.settle(&claim, &completed("1")).await.unwrap();
    for end in [completed("2"), failed("no", false)] {
        assert_eq!(bench.queue.settle_and_claim(&claim, &end, "worker").await, Err(lost.clone()), "{end:?}");
    }
    assert_eq!(read(bench, &first).await.result.expect("a result").get(), "1");
    assert_eq!(status(bench, &second).await, JobStatus::Waiting);
    assert_eq!(claim_next(&*bench.peer, "another").await.job_id, second);
}

/// By a worker that had no answer in time.
pub(crate) async fn an_end_that_is_told_again_claims_one_job(bench: &Bench) {
    told_again(bench, &completed("1"), JobStatus::Completed).await;
}

/// What is left until the job is due is less by then.
pub(crate) async fn the_end_of_a_parked_attempt_that_is_told_again_claims_one_job(bench: &Bench) {
    let (until, open) = (SystemTime::now() + Duration::from_secs(3600), OpenKinds::default());
    told_again(bench, &AttemptEnd::Parked { until, open }, JobStatus::Parked).await;
}

async fn told_again(bench: &Bench, end: &AttemptEnd, ended: JobStatus) {
    let ids = [add(bench, "1").await, add(bench, "2").await, add(bench, "3").await];
    let first = claim_next(&*bench.queue, "worker").await;
    let next = bench.queue.settle_and_claim(&first, end, "worker").await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let again = bench.queue.settle_and_claim(&first, end, "worker").await;
    if let Some(next) = &next {
        let again = again.unwrap().expect("the job that was claimed the first time");
        assert_eq!((&again.job_id, &again.token, again.epoch), (&next.job_id, &next.token, next.epoch));
        assert!(again.leased_at >= next.leased_at);
    }
    assert_eq!(bench.queue.depth().await.unwrap().active, u64::from(next.is_some()));
    assert_eq!(status(bench, &ids[0]).await, ended);
    assert_eq!(status(bench, &ids[2]).await, JobStatus::Waiting);
}

pub(crate) async fn attempts_that_end_at_once_claim_different_jobs(bench: &Bench) {
    const WORKERS: usize = 6;
    const LEFT: usize = 4;
    let mut left: HashSet<_> = HashSet::new();
    for number in 0..WORKERS + LEFT {
        left.insert(add(bench, &number.to_string()).await);
    }
    let mut claims = Vec::new();
    for _ in 0..WORKERS {
        claims.push(claim_next(&*bench.queue, "worker").await);
    }
    let end = completed("1");
    let ended = claims.iter().map(|claim| bench.queue.settle_and_claim(claim, &end, "worker"));
    let mut next: Vec<_> = join_all(ended).await.into_iter().filter_map(Result::unwrap).collect();
    while next.len() < LEFT {
        next.push(claim_next(&*bench.queue, "worker").await);
    }
    assert_nothing_to_claim(bench).await;
    let claimed: HashSet<_> = claims.iter().chain(&next).map(|claim| claim.job_id.clone()).collect();
    assert_eq!(claimed, left, "each by one");
    let tokens: HashSet<_> = next.iter().map(|claim| &claim.token).collect();
    assert_eq!(tokens.len(), LEFT);
    for claim in &next {
        assert_eq!(bench.queue.renew(claim).await.unwrap(), Renewal::Held);
    }
}
