use std::sync::Mutex;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::drive::DriveError;
use crate::invoke::{Admission, Agent, Answer, Ask, Invoke, InvokeError};
use crate::observe::{AttemptOutcome, Observer};
use crate::ports::queue::{ATTEMPTS, LEASE};
use crate::ports::{JobStatus, Journal, JournalError, ModelError};
use crate::record::Patient;
use crate::run::{Event, Limits};
use crate::testing::{EchoTools, ScriptedInvoke, ScriptedModel, TestQueue, TestRuns, asks_for, says};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Noted(Mutex<Vec<AttemptOutcome>>);

impl Observer for Noted {
    fn attempt_ended(&self, outcome: AttemptOutcome, _took: Duration) {
        self.0.lock().unwrap().push(outcome);
    }
}

struct Bench {
    queue: Arc<TestQueue>,
    runs: Arc<TestRuns>,
    noted: Arc<Noted>,
    admission: Admission,
    jobs: Jobs,
    worker: Worker,
    stopping: CancellationToken,
}

fn bench(agent: impl Invoke + 'static) -> Bench {
    bench_on(&Arc::default(), &Arc::default(), agent)
}

fn bench_on(queue: &Arc<TestQueue>, runs: &Arc<TestRuns>, agent: impl Invoke + 'static) -> Bench {
    let (noted, admission) = (Arc::new(Noted::default()), Admission::new(10));
    let jobs = Jobs::new(queue.clone());
    let shop = Workshop {
        name: "host-1".into(),
        admission: admission.clone(),
        agent: Arc::new(agent),
        journal: runs.clone(),
        observer: noted.clone(),
    };
    let worker = Worker::new(&jobs, shop);
    let (queue, runs, stopping) = (queue.clone(), runs.clone(), CancellationToken::new());
    Bench { queue, runs, noted, admission, jobs, worker, stopping }
}

impl Bench {
    async fn submit(&self) -> String {
        self.jobs.submit(&JobData { query: "2+2".into(), user_id: "u1".into() }).await.unwrap()
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
        self.noted.0.lock().unwrap().clone()
    }
}

async fn moments(count: u32) {
    tokio::time::sleep(SECOND * count).await;
}

fn unreachable() -> InvokeError {
    let (provider, detail) = ("p".into(), "connection refused".into());
    DriveError::Model(ModelError::Unreachable { provider, detail }).into()
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
    assert_eq!((asked.input.as_str(), asked.user_id.as_deref()), ("2+2", Some("u1")));
    assert_eq!((asked.run_id.as_str(), asked.job_id.as_deref()), ("run_job_1", Some("1")));
    assert_eq!(bench.noted(), [AttemptOutcome::Completed]);
}

#[tokio::test(start_paused = true)]
async fn failures_that_may_pass_are_tried_again_and_others_are_not() {
    let agent = ScriptedInvoke::new([Err(unreachable()), Ok(ScriptedInvoke::answer("4"))]);
    let bench = bench(agent);
    let job_id = bench.submit().await;
    let broken = bench.queue.add_broken("it has no query");
    let job = bench.work_while(bench.ended(&job_id)).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Completed, 2));
    let broken = bench.queue.job(&broken);
    assert_eq!(broken.error.as_deref(), Some("Invalid job data: it has no query"));
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
async fn a_long_run_keeps_its_lease_also_while_it_waits_for_a_place() {
    let agent = ScriptedInvoke::default();
    agent.add_after(LEASE * 3, Ok(ScriptedInvoke::answer("4")));
    let bench = bench(agent.clone());
    let mut places = Vec::new();
    for _ in 0..10 {
        places.push(bench.admission.enter().await);
    }
    let job_id = bench.submit().await;
    let work = async {
        tokio::time::sleep(LEASE * 3).await;
        assert_eq!((agent.asked().len(), bench.admission.waiting()), (0, 1));
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
        assert_eq!(bench.jobs.cancel("u2", &job_id).await, Ok(Cancelling::Unknown));
        let start = Instant::now();
        assert_eq!(bench.jobs.cancel("u1", &job_id).await, Ok(Cancelling::Asked));
        let job = bench.ended(&job_id).await;
        assert_eq!(start.elapsed(), Duration::ZERO, "at once");
        assert_eq!((job.status, agent.under_way()), (JobStatus::Cancelled, 0));
        assert_eq!(bench.jobs.cancel("u1", &job_id).await, Ok(Cancelling::HadEnded));
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
        assert_eq!(elsewhere.cancel("u1", &job_id).await, Ok(Cancelling::Asked));
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
async fn a_run_stops_before_anybody_else_can_have_its_job() {
    let agent = ScriptedInvoke::hanging();
    let bench = bench(agent.clone());
    bench.submit().await;
    let outage = async {
        moments(2).await;
        bench.queue.switch.fail(true);
        tokio::time::sleep(LEASE).await;
        assert_eq!(agent.under_way(), 0);
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
    assert!(there <= SECOND * 10 + LAST_LOOK + 5 * millisecond, "{there:?}");
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
    for breaks in [crate::testing::Switch::fail, crate::testing::Switch::hang] {
        let breaking = async {
            moments(1).await;
            breaks(&bench.queue.switch, true);
        };
        let (job, ()) = tokio::join!(bench.jobs.read("u1", &job_id, SECOND * 5), breaking);
        assert_eq!(job.unwrap().unwrap().status, JobStatus::Waiting);
        breaks(&bench.queue.switch, false);
    }
}

/// An agent on a scripted model whose runs are journaled in `runs`.
fn agent(runs: &Arc<TestRuns>, model: &Arc<ScriptedModel>) -> Agent {
    Agent {
        model: model.clone(),
        toolbox: Arc::new(EchoTools::new(&["echo"])),
        journal: Arc::new(Patient::new(runs.clone())),
        limits: Limits::default(),
    }
}

fn script() -> [Result<crate::ports::ModelReply, ModelError>; 3] {
    [
        Ok(asks_for(&[("1", "echo", json!({"n": 1})), ("2", "echo", json!({"n": 2}))])),
        Ok(asks_for(&[("3", "echo", json!({"n": 3}))])),
        Ok(says("done")),
    ]
}

/// A store that lets a certain number of events in and then hangs: whoever writes the next one is killed there.
struct Killing {
    runs: Arc<TestRuns>,
    events: usize,
}

#[async_trait::async_trait]
impl Journal for Killing {
    async fn append(&self, run_id: &str, sequence: u64, event: &Event) -> Result<(), JournalError> {
        if self.runs.events(run_id).len() >= self.events {
            std::future::pending::<()>().await;
        }
        self.runs.append(run_id, sequence, event).await
    }

    async fn read(&self, run_id: &str) -> Result<Vec<Event>, JournalError> {
        self.runs.read(run_id).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_killed_at_every_boundary_of_its_journal_completes_and_pays_for_nothing_twice() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let submitted = bench_on(&queue, &runs, ScriptedInvoke::hanging());
    let job_id = submitted.submit().await;
    // Each worker gets as far as one more event of progress than the one before, and is then killed.
    let mut kills = 0;
    while !queue.job(&job_id).status.has_ended() {
        let replies = |event: &&Event| matches!(event, Event::ModelReplied { .. });
        let done = runs.events("run_job_1").iter().filter(replies).count();
        let model = Arc::new(ScriptedModel::new(script().into_iter().skip(done)));
        let before = runs.events("run_job_1").len();
        // The first event of an attempt is that it began; one more is progress.
        let journal = Killing { runs: runs.clone(), events: before + if before == 0 { 1 } else { 2 } };
        let killed = Agent { journal: Arc::new(journal), ..agent(&runs, &model) };
        let bench = bench_on(&queue, &runs, killed);
        let worker = tokio::time::timeout(LEASE * 2, bench.worker.work(CancellationToken::new()));
        assert!(worker.await.is_err());
        tokio::time::sleep(LEASE).await;
        assert!(model.asked().len() <= 2, "at most the reply that was lost with its worker");
        kills += 1;
        assert!(kills < 20);
    }
    let job = queue.job(&job_id);
    assert_eq!((job.status, job.attempts_made), (JobStatus::Completed, 1));
    let events = runs.events("run_job_1");
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(count(|event| matches!(event, Event::ModelReplied { .. })), 3);
    assert_eq!(count(|event| matches!(event, Event::ToolReturned { .. })), 3);
    assert!(kills >= 6, "{kills} workers were killed");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_kills_every_worker_fails_and_says_why() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let submitted = bench_on(&queue, &runs, ScriptedInvoke::hanging());
    let job_id = submitted.submit().await;
    for _ in 0..4 {
        // The model never replies: the worker is killed while it waits.
        let journal = Killing { runs: runs.clone(), events: runs.events("run_job_1").len() + 1 };
        let killed = Agent {
            journal: Arc::new(journal),
            ..agent(&runs, &Arc::new(ScriptedModel::new([Ok(says("done"))])))
        };
        let bench = bench_on(&queue, &runs, killed);
        let _ = tokio::time::timeout(LEASE * 2, bench.worker.work(CancellationToken::new())).await;
        tokio::time::sleep(LEASE).await;
    }
    let job = queue.job(&job_id);
    assert_eq!(job.status, JobStatus::Failed);
    assert_eq!(job.error.as_deref(), Some("the run stopped its worker 3 times without making progress"));
}

/// An agent whose runs take as long as a test wants, and stop when they are told to.
struct Polite(Agent, Duration);

#[async_trait::async_trait]
impl Invoke for Polite {
    async fn invoke(&self, ask: Ask) -> Result<Answer, InvokeError> {
        let started = self.0.journal.read(&ask.run_id).await.unwrap().is_empty();
        if started {
            tokio::time::sleep(self.1).await;
        }
        self.0.invoke(ask).await
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_process_ends_a_run_stops_between_two_steps_and_goes_on_elsewhere() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let model = Arc::new(ScriptedModel::new(script()));
    let bench = bench_on(&queue, &runs, Polite(agent(&runs, &model), SECOND * 10));
    let job_id = bench.submit().await;
    bench.work_while(moments(5)).await;
    let job = queue.job(&job_id);
    assert_eq!((job.status, job.attempts_made), (JobStatus::Waiting, 0));
    assert_eq!(bench.noted(), [AttemptOutcome::HandedBack]);
    assert_eq!(model.asked().len(), 0, "no step was begun after the word to stop");
    assert_eq!(runs.events("run_job_1").last(), Some(&Event::HandedBack));

    let next = bench_on(&queue, &runs, agent(&runs, &model));
    let job = next.work_while(next.ended(&job_id)).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_takes_too_long_is_dropped_when_the_process_ends() {
    let agent = ScriptedInvoke::hanging();
    let bench = bench(agent.clone());
    let job_id = bench.submit().await;
    let begun = Event::TakenUp { by: "host-1".into() };
    bench.runs.append("run_job_1", 0, &begun).await.unwrap();
    let start = Instant::now();
    bench.work_while(moments(5)).await;
    let took = start.elapsed().as_secs();
    assert!((25..29).contains(&took), "{took} s");
    assert_eq!((bench.queue.job(&job_id).status, agent.under_way()), (JobStatus::Waiting, 0));
    assert_eq!(bench.runs.events("run_job_1"), [begun, Event::HandedBack]);
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_costs_no_attempt_and_the_worker_pauses() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let model = Arc::new(ScriptedModel::new(script()));
    let bench = bench_on(&queue, &runs, agent(&runs, &model));
    let job_id = bench.submit().await;
    runs.switch.fail(true);
    let outage = async {
        moments(100).await;
        assert_eq!(queue.job(&job_id).attempts_made, 0);
        runs.switch.fail(false);
        bench.ended(&job_id).await
    };
    let job = bench.work_while(outage).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Completed, 1));
    let back = bench.noted().iter().filter(|outcome| **outcome == AttemptOutcome::HandedBack).count();
    assert!((3..9).contains(&back), "{back} attempts in 100 s");
}
