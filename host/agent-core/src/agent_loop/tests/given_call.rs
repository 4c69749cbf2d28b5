//! Runs of one call that was given to them.

use super::waits::{decided, wait};
use super::*;
use crate::words::Verdict;

/// A run of a call of `echo` that has no tokens to spend.
fn given() -> (Run, OpenCall, Vec<Event>) {
    let call = ToolCall { id: "call_1".into(), name: "echo".into(), arguments: json!({ "a": 1 }) };
    let options = Options { call: Some(call), ..Options::default() };
    let limits = RunLimits { iterations: 0, tokens: 0 };
    let task = Task { input: String::new(), options, ..task(limits) };
    let started = Event::Started { task: task.clone(), tools: "sha256:test".into() };
    let (run, step) = Run::start(task, catalog());
    let Step::CallTools(mut calls) = step else { panic!("{step:?}") };
    assert_eq!(calls.len(), 1);
    (run, calls.remove(0), vec![started])
}

#[test]
fn the_answer_of_the_tool_is_the_output_and_no_model_is_asked() {
    let (mut run, open, _) = given();
    assert_eq!((open.id.as_str(), open.index, open.refusal.is_none()), ("run_1.0.0", 0, true));
    let long = "x".repeat(100_000);
    let receipt = ToolReceipt::new("echo", ToolOutcome::Ok);
    let answer = run.fit(0, ToolReturn { content: long.clone(), receipt });
    let result = done(run.on(Event::ToolReturned { index: 0, answer }).unwrap());
    assert_eq!((result.output, result.stop_reason), (long, StopReason::Completed), "no budget cuts it");
    assert_eq!((result.iterations, result.usage, result.tool_calls.len()), (0, Usage::default(), 1));
    let [Message::Assistant { tool_calls, .. }, Message::Tool { .. }] = &result.messages[..] else {
        panic!("{:?}", result.messages)
    };
    assert_eq!(tool_calls[0].arguments, json!({ "a": 1 }));
}

#[test]
fn it_waits_is_decided_and_folds_like_any_other_run() {
    let (mut run, open, mut events) = given();
    let wait = wait(&open);
    let waiting = Event::Waiting { waits: vec![wait.clone()], epoch: 1 };
    assert_eq!(run.on(waiting.clone()).unwrap(), Step::Park(vec![wait.clone()]));
    events.push(waiting);
    for (verdict, outcome) in [
        (Verdict::Approve, ToolOutcome::Ok),
        (Verdict::Reject { reason: Some("too dear".into()) }, ToolOutcome::NotRun),
    ] {
        let decided = decided(&wait, "ada", verdict);
        let events = [&events[..], &[decided, Event::TakenUp { by: "w".into() }]].concat();
        let (mut run, step) = Run::resume(events, catalog()).unwrap();
        let Step::CallTools(calls) = &step else { panic!("{step:?}") };
        let approved = calls[0].approved.as_ref().map(|approved| &approved.digest);
        assert_eq!(approved.is_some(), outcome == ToolOutcome::Ok);
        let result = done(answer_all(&mut run, step));
        assert_eq!((result.tool_calls[0].outcome, result.stop_reason), (outcome, StopReason::Completed));
        assert_eq!(result.output.contains("too dear"), outcome == ToolOutcome::NotRun, "{}", result.output);
    }
}

#[test]
fn a_call_that_was_begun_is_not_made_twice() {
    let (_, open, mut events) = given();
    let call = ToolCall::clone(&open.call);
    let act = ToolSpec { name: "echo".into(), ..ToolSpec::default() };
    let catalog = Arc::new(Catalog::new(vec![act], "sha256:act".into()));
    events.extend([Event::ToolsStarted { indexes: vec![0] }, Event::TakenUp { by: "w".into() }]);
    let (mut run, step) = Run::resume(events, catalog).unwrap();
    let result = done(answer_all(&mut run, step));
    assert_eq!(result.tool_calls[0].outcome, ToolOutcome::Interrupted, "{call:?}");
}

#[test]
fn a_cancelled_one_says_that_the_call_was_not_made() {
    let (mut run, open, mut events) = given();
    let waiting = Event::Waiting { waits: vec![wait(&open)], epoch: 1 };
    run.on(waiting.clone()).unwrap();
    let result = done(run.on(Event::Cancelled).unwrap());
    assert_eq!((result.stop_reason, result.output.contains("cancelled")), (StopReason::Cancelled, true));
    events.extend([waiting, Event::Cancelled]);
    assert_eq!(recorded_end(events, None).unwrap(), Some(result));
}
