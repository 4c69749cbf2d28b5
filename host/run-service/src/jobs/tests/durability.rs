//! Workers that are killed or told to stop: what was done stays done.

use agent_core::ports::{
    AttemptEnd, Claim, Epoch, Journal, JournalError, JournalResult, ModelError, Unobserved,
};
use agent_core::testing::{EchoTools, ScriptedModel, asks_for, says, task};
use agent_core::words::{Event, ModelReply, Task};
use serde_json::json;

use super::*;
use crate::journal::{Backlog, LastEventsBehind, RetryingJournal, WriteBehind};
use crate::layers::{Agent, Ask, Recorded, RunAnswer};
use crate::loop_driver::RunClaim;

/// An agent on a scripted model whose runs are journaled in `runs`.
fn agent(runs: &Arc<TestRuns>, model: &Arc<ScriptedModel>) -> Agent {
    Agent::new(
        model.clone(),
        Arc::new(EchoTools::new(&["echo"])),
        Arc::new(RetryingJournal::new(runs.clone())),
    )
}

fn script() -> [Result<ModelReply, ModelError>; 3] {
    [
        Ok(asks_for(&[("1", "echo", json!({"n": 1})), ("2", "echo", json!({"n": 2}))])),
        Ok(asks_for(&[("3", "echo", json!({"n": 3}))])),
        Ok(says("done")),
    ]
}

/// A store that lets a certain number of events in and then hangs: whoever writes the next one is killed
/// there.
struct Killing {
    runs: Arc<TestRuns>,
    events: usize,
}

#[boxed_async::boxed_async]
impl Journal for Killing {
    async fn append(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
        if self.runs.events(run_id).len() >= self.events {
            std::future::pending::<()>().await;
        }
        self.runs.append(run_id, epoch, first, events).await
    }

    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        self.runs.read(run_id, from).await
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

/// Whether the first worker dies before or after it has written that the run began.
#[tokio::test(start_paused = true)]
async fn a_job_that_kills_every_worker_fails_and_says_why() {
    for first_life in [SECOND / 10, LEASE * 2] {
        let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
        let model = Arc::new(ScriptedModel::hanging());
        let submitted = bench_on(&queue, &runs, ScriptedInvoke::hanging());
        let job_id = submitted.submit().await;
        for life in [first_life, LEASE * 2, LEASE * 2, LEASE * 2] {
            let bench = bench_on(&queue, &runs, agent(&runs, &model));
            let _ = tokio::time::timeout(life, bench.worker.work(CancellationToken::new())).await;
            tokio::time::sleep(LEASE).await;
        }
        let job = queue.job(&job_id);
        assert_eq!((job.status, model.asked().len()), (JobStatus::Failed, 3), "{first_life:?}");
        assert_eq!(job.error.as_deref(), Some("the run stopped its worker 3 times"));
    }
}

/// The journal's store does not answer, and the job needs nothing of it.
#[tokio::test(start_paused = true)]
async fn a_job_of_one_model_call_waits_for_no_journal_and_has_one_afterwards() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let model = Arc::new(ScriptedModel::new([Ok(says("4"))]));
    let (behind, flusher) = WriteBehind::new(runs.clone(), Backlog::default(), Arc::new(Unobserved));
    let agent = agent(&runs, &model);
    let journal = Arc::new(LastEventsBehind::new(agent.journal.clone(), behind.clone()));
    let bench = bench_on(&queue, &runs, Recorded::new(Agent { journal, ..agent }, behind));
    runs.switch.hang(true);
    let start = Instant::now();
    let job_id = bench.submit().await;
    let ended = async {
        assert_eq!(bench.ended(&job_id).await.status, JobStatus::Completed);
        start.elapsed()
    };
    assert_eq!(bench.work_while(ended).await, Duration::ZERO);
    assert_eq!((runs.events("run_job_1"), runs.records().len()), (vec![], 0));

    runs.switch.hang(false);
    flusher.run(bench.stopping.clone()).await;
    let events = runs.events("run_job_1");
    let [Event::Started { task, .. }, Event::ModelReplied { reply, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((task.id.as_str(), reply.content.as_str()), ("run_job_1", "4"));
    assert_eq!(runs.records().len(), 1);
}

/// The turn is appended before the queue is told: when that fails, the job is handed back and its model was
/// paid.
#[tokio::test(start_paused = true)]
async fn the_last_reply_of_a_job_in_a_conversation_is_stored_before_anything_follows_from_it() {
    for (conversation_id, stored) in [(None, 0), (Some("chat".to_owned()), 2)] {
        let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
        let model = Arc::new(ScriptedModel::new([Ok(says("4"))]));
        let (behind, _flusher) = WriteBehind::new(runs.clone(), Backlog::default(), Arc::new(Unobserved));
        let agent = agent(&runs, &model);
        let journal = Arc::new(LastEventsBehind::new(agent.journal.clone(), behind));
        let bench = bench_on(&queue, &runs, Agent { journal, ..agent });
        let job = JobData { conversation_id, ..JobData::new("2+2", "u1") };
        let job_id = bench.jobs.submit(&job).await.unwrap();
        let ended = async { bench.ended(&job_id).await.status };
        assert_eq!(bench.work_while(ended).await, JobStatus::Completed);
        assert_eq!(runs.events("run_job_1").len(), stored, "{:?}", job.conversation_id);
    }
}

/// Readers on other replicas see that it has begun, and a death is counted.
#[tokio::test(start_paused = true)]
async fn a_start_is_written_beside_a_model_call_that_takes_its_time() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let silent = agent(&runs, &Arc::new(ScriptedModel::hanging()));
    let bench = bench_on(&queue, &runs, silent);
    bench.submit().await;
    let looks = async {
        tokio::time::sleep(SECOND / 5).await;
        assert_eq!(runs.events("run_job_1"), []);
        tokio::time::sleep(SECOND / 10).await;
        assert!(matches!(runs.events("run_job_1")[..], [Event::Started { .. }]));
    };
    tokio::select! {
        () = looks => {}
        () = bench.worker.work(CancellationToken::new()) => panic!("nobody stops it"),
    }
}

/// Whoever takes a job over writes that before anything else, so that a slow worker's reply comes too late.
#[tokio::test(start_paused = true)]
async fn a_worker_that_was_replaced_before_it_wrote_anything_writes_nothing_any_more() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let submitted = bench_on(&queue, &runs, ScriptedInvoke::hanging());
    submitted.submit().await;
    let slow = queue.claim("slow", SECOND).await.unwrap().unwrap();
    tokio::time::sleep(LEASE).await;
    let heir = queue.claim("heir", SECOND).await.unwrap().unwrap();
    let ask = |claim: &Claim| Ask {
        run_id: claim.run_id.clone(),
        claim: Some(RunClaim {
            epoch: claim.epoch,
            earlier: claim.earlier,
            last_may_wait: true,
            ..RunClaim::default()
        }),
        ..Ask::new("1".into(), "2+2".into())
    };
    let silent = agent(&runs, &Arc::new(ScriptedModel::hanging()));
    assert!(tokio::time::timeout(SECOND, silent.invoke(ask(&heir))).await.is_err());
    let begun = runs.events("run_job_1");
    assert!(matches!(begun[..], [Event::Started { .. }, Event::TakenUp { .. }]), "{begun:?}");

    let answers = agent(&runs, &Arc::new(ScriptedModel::new([Ok(says("4"))])));
    let error = answers.invoke(ask(&slow)).await.unwrap_err();
    let InvokeError::Run(RunError::Journal(error)) = &error else { panic!("{error:?}") };
    assert!(matches!(error, JournalError::Fenced { .. }), "{error}");
    assert_eq!(runs.events("run_job_1"), begun);
}

/// A store in which the last event of a worker that was replaced lands after its successor has read the
/// journal.
struct Late {
    runs: Arc<TestRuns>,
    event: Mutex<Option<Event>>,
}

#[boxed_async::boxed_async]
impl Journal for Late {
    async fn append(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
        let late = self.event.lock().take();
        if let Some(event) = late {
            self.runs.append(run_id, Epoch(epoch.0 - 1), first, &[event]).await?;
        }
        self.runs.append(run_id, epoch, first, events).await
    }

    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        self.runs.read(run_id, from).await
    }
}

/// A successor holds the lease, so it does not leave the job to somebody who would have to wait for that to
/// end.
#[tokio::test(start_paused = true)]
async fn a_successor_goes_on_behind_the_last_event_of_whom_it_replaced() {
    // What the worker before had been told when it was replaced.
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let whole = bench_on(&queue, &runs, agent(&runs, &Arc::new(ScriptedModel::new(script()))));
    let job_id = whole.submit().await;
    whole.work_while(whole.ended(&job_id)).await;
    let reply = runs.events("run_job_1").remove(1);
    assert!(matches!(reply, Event::ModelReplied { .. }), "{reply:?}");

    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let silent = agent(&runs, &Arc::new(ScriptedModel::hanging()));
    let replaced = bench_on(&queue, &runs, silent);
    let job_id = replaced.submit().await;
    assert!(tokio::time::timeout(SECOND, replaced.worker.work(CancellationToken::new())).await.is_err());
    tokio::time::sleep(LEASE).await;

    let model = Arc::new(ScriptedModel::new(script().into_iter().skip(1)));
    let journal = Arc::new(Late { runs: runs.clone(), event: Mutex::new(Some(reply)) });
    let successor = bench_on(&queue, &runs, Agent { journal, ..agent(&runs, &model) });
    let start = Instant::now();
    let job = successor.work_while(successor.ended(&job_id)).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Completed, 1));
    assert_eq!((model.asked().len(), successor.noted()), (2, vec![AttemptOutcome::Completed]));
    assert!(start.elapsed() < LEASE, "{:?}", start.elapsed());
    let by = |event: &&Event| matches!(event, Event::TakenUp { .. });
    assert_eq!(runs.events("run_job_1").iter().filter(by).count(), 1);
}

/// An agent whose runs take as long as a test wants, and stop when they are told to.
struct Polite(Agent, Duration);

#[boxed_async::boxed_async]
impl Invoke for Polite {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        let started = self.0.journal.read(&ask.run_id, 0).await.unwrap().is_empty();
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
    bench.runs.append("run_job_1", Epoch(1), 0, std::slice::from_ref(&begun)).await.unwrap();
    let start = Instant::now();
    bench.work_while(moments(5)).await;
    let took = start.elapsed().as_secs();
    assert!((25..29).contains(&took), "{took} s");
    assert_eq!((bench.queue.job(&job_id).status, agent.under_way()), (JobStatus::Waiting, 0));
    assert_eq!(bench.runs.events("run_job_1"), [begun, Event::HandedBack]);
}

/// The run was dropped in the middle of an append, and its job is not tried again.
#[tokio::test(start_paused = true)]
async fn what_a_failed_attempt_had_on_its_way_to_the_journal_does_not_arrive_behind_it() {
    let bench = bench(ScriptedInvoke::new([Err(RunError::Panicked.into())]));
    let job_id = bench.submit().await;
    let task = Task { id: "run_job_1".into(), ..task("2+2") };
    let asks = Event::from(asks_for(&[("1", "echo", json!({}))]));
    let begun = [Event::Started { task, tools: "sha256:test".into() }, asks];
    bench.runs.append("run_job_1", Epoch(1), 0, &begun).await.unwrap();
    let job = bench.work_while(bench.ended(&job_id)).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Failed, ATTEMPTS));
    // The first two attempts have taken a number each.
    let late = bench.runs.append("run_job_1", Epoch(3), 4, &[Event::from(says("late"))]).await;
    assert!(matches!(late, Err(JournalError::Conflict { .. })), "{late:?}");
    assert_eq!(bench.runs.events("run_job_1")[2..], vec![Event::HandedBack; 3]);
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

#[tokio::test(start_paused = true)]
async fn a_job_whose_journal_is_damaged_fails_at_once_and_holds_up_no_other() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let bench = bench_on(&queue, &runs, agent(&runs, &Arc::new(ScriptedModel::new([Ok(says("4"))]))));
    let (damaged, other) = (bench.submit().await, bench.submit().await);
    // The journal of a job that nobody has claimed before is not read.
    let before = queue.claim("host-0", SECOND).await.unwrap().unwrap();
    queue.settle(&before, &AttemptEnd::HANDED_BACK).await.unwrap();
    runs.damage("run_job_1");
    let start = Instant::now();
    let job = bench.work_while(bench.ended(&other)).await;
    assert_eq!((job.status, bench.noted()[0]), (JobStatus::Completed, AttemptOutcome::Failed));
    assert!(start.elapsed() < 5 * SECOND, "a store that fails is tried for 15 s: {:?}", start.elapsed());
    let job = queue.job(&damaged);
    assert_eq!((job.status, job.attempts_made), (JobStatus::Failed, 1));
    assert_eq!(job.error.as_deref(), Some("Internal server error"));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_leaves_a_record_of_what_it_cost_and_a_journal_that_says_so() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let model = Arc::new(ScriptedModel::new([Ok(asks_for(&[("1", "echo", json!({}))]))]));
    let hanging = Agent { toolbox: Arc::new(EchoTools::new(&["echo"]).hanging()), ..agent(&runs, &model) };
    let (behind, drain) = WriteBehind::new(runs.clone(), Backlog::default(), Arc::new(Unobserved));
    let bench = bench_on(&queue, &runs, Recorded::new(hanging, behind));
    let job_id = bench.submit().await;
    let cancel = async {
        moments(1).await;
        bench.jobs.cancel("u1", &job_id).await.unwrap();
        bench.ended(&job_id).await
    };
    let job = bench.work_while(cancel).await;
    assert_eq!((job.status, bench.noted()), (JobStatus::Cancelled, vec![AttemptOutcome::Cancelled]));
    assert_eq!(runs.events("run_job_1").last(), Some(&Event::Cancelled));

    drain.run(bench.stopping.clone()).await;
    assert_recorded_as_cancelled(&runs, 15);
}

/// The job's run was told to stop, so that nothing drives it when its owner cancels the job.
#[tokio::test(start_paused = true)]
async fn a_job_cancelled_between_two_attempts_leaves_a_record_of_what_the_first_one_cost() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let model = Arc::new(ScriptedModel::new([Ok(asks_for(&[("1", "echo", json!({}))]))]));
    let hanging = Agent { toolbox: Arc::new(EchoTools::new(&["echo"]).hanging()), ..agent(&runs, &model) };
    let bench = bench_on(&queue, &runs, hanging);
    let (job_id, untouched) = (bench.submit().await, bench.submit().await);
    bench.work_while(moments(1)).await;
    assert_eq!((queue.job(&job_id).status, runs.records().len()), (JobStatus::Waiting, 0));

    let (jobs, drain) = ending_jobs(&queue, &runs);
    for id in [&job_id, &untouched] {
        assert_eq!(jobs.cancel("u1", id).await.unwrap(), CancelOutcome::Done);
    }
    assert_eq!(runs.events("run_job_1").last(), Some(&Event::Cancelled));
    assert_eq!(runs.events("run_job_2"), [], "it has no run");

    drain.run(bench.stopping.clone()).await;
    assert_recorded_as_cancelled(&runs, 15);
}

/// Cancelling a job is no matter of its journal.
#[tokio::test(start_paused = true)]
async fn a_job_that_waits_is_cancelled_although_its_journal_does_not_answer() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let bench = bench_on(&queue, &runs, ScriptedInvoke::hanging());
    let job_id = bench.submit().await;
    bench.work_while(moments(1)).await;
    runs.switch.hang(true);
    let store: Arc<dyn RunStore> = runs.clone();
    let jobs = Jobs::new(queue.clone()).ending(CancelledRuns::beside_the_service(&store).0);
    let start = Instant::now();
    assert_eq!(jobs.cancel("u1", &job_id).await.unwrap(), CancelOutcome::Done);
    assert!(start.elapsed() < LEASE, "{:?}", start.elapsed());
    assert_eq!(queue.job(&job_id).status, JobStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_job_is_cancelled_although_its_journal_does_not_answer() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let model = Arc::new(ScriptedModel::new([Ok(asks_for(&[("1", "echo", json!({}))]))]));
    let hanging = Agent { toolbox: Arc::new(EchoTools::new(&["echo"]).hanging()), ..agent(&runs, &model) };
    let bench = bench_on(&queue, &runs, hanging);
    let job_id = bench.submit().await;
    let cancel = async {
        moments(1).await;
        runs.switch.hang(true);
        let start = Instant::now();
        bench.jobs.cancel("u1", &job_id).await.unwrap();
        let job = bench.ended(&job_id).await;
        assert!(start.elapsed() < LEASE, "{:?}", start.elapsed());
        job
    };
    assert_eq!(bench.work_while(cancel).await.status, JobStatus::Cancelled);
}
