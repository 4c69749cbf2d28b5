//! Callers that wait for a job which this process does not work on, on a queue that says which jobs end.

use std::sync::atomic::Ordering;

use super::*;

/// Follows the queue while `callers` do something.
async fn follow_while<T>(jobs: &Jobs, callers: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        answer = callers => answer,
        () = jobs.follow_changes() => panic!("the queue can be followed"),
    }
}

fn telling(agent: ScriptedInvoke) -> (Bench, Jobs) {
    let bench = bench(agent);
    bench.queue.tells.store(true, Ordering::Relaxed);
    let elsewhere = Jobs::new(bench.queue.clone());
    (bench, elsewhere)
}

#[tokio::test(start_paused = true)]
async fn a_waiting_caller_elsewhere_learns_of_the_end_at_once() {
    let agent = ScriptedInvoke::default();
    agent.add_after(SECOND * 30, Ok(ScriptedInvoke::answer("4")));
    let (bench, elsewhere) = telling(agent);
    let job_id = bench.submit().await;
    let start = Instant::now();
    let read = async {
        let job = elsewhere.read("u1", &job_id, SECOND * 60).await.unwrap().unwrap();
        (job.status, start.elapsed())
    };
    let (status, took) = bench.work_while(follow_while(&elsewhere, read)).await;
    assert_eq!(status, JobStatus::Completed);
    assert!(took < SECOND * 30 + Duration::from_millis(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_callers_that_wait_poll_nothing() {
    let (bench, elsewhere) = telling(ScriptedInvoke::hanging());
    let job_id = bench.submit().await;
    let before = bench.queue.calls();
    let reads = (0..100).map(|_| elsewhere.read("u1", &job_id, SECOND * 19));
    let jobs = follow_while(&elsewhere, futures::future::join_all(reads)).await;
    assert!(jobs.into_iter().all(|job| job.unwrap().unwrap().status == JobStatus::Waiting));
    let calls = bench.queue.calls() - before;
    // Each reads the job when it begins to wait, and once more when the queue is followed.
    assert!(calls <= 2 * 100 + 10, "{calls} calls in 19 s");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_job_that_is_removed_is_told_at_once() {
    let (bench, elsewhere) = telling(ScriptedInvoke::hanging());
    let job_id = bench.submit().await;
    let start = Instant::now();
    let removing = async {
        moments(5).await;
        bench.queue.remove(&job_id);
    };
    let read = async { tokio::join!(elsewhere.read("u1", &job_id, SECOND * 60), removing).0 };
    assert!(follow_while(&elsewhere, read).await.unwrap().is_none());
    assert!(start.elapsed() < SECOND * 5 + Duration::from_millis(5), "{:?}", start.elapsed());
}

/// A queue that was emptied counts its ids from the beginning again.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_job_is_never_shown_another_one_of_its_id() {
    let bench = bench(ScriptedInvoke::hanging());
    for owner in ["u1", "u2"] {
        let job_id = bench.submit().await;
        let replacing = async {
            moments(5).await;
            bench.queue.remove(&job_id);
            let other = bench.jobs.submit(&JobData::new("another", owner)).await.unwrap();
            assert_eq!(other, job_id);
        };
        let (job, ()) = tokio::join!(bench.jobs.read("u1", &job_id, SECOND * 60), replacing);
        assert!(job.unwrap().is_none(), "{owner}");
        bench.queue.remove(&job_id);
    }
}

#[tokio::test(start_paused = true)]
async fn callers_poll_while_the_queue_does_not_say_which_jobs_end() {
    let agent = ScriptedInvoke::default();
    agent.add_after(SECOND * 10, Ok(ScriptedInvoke::answer("4")));
    let (bench, elsewhere) = telling(agent);
    let job_id = bench.submit().await;
    let start = Instant::now();
    let breaking = async {
        moments(1).await;
        bench.queue.tells_nothing.store(true, Ordering::Relaxed);
        bench.queue.wake();
    };
    let read = async {
        let (job, ()) = tokio::join!(elsewhere.read("u1", &job_id, SECOND * 60), breaking);
        (job.unwrap().unwrap().status, start.elapsed())
    };
    let (status, took) = Box::pin(bench.work_while(follow_while(&elsewhere, read))).await;
    assert_eq!(status, JobStatus::Completed);
    assert!(took <= SECOND * 10 + LAST_POLL + Duration::from_millis(5), "{took:?}");
}
