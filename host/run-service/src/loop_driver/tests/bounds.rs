//! What a run is kept from: calling too much at once, reading too much, going on when nobody wants it.

use std::pin::pin;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::held_lease::LeaseWatch;
use agent_core::words::{Message, Options, OutputFormat, ReplyRules, RequiredCall, StopReason};

use super::nested::Scripts;
use super::*;

#[tokio::test(start_paused = true)]
async fn the_last_call_is_made_without_a_choice_of_tools() {
    let wait = |n: u64| Ok(asks_for(&[("id", "wait", json!({ "n": n }))]));
    let script = (1..10).map(wait).chain([Ok(says("that is it"))]);
    let model = ScriptedModel::new(script);
    let (tools, journal) = (EchoTools::new(&["wait"]), TestJournal::default());
    let result = driver(&model, &tools, &journal).start(task()).await.unwrap();
    assert_eq!((result.stop_reason, result.output.as_str()), (StopReason::MaxIterations, "that is it"));
    let mut expected = vec!["Auto".to_owned(); 9];
    expected.push("None".to_owned());
    assert_eq!(model.choices(), expected);
    // Whoever takes the run up from its journal comes to the same end.
    let resumed = driver(&model, &tools, &journal).resume(journal.events()).await.unwrap();
    assert_eq!(resumed, result);
}

#[tokio::test]
async fn the_first_call_is_the_one_that_is_wanted_and_the_output_what_its_schema_allows() {
    let rules = |first_call| ReplyRules { first_call: Some(first_call), ..ReplyRules::default() };
    for (first_call, first) in [
        (RequiredCall::Any, "Required"),
        (RequiredCall::Tool("wait".into()), r#"Tool("wait")"#),
        (RequiredCall::Tool("gone".into()), "Auto"),
    ] {
        let output = Some(OutputFormat { name: "sum".into(), schema: Some(json!({"required": ["sum"]})) });
        let options = Options { rules: ReplyRules { output, ..rules(first_call) }, ..Options::default() };
        let script = [asks_for(&[("1", "wait", json!({}))]), says("{}"), says(r#"{"sum": 3}"#)];
        let (model, journal) = (ScriptedModel::new(script.map(Ok)), TestJournal::default());
        let tools = EchoTools::new(&["wait"]);
        let result = driver(&model, &tools, &journal).start(Task { options, ..task() }).await.unwrap();
        assert_eq!(model.choices(), [first, "Auto", "Auto"]);
        assert_eq!(
            (result.stop_reason, result.output_value),
            (StopReason::Completed, Some(json!({"sum": 3})))
        );
        let told = model.asked()[2].last().unwrap().clone();
        let Message::User { content } = told else { panic!("{told:?}") };
        assert!(content.text().contains("does not match the schema"), "{content:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_journaled_of_an_answer_that_is_too_long_is_what_the_model_reads() {
    let calls = [("1", "look", json!({ "bytes": 100_000 })), ("2", "look", json!({ "bytes": 9 }))];
    let model = ScriptedModel::new([Ok(asks_for(&calls)), Ok(says("done"))]);
    let (tools, journal) = (Scripts::new(), TestJournal::default());
    let result = driver(&model, &tools, &journal).start(task()).await.unwrap();
    assert_eq!(result.stop_reason, StopReason::Completed);
    let events = journal.events();
    let first = |event: &&Event| matches!(event, Event::ToolReturned { index: 0, .. });
    let Some(Event::ToolReturned { answer, .. }) = events.iter().find(first) else { panic!("{events:?}") };
    assert!(answer.content.contains("Ask for less"), "{}", answer.content);
    let asked = model.asked();
    let agent_core::words::Message::Tool { content, .. } = &asked[1][2] else { panic!() };
    assert_eq!(*content, answer.content);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cancelled_drops_its_tools_and_says_so_in_its_journal() {
    let calls = [("1", "wait", json!({})), ("2", "wait", json!({ "ms": 5 }))];
    let model = ScriptedModel::new([Ok(asks_for(&calls))]);
    let (tools, journal) = (SlowTools::new(), TestJournal::default());
    let result = cancelled(&model, &tools, &journal).await;
    assert_eq!((result.stop_reason, result.usage.total()), (StopReason::Cancelled, 15));
    assert_eq!(names(&journal.events()), ["started", "model_replied", "tool_returned 1", "cancelled"]);
    // A worker that takes the job up before the queue knows finds it cancelled.
    assert_eq!(driver(&model, &tools, &journal).resume(journal.events()).await.unwrap(), result);
    assert_eq!(model.asked().len(), 1);
}

/// Whoever cancels a run that waits writes under the epoch that nobody is above. Another event before that
/// one would fence every worker off when the process dies between the two.
#[tokio::test(start_paused = true)]
async fn a_cancelled_run_that_is_taken_up_is_cancelled_by_its_first_event() {
    let model = ScriptedModel::new([Ok(asks_for(&[("1", "wait", json!({}))]))]);
    let (tools, journal, cancel) = (SlowTools::new(), TestJournal::default(), CancellationToken::new());
    let first = driver(&model, &tools, &journal);
    assert!(tokio::time::timeout(Duration::from_secs(1), first.start(task())).await.is_err());
    cancel.cancel();
    let control = control(&cancel);
    let driver = Driver { control: &control, ..driver(&model, &tools, &journal) };
    let result = driver.resume(journal.events()).await.unwrap();
    assert_eq!(result.stop_reason, StopReason::Cancelled);
    assert_eq!(names(&journal.events()), ["started", "model_replied", "cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cancelled_drops_its_model_call() {
    let (model, tools, journal) = (ScriptedModel::hanging(), SlowTools::new(), TestJournal::default());
    let result = cancelled(&model, &tools, &journal).await;
    assert_eq!(result.stop_reason, StopReason::Cancelled);
    assert_eq!(names(&journal.events()), ["started", "cancelled"]);
}

/// Calls that are under way when the lease ends go on: 16 at once, one more behind them, and the model.
#[tokio::test(start_paused = true)]
async fn a_run_whose_lease_may_have_ended_begins_no_call_until_it_is_renewed() {
    let (second, ids) = (Duration::from_secs(1), (0..17).map(|id| id.to_string()).collect::<Vec<_>>());
    let calls: Vec<_> = ids.iter().map(|id| (id.as_str(), "wait", json!({ "ms": 5_000 }))).collect();
    for (seconds, asked, called) in [(0, 0, 0), (1, 1, CALLS_AT_ONCE), (7, 1, 17)] {
        let model = ScriptedModel::new([Ok(asks_for(&calls)), Ok(says("done"))]);
        let (tools, journal) = (SlowTools::new(), TestJournal::default());
        let (renewed, lease) = watch::channel(Instant::now() + second * seconds);
        let control = RunControl {
            lease: Some(LeaseWatch { ends: lease, lost: CancellationToken::new() }),
            ..RunControl::default()
        };
        let driver = Driver { control: &control, ..driver(&model, &tools, &journal) };
        let mut run = pin!(driver.start(task()));
        assert!(timeout(60 * second, &mut run).await.is_err());
        assert_eq!((model.asked().len(), tools.called().len()), (asked, called), "{seconds}");
        renewed.send_replace(Instant::now() + 60 * second);
        assert_eq!(run.await.unwrap().output, "done");
    }
}
