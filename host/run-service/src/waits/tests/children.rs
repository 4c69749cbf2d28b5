//! Child runs: begun once, waited for, told of once, and stopped with their parent.

use std::sync::atomic::{AtomicU32, Ordering};

use agent_core::agent_loop::RUN_AGENT;
use agent_core::ports::{Journal, JournalError, JournalResult, ModelError, ModelRequest};
use agent_core::testing::check_conversation;
use agent_core::words::{Message, ModelReply, Usage, WaitKind};
use boxed_async::boxed_async;
use tokio_util::sync::CancellationToken;

use super::*;

/// A model that does what the first message says: `begin a,b` begins a run for each of these, `brief a` one
/// with few tokens, `down 2 a` one that is asked for `down 1 a`, `pay` pays; and then it says what it was
/// told. Anything else is said again.
#[derive(Debug)]
pub(super) struct Family;

#[boxed_async]
impl Model for Family {
    fn name(&self) -> &'static str {
        "test/family"
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        check_conversation(request.messages);
        let asked = request.messages.iter().find_map(|message| match message {
            Message::User { content } => Some(content.text().into_owned()),
            _ => None,
        });
        let told = request.messages.iter().filter_map(|message| match message {
            Message::Tool { content, .. } => Some(content.as_str()),
            _ => None,
        });
        let (asked, told) = (asked.unwrap(), told.collect::<Vec<_>>());
        if !told.is_empty() {
            return Ok(says(&format!("told {}", told.join(", "))));
        }
        let begin_within = |seconds: u32, tasks: Vec<String>| {
            let call = |task: &String| ("c", RUN_AGENT, json!({ "task": task, "within_seconds": seconds }));
            asks_for(&tasks.iter().map(call).collect::<Vec<_>>())
        };
        let begin = |tasks| begin_within(3600, tasks);
        Ok(match asked.split(' ').collect::<Vec<_>>()[..] {
            ["begin", tasks] => begin(tasks.split(',').map(str::to_owned).collect()),
            ["brief", task] => {
                asks_for(&[("c", RUN_AGENT, json!({ "task": task, "tools": ["pay"], "tokens": 500 }))])
            }
            // Given more time than its parent has, so that it is the parent which cuts off.
            ["down", "0", task] => begin_within(7200, vec![task.to_owned()]),
            ["down", depth, task] => {
                begin(vec![format!("down {} {task}", depth.parse::<u32>().unwrap() - 1)])
            }
            ["pay"] => asks_for(&[("p", "pay", json!({ "euros": 5 }))]),
            _ => says(&asked),
        })
    }
}

impl Bench {
    pub(super) async fn family(query: &str) -> Self {
        Self::begun(Arc::new(Family), tools(), query).await
    }

    /// The user's jobs, the first one first.
    pub(super) async fn all(&self) -> Vec<Job> {
        let wanted = JobQuery { user_id: "ada", status: None, limit: 100, cursor: None };
        let mut jobs = self.queue.list(&wanted).await.unwrap().jobs;
        jobs.reverse();
        jobs
    }

    pub(super) async fn statuses(&self) -> Vec<JobStatus> {
        self.all().await.iter().map(|job| job.status).collect()
    }

    pub(super) async fn of_kind(&self, kind: WaitKind) -> Vec<JobWait> {
        let waits = self.waits.list("ada", 100, None).await.unwrap().waits;
        waits.into_iter().filter(|wait| wait.open.wait.kind == kind).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn children_run_at_once_and_their_parent_goes_on_once_with_what_they_said() {
    let bench = Bench::family("begin a,b").await;
    bench.work_for(5).await;
    assert_eq!(bench.statuses().await, [JobStatus::Completed; 3]);
    let jobs = bench.all().await;
    let parents: Vec<_> = jobs.iter().map(|job| job.parent.as_deref()).collect();
    assert_eq!(parents, [None, Some("1:edc31975-1.0"), Some("1:edc31975-1.1")]);
    let result = bench.result();
    assert_eq!(result["output"], "told a, b");
    // Two calls of its own, and one of each child.
    assert_eq!(result["usage"], json!({ "inputTokens": 40, "outputTokens": 20, "totalTokens": 60 }));
    let decided = |event: &&Event| matches!(event, Event::Decided { .. });
    assert_eq!(bench.runs.events("run_job_1").iter().filter(decided).count(), 2);
    for child in &jobs[1..] {
        let Some(Event::Started { task, .. }) = bench.runs.events(&child.run_id).into_iter().next() else {
            panic!()
        };
        assert_eq!((task.principal, task.parent.unwrap().depth), (ada(), 1));
        assert!(task.limits.tokens < 250_000, "a quarter at most: {}", task.limits.tokens);
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_a_child_waits_for_is_shown_with_its_parent_which_waits_on() {
    let bench = Bench::family("begin pay").await;
    bench.work_for(60).await;
    assert_eq!(bench.statuses().await, [JobStatus::Parked; 2]);
    let [of_parent] = <[JobWait; 1]>::try_from(bench.of_kind(WaitKind::Child).await).unwrap();
    assert_eq!((of_parent.child, of_parent.job_id.as_str()), (Some(JobStatus::Parked), "1"));
    let admin = Principal { role: Some("admin".into()), ..ada() };
    assert!(!of_parent.is_asked_of(&admin));
    let rejection =
        ProposedDecision { by: admin, verdict: Verdict::Reject { reason: None }, ..approval(&of_parent) };
    let refused = bench.waits.decide(&of_parent.id, &rejection).await;
    assert!(matches!(refused, Err(NotDecided::NotYours | NotDecided::OtherDecision(_))), "{refused:?}");

    let [approval] = <[JobWait; 1]>::try_from(bench.of_kind(WaitKind::Approval).await).unwrap();
    assert_eq!(approval.parent.as_ref().unwrap().wait, of_parent.id);
    let child = of_parent.open.wait.child.unwrap();
    assert_eq!((&approval.job_id, &approval.run_id), (&child.job_id, &child.run_id));
    bench.approve(&approval).await.unwrap();
    bench.work_for(5).await;
    assert_eq!(bench.result()["output"], "told told {\"euros\":5}");
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_journal_is_damaged_hides_nothing_of_its_parent_and_its_siblings() {
    let bench = Bench::family("begin pay,pay").await;
    bench.work_for(3).await;
    let jobs = bench.all().await;
    for (damaged, approvals) in [(None, 2), (Some(&jobs[1].run_id), 1), (Some(&jobs[2].run_id), 0)] {
        damaged.into_iter().for_each(|run_id| bench.runs.damage(run_id));
        let family = bench.waits.of_family(&jobs[0]).await.unwrap();
        let of_kind = |kind| family.waits.iter().filter(|wait| wait.open.wait.kind == kind).count();
        assert_eq!((of_kind(WaitKind::Child), of_kind(WaitKind::Approval)), (2, approvals));
        assert!(!family.is_under_way, "somebody has to decide, or its time has to come");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_cancels_a_parent_cancels_its_children_and_theirs() {
    let bench = Bench::family("down 1 pay").await;
    // Less than after which the parent is looked at again.
    bench.work_for(3).await;
    assert_eq!(bench.statuses().await, [JobStatus::Parked; 3]);
    assert_eq!(bench.jobs.cancel("ada", "1").await.unwrap(), agent_core::words::CancelOutcome::Done);
    bench.work_for(5).await;
    assert_eq!(bench.statuses().await, [JobStatus::Cancelled; 3]);
    for job in bench.all().await {
        assert_eq!(bench.runs.events(&job.run_id).last(), Some(&Event::Cancelled), "{}", job.id);
    }
}

/// The child's worker lets go of it when its parent has seen that it is at work.
#[tokio::test(start_paused = true)]
async fn a_child_that_parks_while_it_is_cancelled_ends_with_its_run() {
    let bench = Bench::family("begin pay").await;
    // Less than after which the parent is looked at again.
    bench.work_for(3).await;
    assert_eq!(bench.statuses().await, [JobStatus::Parked; 2]);
    let child = bench.all().await.remove(1);
    bench.queue.change(&child.id, |job| job.status = JobStatus::Active);
    let (writes, id) = (AtomicU32::new(0), child.id.clone());
    bench.queue.before_writes(move |queue| {
        // The first one cancels the parent.
        if writes.fetch_add(1, Ordering::Relaxed) == 1 {
            queue.change(&id, |job| job.status = JobStatus::Parked);
        }
    });
    assert_eq!(bench.jobs.cancel("ada", "1").await.unwrap(), CancelOutcome::Done);
    assert_eq!(bench.statuses().await, [JobStatus::Cancelled; 2]);
    assert_eq!(bench.runs.events(&child.run_id).last(), Some(&Event::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_cancelled_is_an_answer_to_its_parent() {
    let bench = Bench::family("begin pay,a").await;
    bench.work_for(5).await;
    let child = bench.of_kind(WaitKind::Approval).await.remove(0).job_id;
    bench.jobs.cancel("ada", &child).await.unwrap();
    bench.work_for(5).await;
    assert_eq!(bench.result()["output"], "told Error: the run was cancelled, a");
}

/// The child's next worker ends its run, and tells the parent.
#[tokio::test(start_paused = true)]
async fn a_child_that_was_to_be_cancelled_when_its_worker_died_is_an_answer_to_its_parent() {
    let bench = Bench::family("begin pay").await;
    bench.work_for(3).await;
    let child = bench.of_kind(WaitKind::Approval).await.remove(0).job_id;
    bench.queue.resume(&child, Duration::ZERO).await.unwrap();
    let dead = bench.queue.claim("dead", Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(dead.job_id, child);
    assert_eq!(bench.jobs.cancel("ada", &child).await.unwrap(), CancelOutcome::Asked);
    bench.work_for(10).await;
    assert_eq!(bench.statuses().await, [JobStatus::Completed, JobStatus::Cancelled]);
    assert_eq!(bench.runs.events(&dead.run_id).last(), Some(&Event::Cancelled));
    assert_eq!(bench.result()["output"], "told Error: the run was cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_takes_too_long_is_cancelled_and_its_parent_is_told() {
    let bench = Bench::family("begin pay").await;
    bench.work_for(3_500).await;
    assert_eq!(bench.statuses().await, [JobStatus::Parked; 2]);
    bench.work_for(200).await;
    assert_eq!(bench.statuses().await, [JobStatus::Completed, JobStatus::Cancelled]);
    let result = bench.result();
    assert_eq!(result["output"], "told Error: the run took too long and was cancelled");
    assert_eq!(
        result["usage"],
        json!({ "inputTokens": 30, "outputTokens": 15, "totalTokens": 45 }),
        "what it cost until then"
    );
}

/// [`Family`], but whoever is asked for that thinks for ever.
#[derive(Debug)]
struct Endless;

#[boxed_async]
impl Model for Endless {
    fn name(&self) -> &'static str {
        "test/endless"
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let first = request.messages.first();
        if matches!(first, Some(Message::User { content }) if content.text() == "endless") {
            std::future::pending::<()>().await;
        }
        Family.complete(request).await
    }
}

/// A journal that takes no decisions.
struct Undecided(Arc<TestRuns>);

#[boxed_async]
impl Journal for Undecided {
    async fn append(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
        if events.iter().any(|event| matches!(event, Event::Decided { .. })) {
            return Err(JournalError::Store { detail: "the disk is full".into() });
        }
        self.0.append(run_id, epoch, first, events).await
    }

    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        self.0.read(run_id, from).await
    }
}

/// What it costs is read behind that, and what it uses later is on no bill.
#[tokio::test(start_paused = true)]
async fn a_child_that_takes_too_long_is_cancelled_before_its_parent_writes_that_down() {
    let bench = Bench::begun(Arc::new(Endless), tools(), "begin endless").await;
    let journal = Arc::new(Undecided(bench.runs.clone()));
    let agent = Agent::new(Arc::new(Endless), Arc::new(tools()), journal);
    let agent = Agent { wait_tools: true, ..agent };
    let worker = Worker::new(&bench.jobs, worker_context(Arc::new(agent), bench.runs.clone()));
    let stopping = CancellationToken::new();
    let stop = async {
        // Behind the first try to write the decision, and before the run is given up after the third.
        sleep(Duration::from_millis(3_600_200)).await;
        stopping.cancel();
    };
    tokio::join!(worker.work(stopping.clone()), worker.work(stopping.clone()), stop);
    let events = bench.runs.events("run_job_1");
    assert!(!events.iter().any(|event| matches!(event, Event::Decided { .. })), "{events:?}");
    assert_eq!(bench.statuses().await[1], JobStatus::Cancelled);
}

/// The grandchild goes on when its parent is cut off, and nobody else will tell of what that has cost.
#[tokio::test(start_paused = true)]
async fn the_bill_of_a_child_that_is_cut_off_has_what_its_own_children_cost() {
    let bench = Bench::family("down 1 pay").await;
    bench.work_for(3_700).await;
    assert_eq!(bench.status(), JobStatus::Completed);
    // Two model calls of the job itself, one of its child and one of that one's.
    assert_eq!(bench.result()["usage"]["totalTokens"], 60);
}

#[tokio::test(start_paused = true)]
async fn the_children_of_a_run_that_fails_for_good_are_stopped() {
    let bench = Bench::family("begin pay").await;
    bench.work_for(3).await;
    let run_id = bench.queue.job(&bench.job_id).run_id;
    let events = bench.runs.events(&run_id);
    let next = events.len() as u64;
    let epoch = Run::waiting(events).unwrap().waits_epoch().unwrap();
    // Three workers died of it.
    let taken_up = ["a", "b", "c"].map(|by| Event::TakenUp { by: by.to_owned() });
    bench.runs.append(&run_id, Epoch(epoch), next, &taken_up).await.unwrap();
    bench.queue.resume(&bench.job_id, Duration::ZERO).await.unwrap();
    bench.work_for(10).await;
    assert_eq!(bench.statuses().await, [JobStatus::Failed, JobStatus::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn runs_are_three_deep_at_most() {
    let bench = Bench::family("down 5 a").await;
    bench.work_for(10).await;
    assert_eq!(bench.statuses().await, [JobStatus::Completed; 4]);
    let output = bench.result()["output"].as_str().unwrap().to_owned();
    assert!(output.starts_with("told told told told Error: there is no tool of that name."), "{output}");
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_waits_for_a_child_is_looked_at_less_and_less_often() {
    let bench = Bench::family("begin pay").await;
    bench.work_for(5).await;
    let before = bench.queue.claims();
    bench.work_for(3_000).await;
    let looks = bench.queue.claims() - before;
    assert!((5..=12).contains(&looks), "{looks}");
    assert_eq!(bench.queue.job("1").attempts_made, 0);
}

#[tokio::test(start_paused = true)]
async fn with_the_default_budget_the_third_generation_can_ask_and_call_a_tool() {
    let tokens = agent_core::words::DEFAULT_TOKEN_BUDGET;
    let bench = Bench::begun_with(Arc::new(Family), tools(), "down 2 pay", tokens).await;
    bench.work_for(10).await;
    let [approval] = <[JobWait; 1]>::try_from(bench.of_kind(WaitKind::Approval).await).unwrap();
    bench.approve(&approval).await.unwrap();
    bench.work_for(10).await;
    assert_eq!(bench.result()["output"], "told told told told {\"euros\":5}");
}

#[tokio::test(start_paused = true)]
async fn children_that_could_not_pay_for_a_model_call_are_refused_at_once() {
    let bench = Bench::begun_with(Arc::new(Family), tools(), "begin a,b,c,d,e", 3_000).await;
    bench.work_for(1).await;
    assert_eq!(bench.statuses().await, [JobStatus::Completed], "no job was added");
    let output = bench.result()["output"].as_str().unwrap().to_owned();
    assert!(
        output.starts_with("told Error: no run was begun. Asking a model once takes it about "),
        "{output}"
    );
}

/// The child is asked to end in words by its first call, and does.
#[tokio::test(start_paused = true)]
async fn a_child_that_answers_with_its_last_tokens_has_answered() {
    let bench = Bench::family("brief 42").await;
    bench.work_for(5).await;
    assert_eq!(bench.statuses().await, [JobStatus::Completed; 2]);
    let said = "told The run was ended early by token_budget. Its last reply: 42";
    assert_eq!(bench.result()["output"], said);
    let child = bench.all().await.remove(1);
    let (mut parent, events) = (bench.runs.events("run_job_1"), bench.runs.events(&child.run_id));
    let judged = |parent: &[Event]| crate::invariants::child(parent, &events, JobStatus::Completed);
    assert_eq!(judged(&parent), Ok(()));
    // Nor is one that has not answered left off the bill.
    for event in &mut parent {
        if let Event::Decided { decision, .. } = event {
            let (answer, usage) = (String::new(), Usage::default());
            decision.verdict = Verdict::Ended { answer, is_answered: false, usage };
        }
    }
    assert_eq!(judged(&parent).unwrap_err().rule, crate::invariants::BILL);
}
