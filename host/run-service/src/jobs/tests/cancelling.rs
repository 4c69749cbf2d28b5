//! Jobs that are cancelled at the end of an attempt: job and run come to the same end, whichever was first.

use std::sync::atomic::{AtomicBool, Ordering};

use agent_core::ports::{Epoch, Journal as _};
use agent_core::testing::{TokioSpawn, task};
use agent_core::words::{Event, OpenKinds, Task};
use boxed_async::boxed_async;
use futures::FutureExt as _;

use super::*;
use crate::journal::Flusher;
use crate::layers::{Ask, RunAnswer};

/// An agent whose runs end so as soon as they are cancelled.
struct WhenCancelled(Result<RunAnswer, InvokeError>);

#[boxed_async]
impl Invoke for WhenCancelled {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        ask.control.cancel.unwrap_or_default().cancelled().await;
        self.0.clone()
    }
}

/// The run's last reply was stored, and the turn of its conversation was about to be appended.
#[tokio::test(start_paused = true)]
async fn a_run_that_had_come_to_its_end_completes_its_job_although_that_is_cancelled() {
    let bench = bench(WhenCancelled(Ok(ScriptedInvoke::answer("4"))));
    let job_id = bench.submit().await;
    let cancel = async {
        moments(1).await;
        assert_eq!(bench.jobs.cancel("u1", &job_id).await, Ok(CancelOutcome::Asked));
        bench.ended(&job_id).await
    };
    let job = bench.work_while(cancel).await;
    assert_eq!((job.status, bench.noted()), (JobStatus::Completed, vec![AttemptOutcome::Completed]));
    let result: Value = serde_json::from_str(job.result.unwrap().get()).unwrap();
    assert_eq!(result["output"], "4");
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_run_that_failed_leaves_the_next_run_of_its_job_alone() {
    let bench = bench(ScriptedInvoke::default());
    let job_id = bench.submit().await;
    let failed = bench.queue.job(&job_id).run_id;
    bench.queue.change(&job_id, |job| job.status = JobStatus::Failed);
    bench.queue.retry(&job_id).await.unwrap();
    let cancelled = bench.jobs.cancel_run("u1", &job_id, Some(&failed)).await;
    assert_eq!(
        (cancelled, bench.queue.job(&job_id).status),
        (Ok(CancelOutcome::HadEnded), JobStatus::Waiting)
    );
    let next = bench.queue.job(&job_id).run_id;
    assert_eq!(bench.jobs.cancel_run("u1", &job_id, Some(&next)).await, Ok(CancelOutcome::Done));
}

/// A job whose run was begun and handed back.
struct Begun {
    bench: Bench,
    job_id: String,
    /// Writes the records of runs that are ended because their jobs are cancelled.
    flusher: Flusher,
}

async fn begun(agent: impl Invoke + 'static) -> Begun {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let (jobs, flusher) = ending_jobs(&queue, &runs);
    let bench = bench_of(jobs, &queue, &runs, agent);
    let job_id = bench.submit().await;
    let task = Task { id: "run_job_1".into(), ..task("2+2") };
    let events = [Event::Started { task, tools: "sha256:test".into() }, Event::HandedBack];
    runs.append("run_job_1", Epoch::UNCLAIMED, 0, &events).await.unwrap();
    Begun { bench, job_id, flusher }
}

impl Begun {
    /// Works while somebody cancels the job, and expects that its run ends with it.
    async fn assert_run_ends(self, cancel: impl Future<Output = ()>) -> Vec<AttemptOutcome> {
        let Self { bench, job_id, flusher } = self;
        let ended = async {
            cancel.await;
            bench.ended(&job_id).await
        };
        assert_eq!(bench.work_while(ended).await.status, JobStatus::Cancelled);
        assert_eq!(bench.runs.events("run_job_1").last(), Some(&Event::Cancelled));
        flusher.run(bench.stopping.clone()).await;
        assert_recorded_as_cancelled(&bench.runs, 0);
        bench.noted()
    }
}

/// The handler of a request goes with its client.
#[tokio::test(start_paused = true)]
async fn the_run_of_a_job_ends_with_it_although_whoever_cancels_it_leaves() {
    let Begun { bench, job_id, flusher } = begun(ScriptedInvoke::default()).await;
    let jobs = bench.jobs.clone().spawned_by(Arc::new(TokioSpawn));
    let mut cancelling = Box::pin(jobs.cancel("u1", &job_id));
    // The job is read, and then what follows is begun.
    for _ in 0..2 {
        assert!((&mut cancelling).now_or_never().is_none());
    }
    drop(cancelling);
    moments(1).await;
    assert_eq!(bench.queue.job(&job_id).status, JobStatus::Cancelled);
    assert_eq!(bench.runs.events("run_job_1").last(), Some(&Event::Cancelled));
    bench.stopping.cancel();
    flusher.run(bench.stopping.clone()).await;
    assert_recorded_as_cancelled(&bench.runs, 0);
}

#[tokio::test(start_paused = true)]
async fn the_run_of_a_job_that_is_cancelled_while_it_waits_for_a_permit_ends_with_it() {
    let begun = begun(ScriptedInvoke::hanging()).await;
    let (jobs, job_id) = (begun.bench.jobs.clone(), begun.job_id.clone());
    // Others have every permit as soon as the worker has seen that there is one, and claims the job.
    let (admission, held) = (begun.bench.admission.clone(), Mutex::new(Vec::new()));
    begun.bench.queue.before_writes(move |_| {
        held.lock().extend(std::iter::from_fn(|| admission.acquire().now_or_never()));
    });
    let cancel = async {
        moments(1).await;
        assert_eq!(jobs.cancel("u1", &job_id).await, Ok(CancelOutcome::Asked));
    };
    assert_eq!(begun.assert_run_ends(cancel).await, [AttemptOutcome::Cancelled]);
}

/// Looking for the ends of child runs is not dropped when the job is cancelled.
#[tokio::test(start_paused = true)]
async fn the_run_of_a_job_that_is_cancelled_while_it_parks_ends_with_it() {
    let (children, open) = (vec![], OpenKinds::default());
    let parked = RunError::Parked { until: u64::MAX, events: 2, due: u64::MAX, children, open };
    let begun = begun(WhenCancelled(Err(parked.into()))).await;
    let (jobs, job_id) = (begun.bench.jobs.clone(), begun.job_id.clone());
    let cancel = async {
        moments(1).await;
        assert_eq!(jobs.cancel("u1", &job_id).await, Ok(CancelOutcome::Asked));
    };
    assert_eq!(begun.assert_run_ends(cancel).await, [AttemptOutcome::Cancelled]);
}

/// Another process asks before the lease is renewed the next time.
#[tokio::test(start_paused = true)]
async fn the_run_of_a_job_that_is_cancelled_before_its_attempt_fails_ends_with_it() {
    let agent = ScriptedInvoke::default();
    agent.add_after(SECOND / 2, Err(RunError::Panicked.into()));
    let begun = begun(agent).await;
    let (queue, job_id) = (begun.bench.queue.clone(), begun.job_id.clone());
    let cancel = async {
        tokio::time::sleep(SECOND / 4).await;
        assert_eq!(queue.cancel(&job_id).await, Ok(CancelOutcome::Asked));
    };
    assert_eq!(begun.assert_run_ends(cancel).await, [AttemptOutcome::Failed]);
}

/// The worker's first try has made an end of the job, and it was not told so.
#[tokio::test(start_paused = true)]
async fn the_run_of_a_job_whose_cancellation_is_told_as_a_lost_lease_ends_with_it() {
    let agent = ScriptedInvoke::default();
    agent.add_after(SECOND / 2, Err(RunError::Stopped.into()));
    let begun = begun(agent).await;
    let (queue, job_id) = (begun.bench.queue.clone(), begun.job_id.clone());
    let cancel = async {
        tokio::time::sleep(SECOND / 4).await;
        queue.steal(&job_id);
        queue.change(&job_id, |job| job.status = JobStatus::Cancelled);
        moments(1).await;
    };
    assert_eq!(begun.assert_run_ends(cancel).await, [AttemptOutcome::Lost]);
}

#[tokio::test(start_paused = true)]
async fn the_run_of_a_cancelled_job_ends_although_the_queue_is_away_behind_the_end_of_the_attempt() {
    let begun = begun(WhenCancelled(Err(RunError::Stopped.into()))).await;
    let (jobs, queue, job_id) = (begun.bench.jobs.clone(), begun.bench.queue.clone(), begun.job_id.clone());
    let is_last_write = Arc::new(AtomicBool::new(false));
    let fails = is_last_write.clone();
    queue.before_writes(move |queue| queue.switch.fail(fails.swap(false, Ordering::Relaxed)));
    let cancel = async {
        // No lease is renewed in this moment: the next write is the end of the attempt.
        tokio::time::sleep(SECOND / 2).await;
        assert_eq!(jobs.cancel("u1", &job_id).await, Ok(CancelOutcome::Asked));
        is_last_write.store(true, Ordering::Relaxed);
        moments(1).await;
        queue.switch.fail(false);
    };
    assert_eq!(begun.assert_run_ends(cancel).await, [AttemptOutcome::Cancelled]);
}
