//! Jobs that are to be cancelled and whose workers die before they hear of it.

use agent_core::ports::queue::MOST_LOSSES;
use agent_core::testing::{EchoTools, ScriptedModel, asks_for, says};
use agent_core::words::{Event, ModelReply};
use boxed_async::boxed_async;
use serde_json::json;

use super::*;
use crate::journal::{Flusher, RetryingJournal};
use crate::layers::{Agent, Ask, InvokeResult};

/// An agent whose runs are journaled in `runs`, and its model, which replies so.
fn agent(runs: &Arc<TestRuns>, tools: EchoTools, reply: ModelReply) -> (Agent, Arc<ScriptedModel>) {
    let model = Arc::new(ScriptedModel::new([Ok(reply)]));
    let journal = Arc::new(RetryingJournal::new(runs.clone()));
    (Agent::new(model.clone(), Arc::new(tools), journal), model)
}

/// Works for half a second and is killed, and the job is to be cancelled from then on.
async fn killed(bench: &Bench, job_id: &str) {
    let worker = tokio::time::timeout(SECOND / 2, bench.worker.work(CancellationToken::new()));
    assert!(worker.await.is_err());
    bench.queue.switch.hang(false);
    assert_eq!(bench.jobs.cancel("u1", job_id).await.unwrap(), CancelOutcome::Asked);
}

/// The next worker over the same stores, which has nothing to ask, and what writes its records.
fn successor(killed: &Bench) -> (Bench, Flusher) {
    let (queue, runs) = (&killed.queue, &killed.runs);
    let (jobs, flusher) = ending_jobs(queue, runs);
    let nothing = Arc::new(ScriptedModel::new([]));
    let journal = Arc::new(RetryingJournal::new(runs.clone()));
    let agent = Agent::new(nothing, Arc::new(EchoTools::new(&["echo"])), journal);
    (bench_of(jobs, queue, runs, agent), flusher)
}

#[tokio::test(start_paused = true)]
async fn the_next_worker_ends_the_run_without_a_step_and_records_what_it_cost() {
    let runs = Arc::default();
    let hanging = EchoTools::new(&["echo"]).hanging();
    let (agent, model) = agent(&runs, hanging, asks_for(&[("1", "echo", json!({}))]));
    let bench = bench_on(&Arc::default(), &runs, agent);
    let job_id = bench.submit().await;
    killed(&bench, &job_id).await;
    let before = runs.events("run_job_1");

    let (next, flusher) = successor(&bench);
    let job = next.work_while(next.ended(&job_id)).await;
    assert_eq!((job.status, next.noted()), (JobStatus::Cancelled, vec![AttemptOutcome::Cancelled]));
    assert_eq!(runs.events("run_job_1"), [&before[..], &[Event::Cancelled]].concat());
    assert_eq!(model.asked().len(), 1);
    flusher.run(next.stopping.clone()).await;
    assert_recorded_as_cancelled(&runs, 15);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_run_never_began_is_cancelled_and_leaves_no_run() {
    let bench = bench(ScriptedInvoke::hanging());
    let job_id = bench.submit().await;
    killed(&bench, &job_id).await;
    let (next, flusher) = successor(&bench);
    let job = next.work_while(next.ended(&job_id)).await;
    assert_eq!((job.status, next.noted()), (JobStatus::Cancelled, vec![AttemptOutcome::Cancelled]));
    flusher.run(next.stopping.clone()).await;
    assert!(bench.runs.records().is_empty() && bench.runs.events("run_job_1").is_empty());
}

/// An agent behind whose runs the queue does not answer any more.
struct Cutting(Agent, Arc<TestQueue>);

#[boxed_async]
impl Invoke for Cutting {
    async fn invoke(&self, ask: Ask) -> InvokeResult {
        let answer = self.0.invoke(ask).await;
        self.1.switch.hang(true);
        answer
    }
}

/// The end of the run came before the wish, and is told although the worker is dead that came to it.
#[tokio::test(start_paused = true)]
async fn a_run_that_had_ended_before_keeps_its_result() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::default());
    let (agent, model) = agent(&runs, EchoTools::new(&["echo"]), says("done"));
    let bench = bench_on(&queue, &runs, Cutting(agent, queue.clone()));
    let job_id = bench.submit().await;
    killed(&bench, &job_id).await;
    let before = runs.events("run_job_1");

    let (next, _flusher) = successor(&bench);
    let job = next.work_while(next.ended(&job_id)).await;
    assert_eq!((job.status, next.noted()), (JobStatus::Completed, vec![AttemptOutcome::Completed]));
    let result: Value = serde_json::from_str(job.result.unwrap().get()).unwrap();
    assert_eq!((&result["output"], model.asked().len()), (&json!("done"), 1));
    assert_eq!(runs.events("run_job_1"), before);
}

/// On a queue that lets a job be claimed however many workers died of it.
#[tokio::test(start_paused = true)]
async fn a_job_that_killed_enough_workers_fails_and_an_unwanted_one_is_cancelled_for_longer() {
    for (losses, is_cancelled, status) in [
        (MOST_LOSSES - 1, false, JobStatus::Completed),
        (MOST_LOSSES, false, JobStatus::Failed),
        (MOST_LOSSES, true, JobStatus::Cancelled),
        (2 * MOST_LOSSES, true, JobStatus::Failed),
    ] {
        let runs = Arc::default();
        let (agent, model) = agent(&runs, EchoTools::new(&["echo"]), says("done"));
        let bench = bench_on(&Arc::default(), &runs, agent);
        let job_id = bench.submit().await;
        for _ in 0..losses {
            bench.queue.claim("dead", Duration::ZERO).await.unwrap().unwrap();
            tokio::time::sleep(LEASE).await;
        }
        if is_cancelled {
            assert_eq!(bench.queue.cancel(&job_id).await.unwrap(), CancelOutcome::Asked);
        }
        let job = bench.work_while(bench.ended(&job_id)).await;
        assert_eq!((job.status, model.asked().len()), (status, usize::from(status == JobStatus::Completed)));
        let why = "the run stopped its worker 20 times";
        assert!(is_cancelled || job.error.is_none_or(|error| error == why));
    }
}
