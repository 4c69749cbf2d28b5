//! Outputs that a caller wants as JSON.

use super::*;
use crate::words::{OutputFormat, ReplyRules};

fn formatted(limits: RunLimits) -> Task {
    let output = Some(OutputFormat { name: "sum".into(), schema: Some(json!({"type": "object"})) });
    let options = Options { rules: ReplyRules { output, ..ReplyRules::default() }, ..Options::default() };
    Task { options, ..task(limits) }
}

fn wrong(call: ModelCall, words: &str) -> Event {
    call.checked(says(words), Some("The reply is not JSON.".into()))
}

#[test]
fn the_model_corrects_itself_twice_and_the_journal_folds_to_the_same() {
    let (mut run, mut step) = Run::start(formatted(RunLimits::default()), catalog());
    let mut events = vec![Event::Started { task: formatted(RunLimits::default()), tools: "t".into() }];
    for words in ["It is 3.", "3!"] {
        let call = asks_model(&step);
        assert!(run.format_of(&call, &says(words)).is_some());
        events.push(wrong(call, words));
        step = run.on(events.last().unwrap().clone()).unwrap();
        let told = Message::User {
            content: "The reply is not JSON. Reply with the corrected JSON, and with nothing else.".into(),
        };
        assert_eq!(run.messages().last(), Some(&told));
    }
    let call = asks_model(&step);
    let (again, same) = Run::resume(events.clone(), catalog()).unwrap();
    assert_eq!((again.messages(), asks_model(&same)), (run.messages(), call));
    let result = done(run.on(call.replied(says(r#"{"sum": 3}"#))).unwrap());
    assert_eq!((result.stop_reason, result.iterations), (StopReason::Completed, 3));
    assert_eq!((result.output_value, result.output_error), (Some(json!({"sum": 3})), None));
    // The third one that is wrong ends the run, and says why.
    events.push(wrong(call, "three"));
    let result = recorded_end(events, None).unwrap().unwrap();
    assert_eq!((result.stop_reason, result.output.as_str()), (StopReason::InvalidOutput, "three"));
    assert_eq!((result.output_value, result.output_error.as_deref()), (None, Some("The reply is not JSON.")));
}

#[test]
fn nothing_is_corrected_behind_the_last_call() {
    let limits = RunLimits { iterations: 1, ..RunLimits::default() };
    let (mut run, step) = Run::start(formatted(limits), catalog());
    let result = done(run.on(wrong(asks_model(&step), "three")).unwrap());
    assert_eq!((result.stop_reason, result.iterations), (StopReason::MaxIterations, 1));
    assert_eq!((result.output_value, result.output_error.is_some()), (None, true));
    // Without tools the last call is not announced.
    let (mut run, step) = Run::start(formatted(limits), Arc::default());
    let result = done(run.on(wrong(asks_model(&step), "three")).unwrap());
    assert_eq!(result.stop_reason, StopReason::InvalidOutput);
}

#[test]
fn only_a_reply_that_would_be_the_output_has_to_be_it() {
    let (run, step) = Run::start(formatted(RunLimits::default()), catalog());
    let call = asks_model(&step);
    let has_format = |call: &ModelCall, reply: &ModelReply| run.format_of(call, reply).is_some();
    let asking = ModelReply { content: "Let me see.".into(), ..asks_for(&[("1", "echo", json!({}))]) };
    assert!(!has_format(&call, &asking) && !has_format(&call, &says(" ")));
    assert!(!has_format(&call, &ModelReply { finish: Finish::Length, ..says("{") }));
    assert!(has_format(&ModelCall { last_by: Some(Limit::Tokens), ..call }, &asking));
    let (free, step) = start(RunLimits::default());
    assert_eq!(free.format_of(&asks_model(&step), &says("3")), None);
}

/// Words beside calls are held against no schema.
#[test]
fn words_beside_calls_that_are_not_made_any_more_are_no_output() {
    let limits = RunLimits { tokens: 5_000, ..RunLimits::default() };
    let (mut run, step) = Run::start(formatted(limits), catalog());
    let usage = Some(Usage::of(4_000, 990));
    let asking = asks_for(&[("1", "echo", json!({}))]);
    let asking = ModelReply { content: r#"{"sum": 3}"#.into(), usage, ..asking };
    let result = done(run.on(asks_model(&step).replied(asking)).unwrap());
    assert_eq!((result.stop_reason, result.output.as_str()), (StopReason::TokenBudget, r#"{"sum": 3}"#));
    let unfinished = Some("The run ended before its output was whole.");
    assert_eq!((result.output_value, result.output_error.as_deref()), (None, unfinished));
}
