//! How runs are driven: every event journaled, nothing done twice, resumed after any of them.

mod bounds;
mod nested;
mod order;
mod recorded;
mod spans;
mod waits;

use parking_lot::Mutex;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use agent_core::ports::{ModelError, ToolRequest, WaitTerms};
use agent_core::testing::{self, EchoTools, ScriptedModel, TestJournal, asks_for, says};
use agent_core::words::{Catalog, Principal, RunLimits, ToolCall, ToolOutcome, ToolReturn};
use boxed_async::boxed_async;
use serde_json::json;

use super::*;

/// Tools that take as many milliseconds as their argument `ms` says, or for ever when it says nothing.
struct SlowTools {
    echo: EchoTools,
    called: Mutex<Vec<String>>,
}

impl SlowTools {
    fn new() -> Self {
        Self { echo: EchoTools::new(&["wait"]), called: Mutex::default() }
    }

    /// Ids of the calls it got.
    fn called(&self) -> Vec<String> {
        self.called.lock().clone()
    }
}

#[boxed_async]
impl ToolSet for SlowTools {
    fn catalog(&self) -> &Arc<Catalog> {
        self.echo.catalog()
    }

    fn approval(&self, _call: &ToolCall, _caller: &Principal) -> Option<WaitTerms> {
        None
    }

    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn {
        self.called.lock().push(request.call.id.clone());
        match request.call.arguments["ms"].as_u64() {
            Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            None => std::future::pending().await,
        }
        self.echo.call(request).await
    }
}

/// The claim and the control of runs that are not told to end.
static CLAIM: LazyLock<RunClaim> = LazyLock::new(|| claim(CancellationToken::new()));
static CONTROL: LazyLock<RunControl> = LazyLock::new(RunControl::default);

fn claim(stop: CancellationToken) -> RunClaim {
    RunClaim { job_id: "7".into(), epoch: Epoch(1), last_may_wait: true, stop, ..RunClaim::default() }
}

fn control(cancel: &CancellationToken) -> RunControl {
    RunControl { cancel: Some(cancel.clone()), ..RunControl::default() }
}

fn task() -> Task {
    testing::task("hello")
}

fn driver<'a>(model: &'a ScriptedModel, tools: &'a dyn ToolSet, journal: &'a TestJournal) -> Driver<'a> {
    Driver { request_id: "req-1", model, tools, journal, claim: Some(&CLAIM), control: &CONTROL }
}

/// What becomes of a run that is cancelled after a second.
async fn cancelled(model: &ScriptedModel, tools: &dyn ToolSet, journal: &TestJournal) -> AgentResult {
    let cancel = CancellationToken::new();
    let control = control(&cancel);
    let driver = Driver { control: &control, ..driver(model, tools, journal) };
    let owner = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(driver.start(task()), owner);
    result.unwrap()
}

fn script() -> [Result<agent_core::words::ModelReply, ModelError>; 3] {
    let wait = |id, ms: u64| (id, "wait", json!({"ms": ms}));
    [
        Ok(asks_for(&[wait("1", 30), ("2", "nope", json!({})), wait("3", 10), wait("4", 20)])),
        Ok(asks_for(&[wait("5", 10)])),
        Ok(says("done")),
    ]
}

/// What a journal says, in short.
fn names(events: &[Event]) -> Vec<String> {
    let name = |event: &Event| match event {
        Event::ToolReturned { index, .. } => format!("tool_returned {index}"),
        event => serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned(),
    };
    events.iter().map(name).collect()
}

async fn journal_of(events: &[Event]) -> TestJournal {
    let journal = TestJournal::default();
    for (sequence, event) in (0..).zip(events) {
        journal.append("run_1", Epoch(1), sequence, std::slice::from_ref(event)).await.unwrap();
    }
    journal
}

const WHOLE: [&str; 9] = [
    "started",
    "model_replied",
    "tool_returned 1",
    "tool_returned 2",
    "tool_returned 3",
    "tool_returned 0",
    "model_replied",
    "tool_returned 0",
    "model_replied",
];

#[tokio::test(start_paused = true)]
async fn every_event_is_journaled_and_every_tool_call_as_soon_as_it_has_ended() {
    let (model, tools, journal) = (ScriptedModel::new(script()), SlowTools::new(), TestJournal::default());
    let result = driver(&model, &tools, &journal).start(task()).await.unwrap();
    assert_eq!((result.output.as_str(), result.iterations), ("done", 3));
    assert_eq!(names(&journal.events()), WHOLE);
    assert_eq!(tools.called(), ["1", "3", "4", "5"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_killed_after_any_event_repeats_no_completed_call_of_model_or_tool() {
    let (model, tools, journal) = (ScriptedModel::new(script()), SlowTools::new(), TestJournal::default());
    let whole = driver(&model, &tools, &journal).start(task()).await.unwrap();
    let events = journal.events();
    for kept in 1..=events.len() {
        let events = &events[..kept];
        let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
        let replies = count(|event| matches!(event, Event::ModelReplied { .. }));
        let returns = count(
            |event| matches!(event, Event::ToolReturned { answer, .. } if answer.receipt.component.is_some()),
        );
        let (model, tools) = (ScriptedModel::new(script().into_iter().skip(replies)), SlowTools::new());
        let journal = journal_of(events).await;
        let resumed = driver(&model, &tools, &journal).resume(events.to_vec()).await.unwrap();
        assert_eq!(resumed, whole, "resumed after {kept} events");
        assert_eq!((model.asked().len(), tools.called().len()), (3 - replies, 4 - returns));

        let mut journaled = names(&journal.events());
        if kept < WHOLE.len() {
            assert_eq!(journaled.remove(kept), "taken_up");
        }
        journaled.sort();
        let mut whole = WHOLE.to_vec();
        whole.sort_unstable();
        assert_eq!(journaled, whole, "nothing twice, nothing missing after {kept} events");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_does_not_hold_up_the_answers_of_the_others() {
    let calls = [("1", "wait", json!({})), ("2", "wait", json!({"ms": 5}))];
    let model = ScriptedModel::new([Ok(asks_for(&calls))]);
    let (tools, journal) = (SlowTools::new(), TestJournal::default());
    let driver = driver(&model, &tools, &journal);
    let run = tokio::time::timeout(Duration::from_secs(1), driver.start(task()));
    assert!(run.await.is_err());
    assert_eq!(names(&journal.events()), ["started", "model_replied", "tool_returned 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_recorded_does_not_go_on() {
    for (fail_at, asked, called) in [(0, 0, 0), (1, 1, 0), (2, 1, 3), (6, 2, 3)] {
        let (model, tools) = (ScriptedModel::new(script()), SlowTools::new());
        let journal = TestJournal::failing_at(fail_at);
        let error = driver(&model, &tools, &journal).start(task()).await.unwrap_err();
        assert!(matches!(error, RunError::Journal(_)), "{error:?}");
        assert_eq!((model.asked().len(), tools.called().len()), (asked, called), "failing at {fail_at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_told_to_stop_does_so_before_its_next_step() {
    let (model, tools, journal) = (ScriptedModel::new(script()), SlowTools::new(), TestJournal::default());
    let stop = CancellationToken::new();
    let claim = claim(stop.clone());
    let driver = Driver { claim: Some(&claim), ..driver(&model, &tools, &journal) };
    let run = driver.start(task());
    let stopped = async {
        tokio::time::sleep(Duration::from_millis(15)).await;
        stop.cancel();
    };
    let (result, ()) = tokio::join!(run, stopped);
    assert!(matches!(result, Err(RunError::Stopped)), "{result:?}");
    // The calls that were under way have ended; the model was not asked again.
    assert_eq!(names(&journal.events()), WHOLE[..6]);
    assert_eq!(model.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_ended_gives_its_result_even_when_told_to_stop() {
    let (model, tools, journal) = (ScriptedModel::new(script()), SlowTools::new(), TestJournal::default());
    let whole = driver(&model, &tools, &journal).start(task()).await.unwrap();
    let (stop, events) = (CancellationToken::new(), journal.events());
    stop.cancel();
    let claim = claim(stop);
    let driver = Driver { claim: Some(&claim), ..driver(&model, &tools, &journal) };
    assert_eq!(driver.resume(events.clone()).await.unwrap(), whole);
    assert_eq!(journal.events(), events, "nothing is added to a run that has ended");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_stopped_its_worker_three_times_without_progress_is_not_tried_again() {
    let (tools, journal) = (SlowTools::new(), TestJournal::default());
    let hanging = [Ok(asks_for(&[("1", "wait", json!({}))]))];
    let model = ScriptedModel::new(hanging);
    let driver = driver(&model, &tools, &journal);
    let moment = Duration::from_secs(1);
    assert!(tokio::time::timeout(moment, driver.start(task())).await.is_err());
    for _ in 0..3 {
        assert!(tokio::time::timeout(moment, driver.resume(journal.events())).await.is_err());
    }
    let error = driver.resume(journal.events()).await.unwrap_err();
    assert_eq!(error.to_string(), "the run stopped its worker 3 times");
    assert!(
        matches!(journal.events().last(), Some(Event::TakenUp { .. })),
        "its dead workers are fenced off"
    );
    // Handed back in good order, it is.
    let sequence = journal.events().len() as u64;
    journal.append("run_1", Epoch(1), sequence, &[Event::HandedBack]).await.unwrap();
    assert!(tokio::time::timeout(moment, driver.resume(journal.events())).await.is_err());
    assert_eq!(tools.called().len(), 5);
}

/// A call that may not be made twice was under way when its worker was killed: whoever takes the run up tells
/// the model so instead of making it again, and makes those that may.
#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_had_an_effect_is_not_made_again() {
    let model = ScriptedModel::new([
        Ok(asks_for(&[("1", "pay", json!({})), ("2", "look", json!({}))])),
        Ok(says("so")),
    ]);
    let journal = TestJournal::default();
    let tools = EchoTools::new(&["pay", "look"]).once_only("pay").hanging();
    let first = driver(&model, &tools, &journal);
    let killed = tokio::time::timeout(Duration::from_secs(1), first.start(task()));
    assert!(killed.await.is_err(), "its worker is killed while both calls are under way");
    assert_eq!(journal.events()[2], Event::ToolsStarted { indexes: vec![0] });

    let tools = EchoTools::new(&["pay", "look"]).once_only("pay");
    let resumed = driver(&model, &tools, &journal);
    let result = resumed.resume(journal.events()).await.unwrap();
    let outcomes: Vec<_> =
        result.tool_calls.iter().map(|receipt| (&*receipt.name, receipt.outcome)).collect();
    assert_eq!(outcomes, [("pay", ToolOutcome::Interrupted), ("look", ToolOutcome::Ok)]);
    let told = format!("{:?}", result.messages);
    assert!(told.contains("it is not known whether it had an effect"), "{told}");
}
