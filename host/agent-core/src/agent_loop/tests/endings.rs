//! How runs end: in words whenever one more model call is affordable
//! (host/docs/interface/decisions-runs.md#how-a-run-ends).

use super::*;
use crate::words::ClientFunction;

/// A reply that used so many tokens.
fn using(input_tokens: u64, output_tokens: u64, reply: ModelReply) -> ModelReply {
    ModelReply { usage: Some(Usage::of(input_tokens, output_tokens)), ..reply }
}

/// What a run has whose last model call this limit made.
fn limited(tokens: u64) -> RunLimits {
    RunLimits { tokens, ..RunLimits::default() }
}

fn echo(number: usize) -> ModelReply {
    asks_for(&[("1", "echo", json!({ "number": number }))])
}

/// Takes a run to its `nth` model call by replies that each ask for one tool.
fn to_call(nth: usize, limits: RunLimits) -> (Run, ModelCall) {
    let (mut run, mut step) = start(limits);
    for number in 1..nth {
        let call = asks_model(&step);
        assert_eq!(call.last_by, None, "call {number}");
        step = run.on(call.replied(echo(number))).unwrap();
        step = answer_all(&mut run, step);
    }
    (run, asks_model(&step))
}

#[test]
fn the_tenth_call_is_the_last_and_is_to_end_the_run_in_words() {
    let (mut run, call) = to_call(10, limited(u64::MAX));
    assert_eq!(call.last_by, Some(Limit::Iterations));
    let result = done(run.on(call.replied(says("nine echoes"))).unwrap());
    assert_eq!((result.stop_reason, result.iterations), (StopReason::MaxIterations, 10));
    assert_eq!(result.output, "nine echoes");
}

#[test]
fn calls_in_the_last_reply_are_ignored_and_the_transcript_stays_whole() {
    let (mut run, call) = to_call(10, limited(u64::MAX));
    let reply = ModelReply { content: "one more".into(), ..echo(10) };
    let result = done(run.on(call.replied(reply)).unwrap());
    assert_eq!((result.stop_reason, result.output.as_str()), (StopReason::MaxIterations, "one more"));
    assert_eq!(result.tool_calls.len(), 10);
    assert_eq!(result.tool_calls[9].outcome, ToolOutcome::NotRun);
    assert_eq!(
        answers(&result)[9].1,
        "Error: not run, because this was the last reply that the run could have."
    );
}

#[test]
fn a_call_is_the_last_when_the_budget_would_have_no_room_for_words_after_it() {
    // The first call used 1,000 + 200 of the budget and the second will read those 1,200 and an echo: about
    // 10 more. After 256 of reply the third would read 1,466 and need 256: 1,200 + 1,210 + 256 + 1,466 + 256.
    for (tokens, last_by) in [(4_388, None), (4_387, Some(Limit::Tokens)), (2_700, Some(Limit::Tokens))] {
        let (mut run, step) = start(limited(tokens));
        let step = run.on(asks_model(&step).replied(using(1_000, 200, echo(1)))).unwrap();
        let call = asks_model(&answer_all(&mut run, step));
        assert_eq!((call.input_tokens, call.last_by), (1_210, last_by), "{tokens}");
        let result = done(run.on(call.replied(using(1_210, 100, says("done")))).unwrap());
        let expected = last_by.map_or(StopReason::Completed, Limit::stop_reason);
        assert_eq!((result.stop_reason, result.output.as_str()), (expected, "done"), "{tokens}");
    }
}

#[test]
fn the_first_call_can_be_the_last_one() {
    let (mut run, step) = start(limited(500));
    let call = asks_model(&step);
    assert_eq!(call.last_by, Some(Limit::Tokens));
    let result = done(run.on(call.replied(says("hi"))).unwrap());
    assert_eq!((result.stop_reason, result.output.as_str()), (StopReason::TokenBudget, "hi"));
}

#[test]
fn a_run_without_tools_completes_whatever_the_budget() {
    let catalog = Arc::new(Catalog::new(vec![], "sha256:none".into()));
    let (mut run, step) = Run::start(task(limited(500)), catalog);
    let call = asks_model(&step);
    assert_eq!(call.last_by, None);
    let result = done(run.on(call.replied(says("hi"))).unwrap());
    assert_eq!(result.stop_reason, StopReason::Completed);
}

#[test]
fn tools_whose_answers_nobody_could_read_are_not_called() {
    let (mut run, step) = start(limited(2_000));
    // 1,200 are used; the next call would read those 1,200 again.
    let reply = using(1_000, 200, echo(1));
    let result = done(run.on(asks_model(&step).replied(reply)).unwrap());
    assert_eq!((result.stop_reason, result.iterations), (StopReason::TokenBudget, 1));
    assert_eq!(result.usage.total(), 1_200);
    assert_eq!(
        answers(&result),
        [("1", "Error: not run, because the token budget leaves no room for another reply.")]
    );
}

#[test]
fn an_empty_reply_is_asked_for_once_more_with_the_same_conversation() {
    for empty in ["", " \n\t"] {
        let (mut run, step) = start(RunLimits::default());
        let first = asks_model(&step);
        let again = asks_model(&run.on(first.replied(says(empty))).unwrap());
        assert_eq!(run.messages(), [Message::User { content: "hello".into() }]);
        assert_eq!((again.last_by, again.temperature.to_bits()), (None, first.temperature.to_bits()));
        let result = done(run.on(again.replied(says("hi"))).unwrap());
        assert_eq!((result.stop_reason, result.output.as_str()), (StopReason::Completed, "hi"));
        // Both were paid for.
        assert_eq!((result.iterations, result.usage.total()), (2, 30));
        assert_eq!(result.messages.len(), 2);
    }
}

#[test]
fn two_empty_replies_in_a_row_end_the_run_as_that() {
    let (mut run, step) = start(RunLimits::default());
    let step = run.on(asks_model(&step).replied(says(""))).unwrap();
    let result = done(run.on(asks_model(&step).replied(says(" "))).unwrap());
    assert_eq!((result.stop_reason, result.iterations), (StopReason::EmptyReply, 2));

    // Not in a row: each of them is asked for once more.
    let (mut run, step) = start(RunLimits::default());
    let step = run.on(asks_model(&step).replied(says(""))).unwrap();
    let step = run.on(asks_model(&step).replied(echo(1))).unwrap();
    let step = answer_all(&mut run, step);
    let step = run.on(asks_model(&step).replied(says(""))).unwrap();
    let result = done(run.on(asks_model(&step).replied(says("at last"))).unwrap());
    assert_eq!((result.stop_reason, result.iterations), (StopReason::Completed, 4));
}

#[test]
fn an_empty_reply_to_the_last_call_ends_the_run_by_its_limit() {
    let (mut run, call) = to_call(10, limited(u64::MAX));
    let result = done(run.on(call.replied(says(""))).unwrap());
    assert_eq!((result.stop_reason, result.iterations), (StopReason::MaxIterations, 10));
}

#[test]
fn a_filtered_reply_ends_the_run_as_that_with_the_providers_words() {
    for (text, calls) in [("I cannot help with that.", 0), ("", 0), ("Let me", 1)] {
        let (mut run, step) = start(RunLimits::default());
        let tool_calls = if calls == 0 { vec![] } else { echo(1).tool_calls };
        let reply =
            ModelReply { finish: Finish::ContentFilter, content: text.into(), tool_calls, ..says("") };
        let result = done(run.on(asks_model(&step).replied(reply)).unwrap());
        assert_eq!((result.stop_reason, result.output.as_str()), (StopReason::ContentFilter, text));
        assert_eq!((result.iterations, answers(&result).len()), (1, calls));
    }
}

#[test]
fn a_reply_that_was_cut_off_before_its_first_word_is_not_asked_for_again() {
    let (mut run, step) = start(RunLimits::default());
    let reply = ModelReply { finish: Finish::Length, ..says("") };
    let result = done(run.on(asks_model(&step).replied(reply)).unwrap());
    assert_eq!((result.stop_reason, result.iterations), (StopReason::MaxTokens, 1));
}

#[test]
fn a_call_of_the_callers_own_function_ends_the_run_and_is_left_to_the_caller() {
    let function = ClientFunction {
        name: "look".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    let options = Options { functions: vec![function], ..Options::default() };
    let begin = || Run::start(Task { options: options.clone(), ..task(RunLimits::default()) }, catalog()).0;
    let mut run = begin();
    let calls = asks_for(&[("1", "echo", json!({})), ("2", "look", json!({"at": "it"}))]);
    let Step::Done(result) = run.on(replied(calls.clone())).unwrap() else { panic!("the run goes on") };
    assert_eq!(result.stop_reason, StopReason::ToolCalls);
    // What is the run's own to call is answered, so that nobody waits for it.
    let [_, Message::Assistant { tool_calls, .. }, Message::Tool { tool_call_id, .. }] = &result.messages[..]
    else {
        panic!("{:?}", result.messages)
    };
    assert_eq!((tool_calls.len(), tool_call_id.as_str()), (2, "1"));
    // Without one of them the tools are called as ever.
    let own = asks_for(&[("1", "echo", json!({}))]);
    assert!(matches!(begin().on(replied(own)).unwrap(), Step::CallTools(_)));
}
