//! Direct calls that wait, with the real worker and driver over stores in memory. No model is ever asked.

use agent_core::ports::{JobQueue as _, RunStore};
use agent_core::testing::{ScriptedModel, TestQueue, TestRuns};
use agent_core::words::{Event, JobStatus, Verdict, Wait};

use super::*;
use crate::jobs::{CancelledRuns, Jobs, Worker};
use crate::layers::Agent;
use crate::testing::{ScriptedInvoke, waiting_calls, work_for, worker_context};
use crate::waits::{JobWait, ProposedDecision, Waits};

struct Bench {
    calls: DirectCalls,
    queue: Arc<TestQueue>,
    runs: Arc<TestRuns>,
    worker: Worker,
    model: Arc<ScriptedModel>,
}

impl Bench {
    fn new(tools: EchoTools) -> Self {
        let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
        let (tools, model) = (Arc::new(tools), Arc::new(ScriptedModel::new([])));
        let agent = || Agent {
            instructions: Some("be kind".into()),
            ..Agent::new(model.clone(), tools.clone(), runs.clone())
        };
        let store: Arc<dyn RunStore> = runs.clone();
        let jobs = Jobs::new(queue.clone()).ending(CancelledRuns::beside_the_service(&store).0);
        let worker = Worker::new(&jobs, worker_context(Arc::new(agent()), runs.clone()));
        let waits = Waits::new(queue.clone(), runs.clone(), tools.clone());
        let calls = waiting_calls(agent(), &queue, &runs, &jobs, &waits);
        Self { calls, queue, runs, worker, model }
    }

    /// The job of a call of `pay` that waits.
    async fn waits(&self) -> String {
        match pay(&self.calls, &ada()).await {
            Called::Waits { job_id } => job_id,
            made @ Called::Answered(_) => panic!("{made:?}"),
        }
    }

    async fn work_for(&self, seconds: u64) {
        work_for(&self.worker, Duration::from_secs(seconds)).await;
    }

    async fn read(&self, job_id: &str, within: Duration) -> CallRun {
        let waiting = self.calls.waiting().unwrap();
        waiting.read("ada", job_id, within).await.unwrap().unwrap()
    }

    async fn wait(&self, job_id: &str) -> JobWait {
        match self.read(job_id, Duration::ZERO).await.state {
            CallState::Waits(wait) => *wait,
            state => panic!("{state:?}"),
        }
    }

    async fn decide(&self, job_id: &str, verdict: Verdict) {
        let wait = self.wait(job_id).await;
        let proposed = ProposedDecision { by: ada(), shown: wait.open.wait.shown.digest(), verdict };
        self.calls.waiting().unwrap().decide(&wait.id, &proposed).await.unwrap();
    }

    fn events_of(&self, run_id: &str) -> Vec<Value> {
        let name = |event: &Event| serde_json::to_value(event).unwrap()["event"].take();
        self.runs.events(run_id).iter().map(name).collect()
    }
}

fn ada() -> Principal {
    Principal::user("ada")
}

fn tools() -> EchoTools {
    EchoTools::new(&["pay", "add"]).approved_by("pay", "sha256:policy")
}

async fn pay(calls: &DirectCalls, caller: &Principal) -> Called {
    let arguments = object(json!({ "euros": 5 }));
    let name = "pay";
    calls.call(DirectCall { request_id: "r", caller, name, arguments: &arguments, progress: None }).await
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_to_be_approved_waits_and_is_made_once_as_it_was_shown() {
    let bench = Bench::new(tools());
    let job_id = bench.waits().await;
    let job = bench.queue.job(&job_id);
    assert_eq!((job.status, job.user_id.as_str()), (JobStatus::Parked, "ada"));
    let wait = bench.wait(&job_id).await;
    let id = Wait::new_id(&job_id, &job.run_id, 0, wait.open.wait.place());
    assert_eq!((&wait.id, &wait.open.wait.shown.arguments), (&id, &json!({"euros": 5})));
    let listed = bench.calls.waiting().unwrap().waits.list("ada", 10, None).await.unwrap();
    assert_eq!(listed.waits, [wait]);
    bench.work_for(30).await;
    assert_eq!(bench.events_of(&job.run_id), ["started", "waiting"], "no worker looks at it");

    bench.decide(&job_id, Verdict::Approve).await;
    let (run, ()) = tokio::join!(bench.read(&job_id, Duration::from_secs(5)), bench.work_for(1));
    let CallState::Answered(answer) = run.state else { panic!("{:?}", run.state) };
    assert_eq!((answer.content.as_str(), answer.receipt.outcome), (r#"{"euros":5}"#, ToolOutcome::Ok));
    assert_eq!((run.call.name.as_str(), run.job.status), ("pay", JobStatus::Completed));
    let kinds = bench.events_of(&job.run_id);
    assert_eq!(kinds, ["started", "waiting", "decided", "taken_up", "tool_returned"]);
    let result: Value = serde_json::from_str(bench.queue.job(&job_id).result.unwrap().get()).unwrap();
    assert_eq!((&result["output"], &result["iterations"]), (&json!(r#"{"euros":5}"#), &json!(0)));
    assert!(bench.model.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_the_answer() {
    let bench = Bench::new(tools());
    let job_id = bench.waits().await;
    bench.decide(&job_id, Verdict::Reject { reason: Some("too dear".into()) }).await;
    bench.work_for(1).await;
    let run = bench.read(&job_id, Duration::ZERO).await;
    let CallState::Answered(answer) = run.state else { panic!("{:?}", run.state) };
    assert_eq!(answer.receipt.outcome, ToolOutcome::NotRun);
    assert!(answer.content.contains("rejected it: too dear"), "{}", answer.content);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_never_made() {
    let bench = Bench::new(tools());
    let job_id = bench.waits().await;
    let waiting = bench.calls.waiting().unwrap();
    waiting.cancel("bob", &job_id).await.unwrap();
    assert_eq!(bench.queue.job(&job_id).status, JobStatus::Parked, "it is not theirs");
    waiting.cancel("ada", &job_id).await.unwrap();
    bench.work_for(70).await;
    let run = bench.read(&job_id, Duration::ZERO).await;
    assert!(matches!(run.state, CallState::Cancelled), "{:?}", run.state);
    assert!(!bench.events_of(&run.job.run_id).contains(&json!("tool_returned")));
}

#[tokio::test]
async fn only_its_owner_finds_it_and_nobody_finds_other_runs() {
    let bench = Bench::new(tools());
    let job_id = bench.waits().await;
    let waiting = bench.calls.waiting().unwrap();
    assert!(waiting.read("bob", &job_id, Duration::ZERO).await.unwrap().is_none());
    let job = agent_core::words::JobData::new("hi", "ada");
    let other = waiting.jobs.submit(&job).await.unwrap();
    assert!(waiting.read("ada", &other, Duration::ZERO).await.unwrap().is_none());
}

#[tokio::test]
async fn what_need_not_wait_is_made_at_once_and_what_cannot_wait_is_refused_by_name() {
    let bench = Bench::new(tools());
    let made = call(&bench.calls, &ada(), "add", json!({ "a": 1 })).await;
    assert_eq!(made.receipt.outcome, ToolOutcome::Ok);
    let refused = DirectCalls::new(Arc::new(tools()), Duration::from_secs(30));
    for (calls, caller) in [(&bench.calls, Principal::default()), (&refused, ada())] {
        let answer = call(calls, &caller, "pay", json!({})).await;
        assert_eq!(answer.receipt.outcome, ToolOutcome::NotRun);
        assert!(answer.content.contains("nobody could be asked"), "{}", answer.content);
    }
    assert_eq!(bench.queue.depth().await.unwrap().parked, 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_handed_over_when_its_queue_is_away_for_a_while() {
    let bench = Bench::new(tools());
    bench.queue.switch.fail(true);
    let back = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        bench.queue.switch.fail(false);
    };
    let (job_id, ()) = tokio::join!(bench.waits(), back);
    assert_eq!(bench.queue.job(&job_id).status, JobStatus::Parked);
    bench.decide(&job_id, Verdict::Approve).await;
    bench.work_for(1).await;
    let run = bench.read(&job_id, Duration::ZERO).await;
    assert!(matches!(run.state, CallState::Answered(_)), "{:?}", run.state);
}

/// The journal has no store when the call is asked for: nobody is told that it waits.
#[tokio::test]
async fn a_call_that_cannot_be_kept_is_refused() {
    let bench = Bench::new(tools());
    bench.runs.switch.fail(true);
    let Called::Answered(answer) = pay(&bench.calls, &ada()).await else { panic!() };
    assert!(answer.content.contains("could not be kept"), "{}", answer.content);
    assert_eq!(answer.receipt.outcome, ToolOutcome::NotRun);
    assert_eq!(bench.queue.depth().await.unwrap().parked, 0);
}

/// The run is that of a tool that may ask somebody in its middle, and does not.
#[tokio::test]
async fn a_call_that_takes_too_long_in_its_run_is_not_said_to_wait_for_an_approval() {
    let late = InvokeError::TimedOut { limit: Duration::from_secs(30), retry_after: None, in_tools: false };
    let runs = Arc::new(ScriptedInvoke::new([Err(late)]));
    let waiting = WaitingCalls { runs, ..Bench::new(tools()).calls.waiting().unwrap().clone() };
    let calls = DirectCalls::new(Arc::new(tools()), Duration::from_secs(30)).kept_in(waiting);
    let Called::Answered(answer) = pay(&calls, &ada()).await else { panic!() };
    assert!(answer.content.contains("within 30000 ms"), "{}", answer.content);
    assert_eq!(answer.receipt.outcome, ToolOutcome::TimedOut);
}
