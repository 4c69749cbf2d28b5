//! Runs of jobs, which any worker carries.

use super::*;

/// A process that carries no run, with the jobs of that queue.
fn beside(store: &Arc<TestRuns>, queue: &Arc<TestQueue>) -> RunStreams {
    idle(store).with_jobs(Jobs::new(queue.clone()))
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_readers_of_a_job_that_cannot_resume_read_on() {
    let (store, queue, shutdown) = (Arc::default(), Arc::new(TestQueue::default()), Shutdown::default());
    let here = beside(&store, &queue).until(shutdown.clone());
    let job = queue.job(&queue.add(&JobData::new("hi", "u1")).await.unwrap());
    let resumes = here.follow_job(&job, 0).unwrap();
    let mut stays = here.follow_job_without_resuming(&job, 0).unwrap();
    shutdown.end_drain();
    assert_eq!(read(resumes).await, ["Stopping"]);
    assert!(timeout(Duration::from_secs(1), stays.next()).await.is_err());
    shutdown.end_requests();
    assert_eq!(read(stays).await, ["Stopping"]);
}

/// A job of which one run has failed for good, whose record there is, and that was tried again.
async fn tried_again(store: &Arc<TestRuns>, queue: &Arc<TestQueue>) -> (FoundRun, Job) {
    let job_id = queue.add(&JobData::new("hi", "u1")).await.unwrap();
    let run_id = queue.job(&job_id).run_id;
    let record = agent_core::testing::record(&run_id, agent_core::testing::failed("no luck"));
    store.save(&RunRecord { job_id: Some(job_id.clone()), ..record }).await.unwrap();
    let begun = Event::Started { task: agent_core::testing::task("hi"), tools: "sha256:test".into() };
    store.append(&run_id, Epoch(1), 0, &[begun]).await.unwrap();
    queue.change(&job_id, |job| job.status = JobStatus::Failed);
    queue.retry(&job_id).await.unwrap();
    let found = FoundRun { run_id, user_id: Some("u1".into()), job_id: Some(job_id.clone()) };
    (found, queue.job(&job_id))
}

#[tokio::test(start_paused = true)]
async fn a_run_that_failed_ends_as_it_did_whatever_its_job_does_in_another_one() {
    let (store, queue) = (Arc::new(TestRuns::default()), Arc::new(TestQueue::default()));
    let (run, job) = tried_again(&store, &queue).await;
    assert_ne!(run.run_id, job.run_id);
    let here = beside(&store, &queue);
    for status in [JobStatus::Active, JobStatus::Parked, JobStatus::Completed] {
        queue.change(&job.id, |job| job.status = status);
        assert_eq!(here.find(&run.run_id).await.unwrap().as_ref(), Some(&run));
        // By the job, and by the record alone. It is not waited for the other run.
        for run in [run.clone(), FoundRun { job_id: None, ..run.clone() }] {
            let read = timeout(Duration::from_secs(1), read(here.follow(&run, 0))).await.unwrap();
            assert_eq!(read, ["0 started", "failed: no luck"], "{status:?}");
        }
        assert!(
            here.has_ended_before(&run, 1).await.unwrap() && !here.has_ended_before(&run, 0).await.unwrap()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_reads_the_run_of_a_job_is_not_given_the_end_of_the_next_one() {
    let (store, queue) = (Arc::new(TestRuns::default()), Arc::new(TestQueue::default()));
    let (run, job) = tried_again(&store, &queue).await;
    queue.change(&job.id, |job| job.status = JobStatus::Completed);
    let before = Job { run_id: run.run_id, ..job };
    let late = beside(&store, &queue).follow_job(&before, 0).unwrap();
    assert_eq!(read(late).await, ["0 started", "Unknown"], "it is read again");
}
