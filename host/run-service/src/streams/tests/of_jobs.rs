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
