//! From a job that waits to one that goes on, with the real worker, driver and service over stores in memory.

mod children;
mod races;
mod retried;
mod under_way;

use std::time::{Duration, SystemTime};

use agent_core::ports::key_value::MOST_VALUE_BYTES;
use agent_core::ports::{Epoch, JobQueue as _, Journal as _, Model, RunStore};
use agent_core::testing::{EchoTools, ScriptedModel, TestKeyValues, TestQueue, TestRuns, asks_for, says};
use agent_core::words::{
    CancelOutcome, Decision, Event, JobData, OpenKinds, ParkedRun, RunLimits, RunOutcome, StopReason, Task,
    ToolOutcome, Verdict,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::conversations::ConversationRefusal;
use crate::jobs::{CancelledRuns, Jobs, Worker};
use crate::layers::{Agent, InvokeError};
use crate::loop_driver::RunError;
use crate::testing::{ScriptedInvoke, flush, work_for, worker_context};

/// A service whose model asks for one payment, with somebody to ask.
struct Bench {
    queue: Arc<TestQueue>,
    runs: Arc<TestRuns>,
    waits: Waits,
    jobs: Jobs,
    worker: Worker,
    job_id: String,
}

impl Bench {
    /// A job whose run waits.
    async fn parked(tools: EchoTools) -> Self {
        Self::parked_by(tools, &[("1", "pay", json!({ "euros": 5 }))]).await
    }

    /// A job whose run waits for these calls of one reply.
    async fn parked_by(tools: EchoTools, calls: &[(&str, &str, Value)]) -> Self {
        // Asked again when its reply was not recorded.
        let model = ScriptedModel::new([Ok(asks_for(calls)), Ok(says("paid")), Ok(says("paid"))]);
        let bench = Self::begun(Arc::new(model), tools, "pay ada").await;
        bench.work_for(1).await;
        assert_eq!(bench.status(), JobStatus::Parked);
        bench
    }

    /// A job that asks this model that.
    async fn begun(model: Arc<dyn Model>, tools: EchoTools, query: &str) -> Self {
        Self::begun_with(model, tools, query, 1_000_000).await
    }

    /// [`Self::begun`] with a run that may use so many tokens.
    async fn begun_with(model: Arc<dyn Model>, tools: EchoTools, query: &str, tokens: u64) -> Self {
        let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
        let tools: Arc<EchoTools> = Arc::new(tools);
        let agent = Arc::new(Agent {
            limits: RunLimits { tokens, ..RunLimits::default() },
            wait_tools: true,
            ..Agent::new(model, tools.clone(), runs.clone())
        });
        let store: Arc<dyn RunStore> = runs.clone();
        let jobs = Jobs::new(queue.clone()).ending(CancelledRuns::beside_the_service(&store).0);
        let worker = Worker::new(&jobs, worker_context(agent, runs.clone()));
        let job_id = jobs.submit(&JobData::new(query, "ada")).await.unwrap();
        let waits = Waits::new(queue.clone(), runs.clone(), tools);
        Self { queue, runs, waits, jobs, worker, job_id }
    }

    /// Works for so many seconds.
    async fn work_for(&self, seconds: u64) {
        work_for(&self.worker, Duration::from_secs(seconds)).await;
    }

    fn status(&self) -> JobStatus {
        self.queue.job(&self.job_id).status
    }

    /// The only wait of the job.
    async fn wait(&self) -> JobWait {
        let mut page = self.waits.list("ada", 10, None).await.unwrap();
        assert_eq!(page.waits.len(), 1, "{page:?}");
        page.waits.remove(0)
    }

    async fn decide(&self, by: &Principal, verdict: Verdict) -> Result<Decided, NotDecided> {
        let wait = self.wait().await;
        let proposed = ProposedDecision { by: by.clone(), shown: wait.open.wait.shown.digest(), verdict };
        self.waits.decide(&wait.id, &proposed).await
    }

    async fn approve(&self, wait: &JobWait) -> Result<Decided, NotDecided> {
        self.waits.decide(&wait.id, &approval(wait)).await
    }

    fn result(&self) -> Value {
        let job = self.queue.job(&self.job_id);
        serde_json::from_str(job.result.expect("the job has a result").get()).unwrap()
    }
}

fn tools() -> EchoTools {
    EchoTools::new(&["pay"]).approved_by("pay", "sha256:policy").within(DAY)
}

const DAY: Duration = Duration::from_secs(24 * 3600);

fn ada() -> Principal {
    Principal::user("ada")
}

fn approval(wait: &JobWait) -> ProposedDecision {
    ProposedDecision { by: ada(), shown: wait.open.wait.shown.digest(), verdict: Verdict::Approve }
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_for_days_is_approved_and_does_what_was_shown() {
    let bench = Bench::parked(tools()).await;
    let wait = bench.wait().await;
    assert_eq!((wait.id.as_str(), wait.owner.user_id.as_deref()), ("1:edc31975-1.0", Some("ada")));
    assert_eq!(wait.open.wait.shown.arguments, json!({ "euros": 5 }));
    let looks = bench.queue.calls();
    bench.work_for(30).await;
    assert!(bench.status() == JobStatus::Parked && bench.queue.calls() > looks, "nobody claims it");
    // Whoever waits for the job is told at once.
    let job = bench.jobs.read("ada", &bench.job_id, Duration::from_secs(60)).await.unwrap().unwrap();
    assert_eq!((job.status, job.attempts_made), (JobStatus::Parked, 0));

    let decided = bench.decide(&ada(), Verdict::Approve).await.unwrap();
    assert!(decided.goes_on && decided.wait.decided().is_some());
    bench.work_for(1).await;
    assert_eq!(bench.status(), JobStatus::Completed);
    let result = bench.result();
    assert_eq!((&result["output"], &result["toolCalls"][0]["outcome"]), (&json!("paid"), &json!("ok")));
    assert!(bench.waits.list("ada", 10, None).await.unwrap().waits.is_empty());

    // Who comes second may come when the run has ended.
    let shown = bench.waits.show(&ada(), &wait.id).await.unwrap().unwrap();
    assert_eq!(shown.decided().unwrap().by.as_deref(), Some("ada"));
    let refused = bench.approve(&wait).await;
    assert!(
        matches!(&refused, Err(NotDecided::Already(first)) if first.by.as_deref() == Some("ada")),
        "{refused:?}"
    );
    let stranger = ProposedDecision { by: Principal::user("bob"), ..approval(&wait) };
    let refused = bench.waits.decide(&wait.id, &stranger).await;
    assert!(matches!(refused, Err(NotDecided::Unknown)), "{refused:?}");
    assert!(bench.waits.show(&stranger.by, &wait.id).await.unwrap().is_none());
}

/// A click that is sent twice. Journals take an event that they have for the caller's own.
#[tokio::test(start_paused = true)]
async fn of_two_equal_decisions_in_the_same_millisecond_one_is_taken() {
    let bench = Bench::parked(tools()).await;
    let wait = bench.wait().await;
    let (one, two) = tokio::join!(bench.approve(&wait), bench.approve(&wait));
    assert!(one.is_ok() != two.is_ok(), "{one:?}, {two:?}");
    let refused = one.and(two);
    assert!(matches!(refused, Err(NotDecided::Already(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn who_may_not_decide_or_was_shown_something_else_changes_nothing() {
    let bench = Bench::parked(tools()).await;
    let before = bench.runs.events("run_job_1");
    let stranger = bench.decide(&Principal::user("bob"), Verdict::Approve).await;
    assert!(matches!(stranger, Err(NotDecided::Unknown)), "{stranger:?}");
    let id = bench.wait().await.id;
    let proposed = ProposedDecision { by: ada(), shown: "sha256:other".into(), verdict: Verdict::Approve };
    let outdated = bench.waits.decide(&id, &proposed).await;
    assert!(matches!(outdated, Err(NotDecided::Outdated(_))), "{outdated:?}");
    for id in ["", "1", "1:1.0", "1:edc31975-9.0", "1:00ade6f2-1.0", "9:edc31975-1.0", ":"] {
        let unknown = bench.waits.decide(id, &proposed).await;
        assert!(matches!(unknown, Err(NotDecided::Unknown)), "{id}: {unknown:?}");
    }
    assert_eq!(bench.runs.events("run_job_1"), before);
}

#[tokio::test(start_paused = true)]
async fn edited_arguments_have_to_fit_the_tool() {
    let bench = Bench::parked(tools()).await;
    let bad = bench.decide(&ada(), Verdict::Edit { arguments: json!([1]) }).await.unwrap_err().to_string();
    assert!(bad.starts_with("what was given does not fit the schema: the arguments: [1] "), "{bad}");
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    for arguments in [json!({ "euros": deep }), json!({ "$serde_json::private::RawValue": 1 })] {
        let bad = bench.decide(&ada(), Verdict::Edit { arguments }).await.unwrap_err().to_string();
        assert!(bad.starts_with("what was given is nested too deeply"), "{bad}");
    }
    bench.decide(&ada(), Verdict::Edit { arguments: json!({ "euros": 1 }) }).await.unwrap();
    bench.work_for(1).await;
    let result = bench.result();
    assert_eq!(result["messages"][2]["content"], json!({ "euros": 1 }).to_string());
}

/// What was sent to the store arrives all the same when who decides was told that it failed, or was killed.
#[tokio::test(start_paused = true)]
async fn a_decision_that_arrives_late_has_its_job_go_on_by_itself_and_at_once_when_it_is_decided_again() {
    for is_decided_again in [false, true] {
        let bench = Bench::parked(tools()).await;
        let wait = bench.wait().await;
        let shown = wait.open.wait.shown.digest();
        assert!(bench.queue.resume(&bench.job_id, Duration::from_secs(5)).await.unwrap());
        bench.work_for(10).await;
        assert_eq!(bench.status(), JobStatus::Parked, "claimed before the decision, and let go of again");
        assert_eq!(bench.queue.job(&bench.job_id).attempts_made, 0);
        let (by, verdict) = (ada().user_id, Verdict::Approve);
        let decision =
            Decision { by, at: 0, shown: shown.clone(), verdict: verdict.clone(), nonce: String::new() };
        let decided = Event::Decided { wait: wait.id.clone(), decision };
        let (epoch, next) = bench.runs.look("run_job_1", |kept| (kept.last().unwrap().0, kept.len()));
        bench.runs.append("run_job_1", epoch, next as u64, &[decided]).await.unwrap();
        if is_decided_again {
            let again = ProposedDecision { by: ada(), shown, verdict };
            let refused = bench.waits.decide(&wait.id, &again).await;
            assert!(matches!(refused, Err(NotDecided::Already(_))), "{refused:?}");
        }
        bench.work_for(if is_decided_again { 1 } else { 20 }).await;
        assert_eq!(bench.status(), JobStatus::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_is_nobodys_to_decide() {
    let bench = Bench::parked(tools()).await;
    let wait = bench.wait().await;
    bench.jobs.cancel("ada", &bench.job_id).await.unwrap();
    let late = bench.approve(&wait).await;
    assert!(matches!(late, Err(NotDecided::NotWaiting)), "{late:?}");
    assert_eq!(bench.status(), JobStatus::Cancelled);
}

/// The claim that makes the first call fences off whoever wrote before it, and is the last writer itself.
#[tokio::test(start_paused = true)]
async fn waits_of_one_reply_are_decided_one_after_the_other() {
    let calls = [("1", "pay", json!({ "euros": 5 })), ("2", "pay", json!({ "euros": 6 }))];
    let bench = Bench::parked_by(tools(), &calls).await;
    let page = bench.waits.list("ada", 10, None).await.unwrap();
    let mut waits = page.waits.iter();
    let (first, second) = (waits.next().unwrap(), waits.next().unwrap());
    assert!(bench.approve(first).await.unwrap().goes_on, "whatever becomes of the other one");
    bench.work_for(10).await;
    assert_eq!(bench.status(), JobStatus::Parked);
    assert_eq!(bench.wait().await.id, second.id);
    assert!(bench.approve(second).await.unwrap().goes_on);
    bench.work_for(10).await;
    assert_eq!(bench.result()["output"], "paid");
    assert_eq!(bench.result()["toolCalls"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_decides_sees_what_is_different_from_the_last_call_that_they_could_have_approved() {
    let large = json!({ "note": "x".repeat(MOST_VALUE_BYTES) });
    let calls =
        [("1", "pay", json!({ "euros": 5 })), ("2", "pay", json!({ "euros": 6 })), ("3", "pay", large)];
    let mut bench = Bench::parked_by(tools(), &calls).await;
    bench.waits = bench.waits.keeping_approved_in(Arc::new(TestKeyValues::default()));
    let mut page = bench.waits.list("ada", 10, None).await.unwrap().waits;
    let (large, second, first) = (page.pop().unwrap(), page.pop().unwrap(), page.pop().unwrap());
    let shown = |by: Principal| {
        let (waits, id) = (&bench.waits, &second.id);
        async move { waits.show(&by, id).await.unwrap().unwrap().last_approved }
    };
    assert_eq!(shown(ada()).await, None);
    bench.approve(&first).await.unwrap();
    let last = shown(ada()).await.unwrap();
    let change = Change { path: "/euros".into(), before: Some(json!(5)), now: Some(json!(6)) };
    assert_eq!((last.arguments, last.changes), (json!({ "euros": 5 }), vec![change]));
    let eve = Principal { role: Some("admin".into()), ..Principal::user("eve") };
    assert!(shown(eve).await.is_some(), "who could have decided");
    bench.work_for(10).await;
    bench.approve(&large).await.unwrap();
    assert_eq!(shown(ada()).await, None, "the last one is too large to be kept");
}

/// Another process asks for it too late for the attempt to be told by its lease.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_cancelled_elsewhere_while_it_parks_ends_with_its_run() {
    let mut parked = 0;
    for seed in 0..20 {
        let model = ScriptedModel::new([Ok(asks_for(&[("1", "pay", json!({ "euros": 5 }))]))]);
        let bench = Bench::begun(Arc::new(model), tools(), "pay ada").await;
        bench.runs.switch.pause_by(seed);
        let cancel = async {
            sleep(Duration::from_millis(1 + seed / 2)).await;
            bench.queue.cancel(&bench.job_id).await.unwrap()
        };
        let ((), asked) = tokio::join!(bench.work_for(3), cancel);
        if asked != CancelOutcome::Asked {
            continue;
        }
        assert_eq!(bench.status(), JobStatus::Cancelled, "seed {seed}");
        let events = bench.runs.events("run_job_1");
        assert_eq!(events.last(), Some(&Event::Cancelled), "seed {seed}: {events:?}");
        parked += usize::from(events.iter().any(|event| matches!(event, Event::Waiting { .. })));
    }
    assert!(parked > 0, "each was told by its lease");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_handed_over_and_never_claimed_ends_with_its_job() {
    let bench = Bench::parked(tools()).await;
    let begun = bench.runs.events("run_job_1").into_iter().next();
    let Some(Event::Started { task, tools }) = begun else { panic!("{begun:?}") };
    let begun = Event::Started { task: Task { id: "run_2".into(), ..task }, tools };
    bench.runs.append("run_2", Epoch::UNCLAIMED, 0, &[begun, Event::HandedBack]).await.unwrap();
    let until = SystemTime::now() + DAY;
    let goes_on = Some(ParkedRun { run_id: "run_2".into(), until, open: OpenKinds::default() });
    let id = bench.queue.add(&JobData { goes_on, ..JobData::new("pay", "ada") }).await.unwrap();
    assert_eq!(bench.queue.job(&id).started_at, None);
    assert_eq!(bench.jobs.cancel("ada", &id).await.unwrap(), CancelOutcome::Done);
    assert_eq!(bench.runs.events("run_2").last(), Some(&Event::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_process_without_model_and_tools_ends_the_run_of_a_job_that_it_cancels() {
    let bench = Bench::parked(tools()).await;
    let store: Arc<dyn RunStore> = bench.runs.clone();
    let (ending, flusher) = CancelledRuns::beside_the_service(&store);
    let jobs = Jobs::new(bench.queue.clone()).ending(ending);
    assert_eq!(jobs.cancel("ada", &bench.job_id).await.unwrap(), CancelOutcome::Done);
    flush(&flusher).await;
    assert_eq!(bench.runs.events("run_job_1").last(), Some(&Event::Cancelled));
    let RunOutcome::Ended { stop_reason, usage, .. } = &bench.runs.records()[0].outcome else { panic!() };
    assert_eq!((*stop_reason, usage.total()), (StopReason::Cancelled, 15));
}

/// The first of two calls is approved and cannot be made yet: the other one can be decided all the same.
#[tokio::test(start_paused = true)]
async fn what_else_a_run_waits_for_can_be_decided_while_its_conversation_is_busy() {
    let calls = [("1", "pay", json!({ "euros": 5 })), ("2", "pay", json!({ "euros": 6 }))];
    let bench = Bench::parked_by(tools(), &calls).await;
    let waits = bench.waits.list("ada", 10, None).await.unwrap().waits;
    bench.approve(&waits[0]).await.unwrap();
    let busy = ScriptedInvoke::new([Err(InvokeError::Conversation(ConversationRefusal::Busy))]);
    let other = Worker::new(&bench.jobs, worker_context(Arc::new(busy), bench.runs.clone()));
    work_for(&other, Duration::from_millis(500)).await;
    assert_eq!(bench.status(), JobStatus::Parked);
    assert_eq!(bench.wait().await.id, waits[1].id);
    bench.approve(&waits[1]).await.unwrap();
    bench.work_for(10).await;
    assert_eq!(bench.result()["toolCalls"].as_array().unwrap().len(), 2);
}

/// A decision is written under the epoch of who wrote last, and that attempt has written nothing.
#[tokio::test(start_paused = true)]
async fn a_run_that_waits_can_be_decided_about_behind_an_attempt_that_failed() {
    let bench = Bench::parked(tools()).await;
    let failing = Arc::new(ScriptedInvoke::new([Err(RunError::Panicked.into())]));
    let other = Worker::new(&bench.jobs, worker_context(failing, bench.runs.clone()));
    assert!(bench.queue.resume(&bench.job_id, Duration::ZERO).await.unwrap());
    work_for(&other, Duration::from_millis(500)).await;
    assert_eq!(bench.queue.job(&bench.job_id).attempts_made, 1);
    bench.work_for(10).await;
    bench.decide(&ada(), Verdict::Approve).await.unwrap();
    bench.work_for(10).await;
    assert_eq!(bench.status(), JobStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_journal_hides_no_other_one_and_its_job_ends_when_it_is_due() {
    let bench = Bench::parked(tools()).await;
    bench.runs.damage("run_job_1");
    let admin = Principal { role: Some("admin".into()), ..Principal::user("eve") };
    assert!(bench.waits.list("ada", 10, None).await.unwrap().waits.is_empty());
    assert!(bench.waits.list_decidable(&admin, 10, None).await.unwrap().waits.is_empty());
    assert!(bench.waits.of(&bench.job_id).await.unwrap_err().is_damage());
    assert!(bench.queue.resume(&bench.job_id, Duration::ZERO).await.unwrap());
    bench.work_for(1).await;
    assert_eq!(bench.status(), JobStatus::Failed);
}

/// A server that is restarted without its last second.
#[tokio::test(start_paused = true)]
async fn a_decision_that_the_queue_has_forgotten_has_its_job_go_on_all_the_same() {
    for is_decided in [true, false] {
        let bench = Bench::parked(tools()).await;
        // A queue that has never forgotten anything: nothing is looked for.
        bench.waits.recover_decided().await;
        let (before, claims) = (bench.queue.held_now(), bench.queue.claims());
        if is_decided {
            bench.decide(&ada(), Verdict::Approve).await.unwrap();
        }
        bench.queue.go_back(before);
        bench.work_for(60).await;
        assert_eq!(bench.status(), JobStatus::Parked);
        tokio::select! {
            biased;
            () = bench.waits.recover_decided() => panic!("a queue that forgets is looked after for ever"),
            () = bench.work_for(60) => {}
        }
        assert_eq!(bench.status() == JobStatus::Completed, is_decided);
        assert_eq!(bench.queue.claims() - claims, u64::from(is_decided));
    }
}

/// A worker wrote another wait under a claim that the server forgot, and died: to the queue the job waits as
/// it did before.
#[tokio::test(start_paused = true)]
async fn a_wait_that_the_queue_does_not_know_expires_when_the_journal_says() {
    let bench = Bench::parked(tools()).await;
    let before = bench.queue.held_now();
    let events = bench.runs.events("run_job_1");
    let Some(Event::Waiting { mut waits, epoch }) = events.last().cloned() else { panic!("{events:?}") };
    waits[0].expires_at = crate::clock::millis() + 300_000;
    let (next, waiting) = (events.len() as u64, Event::Waiting { waits, epoch });
    bench.runs.append("run_job_1", Epoch(epoch), next, &[waiting]).await.unwrap();
    bench.queue.go_back(before);
    let work = async {
        bench.work_for(200).await;
        assert_eq!(bench.status(), JobStatus::Parked, "claimed before");
        bench.work_for(200).await;
    };
    tokio::select! {
        biased;
        () = bench.waits.recover_decided() => panic!("a queue that forgets is looked after for ever"),
        () = work => {}
    }
    assert_eq!(bench.status(), JobStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_a_call_whose_tool_is_gone_says_so() {
    let bench = Bench::parked(tools()).await;
    let wait = bench.wait().await;
    let waits = Waits::new(bench.queue.clone(), bench.runs.clone(), Arc::new(EchoTools::new(&[])));
    let verdict = Verdict::Edit { arguments: json!({ "euros": 1 }) };
    let proposed = ProposedDecision { by: ada(), shown: wait.open.wait.shown.digest(), verdict };
    let refused = waits.decide(&wait.id, &proposed).await.unwrap_err().to_string();
    assert!(refused.contains("the tool is not there by now"), "{refused}");
}
