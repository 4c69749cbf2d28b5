//! Runs of jobs, which any worker carries.

use agent_core::words::Task;

use super::*;
use crate::jobs::Worker;
use crate::testing::{scripted_agent, work_for, worker_context};

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

/// The journal of a run that has begun.
async fn begin(store: &TestRuns, run_id: &str) {
    let task = Task { id: run_id.to_owned(), ..agent_core::testing::task("hi") };
    let begun = Event::Started { task, tools: "sha256:test".into() };
    store.append(run_id, Epoch(1), 0, &[begun]).await.unwrap();
}

/// A job of which one run has failed for good, whose record there is, and that was tried again.
async fn tried_again(store: &Arc<TestRuns>, queue: &Arc<TestQueue>) -> (FoundRun, Job) {
    let job_id = queue.add(&JobData::new("hi", "u1")).await.unwrap();
    let run_id = queue.job(&job_id).run_id;
    let record = agent_core::testing::record(&run_id, agent_core::testing::failed("no luck"));
    store.save(&RunRecord { job_id: Some(job_id.clone()), ..record }).await.unwrap();
    begin(store, &run_id).await;
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
        // Neither the job nor the record has a reader wait for the other run.
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

#[tokio::test(start_paused = true)]
async fn the_run_of_a_job_is_known_for_that_before_it_has_a_record() {
    for data in [JobData::new("hi", "u1"), JobData::new("hi", "u1").with_id("chosen")] {
        let (store, queue) = (Arc::new(TestRuns::default()), Arc::new(TestQueue::default()));
        queue.add(&JobData::new("another", "u1")).await.unwrap();
        let job = queue.job(&queue.add(&data).await.unwrap());
        begin(&store, &job.run_id).await;
        let here = beside(&store, &queue);
        for status in [JobStatus::Active, JobStatus::Waiting, JobStatus::Delayed] {
            queue.change(&job.id, |job| job.status = status);
            let found = here.find(&job.run_id).await.unwrap().unwrap();
            assert_eq!((&found.run_id, found.job_id.as_ref()), (&job.run_id, Some(&job.id)), "{status:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_a_run_that_is_parked_says_that_it_waits() {
    let (store, queue) = (Arc::new(TestRuns::default()), Arc::new(TestQueue::default()));
    let here = beside(&store, &queue);
    let tools =
        EchoTools::new(&["pay"]).approved_by("pay", "sha256:policy").within(Duration::from_secs(3600));
    let agent = scripted_agent([Ok(asks_for(&[("1", "pay", json!({}))]))], tools, store.clone());
    let worker = Worker::new(&Jobs::new(queue.clone()), worker_context(Arc::new(agent), store.clone()));
    let job_id = queue.add(&JobData::new("hi", "u1")).await.unwrap();
    work_for(&worker, Duration::from_secs(1)).await;
    let job = queue.job(&job_id);
    assert_eq!((job.status, store.records().len()), (JobStatus::Parked, 0));
    let run = here.find(&job.run_id).await.unwrap().unwrap();
    let read = timeout(Duration::from_secs(5), read(here.follow(&run, 0))).await.unwrap();
    assert_eq!(read.last().map(String::as_str), Some("Waiting"), "{read:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_journal_has_no_end_is_never_said_to_have_ended() {
    let (store, queue) = (Arc::new(TestRuns::default()), Arc::new(TestQueue::default()));
    let here = beside(&store, &queue);
    begin(&store, "run_2").await;
    assert_eq!(here.find("run_2").await.unwrap().unwrap().job_id, None);
    assert_eq!(here.cancel("run_2").await.unwrap(), CancelOutcome::Refused);
    assert_eq!(store.events("run_2").len(), 1, "nothing is written over whoever carries it");
    store.append("run_2", Epoch(1), 1, &[Event::Cancelled]).await.unwrap();
    assert_eq!(here.cancel("run_2").await.unwrap(), CancelOutcome::HadEnded);
}

/// The next attempt at the job is made in another process, which tells nothing here.
#[tokio::test(start_paused = true)]
async fn a_reader_keeps_up_with_a_run_that_another_process_goes_on_with() {
    let store = Arc::new(TestRuns::default());
    let here = idle(&store);
    let run = FoundRun { run_id: "run_1".into(), user_id: None, job_id: None };
    let mut reader = here.follow(&run, 0);
    here.kept.journal.append("run_1", Epoch(1), 0, &[Event::HandedBack]).await.unwrap();
    assert!(matches!(reader.next().await, Some(Followed::Stored { number: 0, .. })));
    for (number, within) in [(1, 6), (2, 1), (3, 1)] {
        store.append("run_1", Epoch(2), number, &[Event::HandedBack]).await.unwrap();
        let next = timeout(Duration::from_secs(within), reader.next()).await;
        let is_next = matches!(&next, Ok(Some(Followed::Stored { number: told, .. })) if *told == number);
        assert!(is_next, "{number}: {next:?}");
    }
}
