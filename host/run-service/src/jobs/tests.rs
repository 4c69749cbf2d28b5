//! The worker and its callers on a queue in memory, by a clock that stands still.

mod cancel_asked;
mod cancelling;
mod dropped;
mod durability;
mod handover;
mod options;
mod outage;
mod waiting;

use parking_lot::Mutex;

use agent_core::circuit_breaker::{DEFAULT_MIN_VOLUME, SharedCircuit};
use agent_core::ports::queue::{ATTEMPTS, LEASE};
use agent_core::ports::{AttemptOutcome, Observer, Unobserved};
use agent_core::testing::{TestQueue, TestRuns};
use agent_core::words::{JobStatus, Principal, RunOutcome, StopReason};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::journal::{Backlog, Flusher, WriteBehind};
use crate::layers::{Admission, Breaker, Invoke, InvokeError};
use crate::loop_driver::RunError;
use crate::testing::ScriptedInvoke;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Noted(Mutex<Vec<AttemptOutcome>>);

impl Observer for Noted {
    fn attempt_ended(&self, outcome: AttemptOutcome, _took: Duration) {
        self.0.lock().push(outcome);
    }
}

struct Bench {
    queue: Arc<TestQueue>,
    runs: Arc<TestRuns>,
    noted: Arc<Noted>,
    admission: Admission,
    circuit: SharedCircuit,
    jobs: Jobs,
    worker: Worker,
    stopping: CancellationToken,
}

fn bench(agent: impl Invoke + 'static) -> Bench {
    bench_on(&Arc::default(), &Arc::default(), agent)
}

fn bench_on(queue: &Arc<TestQueue>, runs: &Arc<TestRuns>, agent: impl Invoke + 'static) -> Bench {
    bench_of(Jobs::new(queue.clone()), queue, runs, agent)
}

/// A bench whose jobs are those of that queue.
fn bench_of(jobs: Jobs, queue: &Arc<TestQueue>, runs: &Arc<TestRuns>, agent: impl Invoke + 'static) -> Bench {
    let (noted, admission) = (Arc::new(Noted::default()), Admission::new(10));
    let circuit = agent_core::testing::circuit(DEFAULT_MIN_VOLUME);
    let context = WorkerContext {
        name: "host-1".into(),
        admission: admission.clone(),
        agent: Arc::new(Breaker::new(agent, circuit.clone())),
        circuit: circuit.clone(),
        journal: runs.clone(),
        observer: noted.clone(),
    };
    let worker = Worker::new(&jobs, context);
    let (queue, runs, stopping) = (queue.clone(), runs.clone(), CancellationToken::new());
    Bench { queue, runs, noted, admission, circuit, jobs, worker, stopping }
}

/// Jobs whose runs are ended when they are cancelled, and what writes the records of those.
fn ending_jobs(queue: &Arc<TestQueue>, runs: &Arc<TestRuns>) -> (Jobs, Flusher) {
    let (behind, flusher) = WriteBehind::new(runs.clone(), Backlog::default(), Arc::new(Unobserved));
    (Jobs::new(queue.clone()).ending(CancelledRuns::new(runs.clone(), behind)), flusher)
}

/// The only record is that of the user's first job, which was cancelled and had used so many tokens.
fn assert_recorded_as_cancelled(runs: &TestRuns, tokens: u64) {
    let records = runs.records();
    let [record] = &records[..] else { panic!("{records:?}") };
    let of = (record.id.as_str(), record.job_id.as_deref(), record.user_id.as_deref());
    assert_eq!(of, ("run_job_1", Some("1"), Some("u1")));
    let RunOutcome::Ended { stop_reason, usage, .. } = &record.outcome else { panic!("{record:?}") };
    assert_eq!((*stop_reason, usage.total()), (StopReason::Cancelled, tokens));
}

impl Bench {
    async fn submit(&self) -> String {
        self.jobs.submit(&JobData::new("2+2", "u1")).await.unwrap()
    }

    /// Works while `callers` do something, then stops and waits for the worker.
    async fn work_while<T>(&self, callers: impl Future<Output = T>) -> T {
        let work = self.worker.work(self.stopping.clone());
        let callers = async {
            let answer = callers.await;
            self.stopping.cancel();
            answer
        };
        tokio::join!(work, callers).1
    }

    /// Waits until a job has ended.
    async fn ended(&self, job_id: &str) -> Job {
        let job = self.jobs.read("u1", job_id, Duration::from_secs(3600)).await.unwrap().unwrap();
        assert!(job.status.has_ended(), "{job:?}");
        job
    }

    fn noted(&self) -> Vec<AttemptOutcome> {
        self.noted.0.lock().clone()
    }
}

async fn moments(count: u32) {
    tokio::time::sleep(SECOND * count).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_is_completed_with_the_agents_result() {
    let agent = ScriptedInvoke::answering("4");
    let bench = bench(agent.clone());
    let job_id = bench.submit().await;
    let job = bench.work_while(bench.ended(&job_id)).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Completed, 1));
    let result: Value = serde_json::from_str(job.result.unwrap().get()).unwrap();
    assert_eq!(result["output"], "4");
    assert!(result.get("cached").is_none());
    let asked = &agent.asked()[0];
    assert_eq!((asked.input.as_str(), asked.principal.user_id.as_deref()), ("2+2", Some("u1")));
    assert_eq!((asked.run_id.as_str(), asked.job_id()), ("run_job_1", Some("1")));
    assert_eq!(bench.noted(), [AttemptOutcome::Completed]);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_made_on_behalf_of_who_submitted_the_job() {
    let agent = ScriptedInvoke::answering("4");
    let bench = bench(agent.clone());
    let (tier, role) = (Some("premium".to_owned()), Some("admin".to_owned()));
    let submitters = [Principal { tier, role, ..Principal::user("u1") }, Principal::user("u1")];
    for submitter in submitters.clone() {
        bench.jobs.submit(&JobData::submitted_by(submitter, "2+2".into())).await.unwrap();
    }
    // Somebody else added it, without saying whose it is.
    bench.jobs.submit(&JobData::new("2+2", "")).await.unwrap();
    bench
        .work_while(async {
            while agent.asked().len() < 3 {
                moments(1).await
            }
        })
        .await;
    let asked: Vec<_> = agent.asked().into_iter().map(|ask| ask.principal).collect();
    assert_eq!(asked, [submitters.as_slice(), &[Principal::default()]].concat());
}

#[tokio::test(start_paused = true)]
async fn failures_that_may_pass_are_tried_again_and_others_are_not() {
    let panicked = RunError::Panicked.into();
    let agent = ScriptedInvoke::new([Err(panicked), Ok(ScriptedInvoke::answer("4"))]);
    let bench = bench(agent);
    let job_id = bench.submit().await;
    let broken = bench.queue.add_broken("it has no query");
    let job = bench.work_while(bench.ended(&job_id)).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Completed, 2), "the panic was an attempt");
    let broken = bench.queue.job(&broken);
    assert_eq!(broken.error.as_deref(), Some("it has no query"));
    assert_eq!((broken.status, broken.attempts_made), (JobStatus::Failed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_panics_fails_its_job_and_the_worker_goes_on() {
    let agent = ScriptedInvoke::default();
    agent.panic();
    let bench = bench(agent.clone());
    let job_id = bench.submit().await;
    let next = async {
        let job = bench.ended(&job_id).await;
        agent.add(Ok(ScriptedInvoke::answer("4")));
        let next = bench.submit().await;
        (job, bench.ended(&next).await)
    };
    let (job, next) = bench.work_while(next).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Failed, ATTEMPTS));
    assert_eq!(job.error.as_deref(), Some("Internal server error"));
    assert_eq!(next.status, JobStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_job_stays_in_the_queue_while_there_is_no_place_and_a_long_run_keeps_its_lease() {
    let agent = ScriptedInvoke::default();
    agent.add_after(LEASE * 3, Ok(ScriptedInvoke::answer("4")));
    let bench = bench(agent.clone());
    let mut places = Vec::new();
    for _ in 0..10 {
        places.push(bench.admission.acquire().await);
    }
    let job_id = bench.submit().await;
    let work = async {
        tokio::time::sleep(LEASE * 3).await;
        // A slot that only looks for a place is not counted among those who wait for one.
        assert_eq!((agent.asked().len(), bench.admission.waiting()), (0, 0));
        assert_eq!(bench.queue.job(&job_id).status, JobStatus::Waiting);
        places.clear();
        bench.ended(&job_id).await
    };
    let job = bench.work_while(work).await;
    assert_eq!((job.status, job.attempts_made, agent.asked().len()), (JobStatus::Completed, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_job_cancelled_here_has_stopped_before_its_status_says_so() {
    let agent = ScriptedInvoke::hanging();
    let bench = bench(agent.clone());
    let job_id = bench.submit().await;
    let cancel = async {
        moments(1).await;
        assert_eq!(agent.under_way(), 1);
        assert_eq!(bench.jobs.cancel("u2", &job_id).await, Ok(CancelOutcome::Unknown));
        let start = Instant::now();
        assert_eq!(bench.jobs.cancel("u1", &job_id).await, Ok(CancelOutcome::Asked));
        let job = bench.ended(&job_id).await;
        assert_eq!(start.elapsed(), Duration::ZERO, "at once");
        assert_eq!((job.status, agent.under_way()), (JobStatus::Cancelled, 0));
        assert_eq!(bench.jobs.cancel("u1", &job_id).await, Ok(CancelOutcome::HadEnded));
    };
    bench.work_while(cancel).await;
    assert_eq!(bench.noted(), [AttemptOutcome::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn a_job_cancelled_elsewhere_stops_within_about_a_second() {
    let agent = ScriptedInvoke::hanging();
    let bench = bench(agent.clone());
    let elsewhere = Jobs::new(bench.queue.clone());
    let job_id = bench.submit().await;
    let cancel = async {
        moments(10).await;
        let start = Instant::now();
        assert_eq!(elsewhere.cancel("u1", &job_id).await, Ok(CancelOutcome::Asked));
        let job = elsewhere.read("u1", &job_id, Duration::from_secs(60)).await.unwrap().unwrap();
        assert_eq!((job.status, agent.under_way()), (JobStatus::Cancelled, 0));
        assert!(start.elapsed() <= SECOND * 3 / 2 + SECOND / 10, "{:?}", start.elapsed());
    };
    bench.work_while(cancel).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_lost_is_dropped_and_left_alone() {
    let agent = ScriptedInvoke::hanging();
    let bench = bench(agent.clone());
    let job_id = bench.submit().await;
    let steal = async {
        moments(1).await;
        bench.queue.steal(&job_id);
        moments(2).await;
        assert_eq!(agent.under_way(), 0);
        bench.stopping.cancel();
    };
    bench.work_while(steal).await;
    assert_eq!(bench.noted(), [AttemptOutcome::Lost]);
    let job = bench.queue.job(&job_id);
    assert_eq!((job.status, job.attempts_made), (JobStatus::Active, 0));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_process_has_little_time_to_stop_is_handed_back_within_it() {
    let mut bench = bench(ScriptedInvoke::hanging());
    bench.worker = bench.worker.with_step_grace(SECOND * 3);
    let job_id = bench.submit().await;
    let start = Instant::now();
    bench.work_while(moments(1)).await;
    assert!(start.elapsed() < SECOND * 10, "{:?}", start.elapsed());
    assert_eq!(bench.noted(), [AttemptOutcome::HandedBack]);
    assert_eq!(bench.queue.job(&job_id).status, JobStatus::Waiting);
}

#[tokio::test(start_paused = true)]
async fn a_run_stops_before_anybody_else_can_have_its_job() {
    let agent = ScriptedInvoke::hanging();
    let bench = bench(agent.clone());
    bench.submit().await;
    let outage = async {
        // The store counts the lease from the last renewal, or from the taking. Every failure comes at once.
        moments(2).await;
        let renewed = Instant::now();
        bench.queue.switch.fail(true);
        while agent.under_way() > 0 {
            tokio::time::sleep(SECOND / 10).await;
        }
        assert!(renewed.elapsed() < LEASE, "{:?}", renewed.elapsed());
    };
    bench.work_while(outage).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_is_told_to_the_queue_as_soon_as_that_is_there_again() {
    let agent = ScriptedInvoke::default();
    agent.add_after(SECOND * 2, Ok(ScriptedInvoke::answer("4")));
    let bench = bench(agent.clone());
    let job_id = bench.submit().await;
    let outage = async {
        moments(1).await;
        bench.queue.switch.fail(true);
        moments(30).await;
        bench.queue.switch.fail(false);
        bench.ended(&job_id).await
    };
    let job = bench.work_while(outage).await;
    assert_eq!((job.status, agent.asked().len()), (JobStatus::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_down_is_asked_less_and_less_often() {
    let bench = bench(ScriptedInvoke::answering("4"));
    bench.queue.switch.fail(true);
    bench.work_while(moments(100)).await;
    assert!((15..40).contains(&bench.queue.calls()), "{} calls in 100 s", bench.queue.calls());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_caller_learns_of_the_end_at_once_here_and_soon_elsewhere() {
    let agent = ScriptedInvoke::default();
    agent.add_after(SECOND * 10, Ok(ScriptedInvoke::answer("4")));
    let bench = bench(agent);
    let elsewhere = Jobs::new(bench.queue.clone());
    let job_id = bench.submit().await;
    let start = Instant::now();
    let waiting = async {
        let unfinished = bench.jobs.read("u1", &job_id, SECOND * 3).await.unwrap().unwrap();
        assert_eq!((unfinished.status, start.elapsed().as_secs()), (JobStatus::Active, 3));
        let here = async {
            bench.ended(&job_id).await;
            start.elapsed()
        };
        let there = async {
            elsewhere.read("u1", &job_id, SECOND * 60).await.unwrap();
            start.elapsed()
        };
        tokio::join!(here, there)
    };
    let (here, there) = bench.work_while(waiting).await;
    let millisecond = Duration::from_millis(1);
    assert!(here <= SECOND * 10 + 5 * millisecond, "{here:?}");
    assert!(there <= SECOND * 10 + LAST_POLL + 5 * millisecond, "{there:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_job_that_is_not_theirs_or_longer_than_asked() {
    let bench = bench(ScriptedInvoke::hanging());
    let job_id = bench.submit().await;
    let start = Instant::now();
    assert!(bench.jobs.read("u2", &job_id, SECOND * 60).await.unwrap().is_none());
    assert!(bench.jobs.read("u1", "99", SECOND * 60).await.unwrap().is_none());
    assert!(bench.jobs.read("u1", &job_id, Duration::ZERO).await.unwrap().is_some());
    assert!(start.elapsed() < SECOND);
    // A store that fails or hangs while somebody waits is no error: what was read before still holds.
    for breaks in [agent_core::testing::Switch::fail, agent_core::testing::Switch::hang] {
        let breaking = async {
            moments(1).await;
            breaks(&bench.queue.switch, true);
        };
        let (job, ()) = tokio::join!(bench.jobs.read("u1", &job_id, SECOND * 5), breaking);
        assert_eq!(job.unwrap().unwrap().status, JobStatus::Waiting);
        breaks(&bench.queue.switch, false);
    }
}
