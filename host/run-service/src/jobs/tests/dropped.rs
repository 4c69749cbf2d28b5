//! Jobs that the queue does not keep any more.

use agent_core::ports::RunStore as _;
use agent_core::ports::Unobserved;
use agent_core::testing::{EchoTools, ended, failed, record_of_now, says};
use agent_core::words::{RunRecord, StopReason};
use serde_json::json;

use super::*;
use crate::journal::{Backlog, RetryingJournal, WriteBehind};
use crate::layers::Recorded;
use crate::testing::scripted_agent;

/// The runs that a worker has recorded of one job that completed.
async fn recorded() -> Arc<TestRuns> {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let journal = Arc::new(RetryingJournal::new(runs.clone()));
    let agent = scripted_agent([Ok(says("4"))], EchoTools::new(&["echo"]), journal);
    let (behind, drain) = WriteBehind::new(runs.clone(), Backlog::default(), Arc::new(Unobserved));
    let bench = bench_on(&queue, &runs, Recorded::new(agent, behind));
    let job_id = bench.submit().await;
    bench.work_while(bench.ended(&job_id)).await;
    drain.run(bench.stopping.clone()).await;
    assert_eq!(runs.records()[0].job_id.as_ref(), Some(&job_id));
    runs
}

/// The jobs of a queue that was emptied.
fn jobs(runs: &Arc<TestRuns>) -> Jobs {
    Jobs::new(Arc::new(TestQueue::default())).recorded_in(runs.clone())
}

#[tokio::test(start_paused = true)]
async fn a_job_that_the_queue_dropped_is_answered_from_its_run_to_its_owner_alone() {
    let runs = recorded().await;
    let jobs = jobs(&runs);
    let job = jobs.read("u1", "1", Duration::from_secs(60)).await.unwrap().expect("it is recorded");
    assert_eq!((job.status, &*job.user_id, &*job.run_id), (JobStatus::Completed, "u1", "run_job_1"));
    let result: serde_json::Value = serde_json::from_str(job.result.unwrap().get()).unwrap();
    assert_eq!((&result["output"], &result["id"]), (&json!("4"), &json!("run_job_1")));
    assert!(job.error.is_none() && job.finished_at.is_some(), "it has ended");
    assert_eq!(jobs.cancel("u1", "1").await.unwrap(), CancelOutcome::HadEnded);
    for (user, id) in [("u2", "1"), ("", "1"), ("u1", "2")] {
        assert!(jobs.read(user, id, Duration::ZERO).await.unwrap().is_none(), "{user} {id}");
        assert_eq!(jobs.cancel(user, id).await.unwrap(), CancelOutcome::Unknown);
    }
    // Without records there is nothing to answer from.
    let forgetful = Jobs::new(Arc::new(TestQueue::default()));
    assert!(forgetful.read("u1", "1", Duration::ZERO).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_id_that_the_queue_gave_again_shows_each_owner_their_own_job() {
    let runs = recorded().await;
    let queue = Arc::new(TestQueue::default());
    let jobs = Jobs::new(queue.clone()).recorded_in(runs);
    assert_eq!(jobs.submit(&JobData::new("another", "u2")).await.unwrap(), "1");
    let of = async |user: &str| jobs.read(user, "1", Duration::ZERO).await.unwrap().unwrap().status;
    assert_eq!((of("u2").await, of("u1").await), (JobStatus::Waiting, JobStatus::Completed));
}

#[tokio::test(start_paused = true)]
async fn how_a_dropped_job_ended_is_told_without_what_only_the_operator_may_know() {
    let runs = Arc::new(TestRuns::default());
    let failed = failed("the provider hush refused");
    for (id, outcome) in
        [("f", failed), ("c", ended(StopReason::Cancelled)), ("lost", ended(StopReason::Completed))]
    {
        let record = RunRecord {
            request_id: id.into(),
            job_id: Some(id.into()),
            ..record_of_now(&format!("run_{id}"), outcome)
        };
        runs.save(&record).await.unwrap();
    }
    let read = async |id: &str| jobs(&runs).read("u1", id, Duration::ZERO).await.unwrap().unwrap();
    let job = read("f").await;
    assert_eq!(job.status, JobStatus::Failed);
    assert!(job.error.is_some_and(|error| !error.contains("hush")), "the record's text is the operator's");
    assert_eq!(read("c").await.status, JobStatus::Cancelled);
    let job = read("lost").await;
    assert_eq!((job.status, job.result.is_none()), (JobStatus::Completed, true), "its journal was lost");
    runs.damage("run_lost");
    assert!(read("lost").await.result.is_none(), "its journal is damaged");
}

#[tokio::test(start_paused = true)]
async fn a_store_of_runs_that_fails_is_not_a_job_that_does_not_exist() {
    let runs = recorded().await;
    runs.switch.fail(true);
    let error = jobs(&runs).read("u1", "1", Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, QueueError::Store { .. }), "{error:?}");
}
