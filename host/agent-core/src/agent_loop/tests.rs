//! Tables of events and the steps they lead to.

mod answers;
mod endings;
mod given_call;
mod journals;
mod outputs;
mod waits;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{self, asks_for, check_conversation, says, tool};
use crate::words::{Finish, Options, RunLimits, ToolOutcome, ToolSpec};

fn catalog() -> Arc<Catalog> {
    Arc::new(Catalog::new(vec![tool("echo"), tool("add")], "sha256:test".into()))
}

fn task(limits: RunLimits) -> Task {
    Task {
        limits,
        model: "test/configured".into(),
        principal: Principal::default(),
        ..testing::task("hello")
    }
}

fn start(limits: RunLimits) -> (Run, Step) {
    Run::start(task(limits), catalog())
}

fn replied(reply: ModelReply) -> Event {
    Event::from(reply)
}

/// How a step asks the model.
fn asks_model(step: &Step) -> ModelCall {
    let Step::AskModel(call) = step else { panic!("the model is not asked: {step:?}") };
    *call
}

fn returned(index: usize, name: &str) -> Event {
    Event::ToolReturned { index, answer: answer_of(name, format!("{name} says hi"), ToolOutcome::Ok) }
}

/// What a call of that tool is answered by.
fn answer_of(name: &str, content: String, outcome: ToolOutcome) -> ToolReturn {
    let receipt = ToolReceipt {
        component: Some("c@sha256:1".into()),
        duration_ms: 1.0,
        ..ToolReceipt::new(name, outcome)
    };
    ToolReturn { content, receipt }
}

/// What a driver does with an open call.
fn answer(open: &OpenCall) -> Event {
    match &open.refusal {
        Some(refusal) => Event::ToolReturned { index: open.index, answer: refusal.clone() },
        None => returned(open.index, &open.call.name),
    }
}

/// Answers every open call, the last one first.
fn answer_all(run: &mut Run, mut step: Step) -> Step {
    while let Step::CallTools(calls) = &step {
        step = run.on(answer(calls.last().unwrap())).unwrap();
    }
    step
}

fn done(step: Step) -> AgentResult {
    let Step::Done(result) = step else { panic!("the run goes on: {step:?}") };
    check_conversation(&result.messages);
    *result
}

fn answers(result: &AgentResult) -> Vec<(&str, &str)> {
    result
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool { tool_call_id, content, .. } => Some((tool_call_id.as_str(), content.as_str())),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect()
}

#[test]
fn the_first_step_asks_the_model_with_what_the_budget_allows() {
    let (run, step) = start(RunLimits::default());
    let ModelCall { max_tokens, temperature, last_by, .. } = asks_model(&step);
    assert_eq!(run.messages(), [Message::User { content: "hello".into() }]);
    assert!((9_000..10_000).contains(&max_tokens), "{max_tokens}");
    assert!(temperature.abs() < f64::EPSILON, "interface: temperature 0");
    assert_eq!(last_by, None);
}

#[test]
fn the_callers_options_reach_every_model_call() {
    let options = Options { max_tokens: Some(150), temperature: Some(0.7), ..Options::default() };
    let (mut run, first) = Run::start(Task { options, ..task(RunLimits::default()) }, catalog());
    run.on(replied(asks_for(&[("1", "echo", json!({}))]))).unwrap();
    let second = run.on(returned(0, "echo")).unwrap();
    for call in [first, second].iter().map(asks_model) {
        assert_eq!((call.max_tokens, call.temperature.to_string().as_str()), (150, "0.7"));
    }
}

#[test]
fn a_reply_without_tool_calls_ends_the_run() {
    let (mut run, _) = start(RunLimits::default());
    let result = done(run.on(replied(says("4"))).unwrap());
    assert_eq!(
        serde_json::to_value(&result).unwrap(),
        json!({
            "id": "run_1", "output": "4", "stopReason": "completed",
            "messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "4"}],
            "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
            "iterations": 1, "model": "test/scripted", "toolCalls": [],
        })
    );
}

#[test]
fn tool_calls_are_answered_in_the_order_asked_whichever_returns_first() {
    let (mut run, _) = start(RunLimits::default());
    let calls = [("1", "echo", json!({})), ("2", "add", json!({"a": 1})), ("3", "echo", json!({}))];
    let mut step = run.on(replied(asks_for(&calls))).unwrap();
    for (index, left) in [(2, vec!["1", "2"]), (0, vec!["2"]), (1, vec![])] {
        step = run.on(returned(index, ["first", "second", "third"][index])).unwrap();
        let open = match &step {
            Step::CallTools(open) => open.iter().map(|open| open.call.id.as_str()).collect(),
            Step::AskModel(_) | Step::Park(_) | Step::Done(_) => vec![],
        };
        assert_eq!(open, left);
    }
    assert!(matches!(step, Step::AskModel(_)), "{step:?}");
    let result = done(run.on(replied(says("done"))).unwrap());
    assert_eq!(answers(&result), [("1", "first says hi"), ("2", "second says hi"), ("3", "third says hi")]);
    assert_eq!(result.tool_calls.len(), 3);
}

#[test]
fn an_unknown_tool_is_an_answer_to_the_model_and_the_known_ones_still_run() {
    let (mut run, _) = start(RunLimits::default());
    let calls = [("1", "rm_rf", json!({})), ("2", "add", json!({})), ("3", "echo", json!("{bad"))];
    let step = run.on(replied(asks_for(&calls))).unwrap();
    let Step::CallTools(open) = &step else { panic!("{step:?}") };
    let refused: Vec<_> = open.iter().map(|open| open.refusal.is_some()).collect();
    assert_eq!(refused, [true, false, true]);
    answer_all(&mut run, step);
    let result = done(run.on(replied(says("done"))).unwrap());
    assert_eq!(
        answers(&result),
        [
            ("1", "Error: there is no tool of that name. The tools are: add, echo."),
            ("2", "add says hi"),
            ("3", "Error: the arguments are not a JSON object. Call the tool again with one."),
        ]
    );
    let outcomes: Vec<_> = result.tool_calls.iter().map(|receipt| receipt.outcome).collect();
    assert_eq!(outcomes, [ToolOutcome::UnknownTool, ToolOutcome::Ok, ToolOutcome::InvalidArguments]);
}

#[test]
fn a_journal_folds_to_the_same_history_when_other_tools_are_loaded() {
    let (mut run, _) = start(RunLimits::default());
    let calls = [("1", "echo", json!({})), ("2", "new", json!({})), ("3", "add", json!({}))];
    let step = run.on(replied(asks_for(&calls))).unwrap();
    let Step::CallTools(open) = &step else { panic!("{step:?}") };
    // The journal knows the answers of the first two calls.
    let mut journal = vec![
        Event::Started { task: task(RunLimits::default()), tools: "sha256:test".into() },
        replied(asks_for(&calls)),
        answer(&open[0]),
        answer(&open[1]),
    ];
    let spec = || ToolSpec { description: "a".repeat(100_000), ..tool("new") };
    let swapped = || Arc::new(Catalog::new(vec![spec()], "sha256:swapped".into()));
    let (_, step) = Run::resume(journal.clone(), swapped()).unwrap();
    let Step::CallTools(open) = step else { panic!("{step:?}") };
    assert_eq!(open.iter().map(|open| open.index).collect::<Vec<_>>(), [2]);
    assert!(open[0].refusal.is_some(), "the tool is gone");
    journal.push(answer(&open[0]));
    journal.push(replied(says("done")));
    let result = done(Run::resume(journal, swapped()).unwrap().1);
    assert_eq!(result.stop_reason, StopReason::Completed);
}

#[test]
fn being_taken_up_and_handed_back_changes_nothing() {
    let (mut run, first) = start(RunLimits::default());
    assert_eq!(run.on(Event::TakenUp { by: "b".into() }).unwrap(), first);
    let calls = run.on(replied(asks_for(&[("1", "echo", json!({}))]))).unwrap();
    assert_eq!(run.on(Event::HandedBack).unwrap(), calls);
    run.on(returned(0, "echo")).unwrap();
    let markers = [Event::HandedBack, Event::TakenUp { by: "c".into() }];
    let journal = [
        vec![Event::Started { task: task(RunLimits::default()), tools: String::new() }],
        markers.to_vec(),
        vec![replied(says("4"))],
        // Nobody is to write these after the end, but whoever does harms nothing.
        markers.to_vec(),
    ];
    let (_, step) = Run::resume(journal.concat(), catalog()).unwrap();
    assert_eq!(done(step).output, "4");
}

#[test]
fn attempts_without_progress_are_counted_since_the_last_event_that_says_something() {
    let started = || Event::Started { task: task(RunLimits::default()), tools: String::new() };
    let taken = || Event::TakenUp { by: "b".into() };
    let (reply, back) = (replied(says("4")), Event::HandedBack);
    for (events, count) in [
        (vec![], 0),
        (vec![started()], 1),
        (vec![started(), taken()], 2),
        (vec![started(), taken(), taken()], 3),
        (vec![started(), taken(), reply.clone()], 0),
        (vec![started(), taken(), reply, taken(), taken()], 2),
        (vec![started(), taken(), taken(), back.clone()], 0),
        (vec![started(), taken(), back, taken()], 1),
    ] {
        assert_eq!(attempts_without_progress(&events), count, "{events:?}");
    }
}

#[test]
fn a_budget_too_small_for_the_first_call_makes_no_call() {
    let (_, step) = start(RunLimits { tokens: 10, ..RunLimits::default() });
    let result = done(step);
    assert_eq!((result.stop_reason, result.iterations), (StopReason::TokenBudget, 0));
    assert_eq!((result.model.as_str(), result.output.as_str()), ("test/configured", ""));
}

#[test]
fn a_reply_that_was_cut_off_says_whose_limit_it_met() {
    let cut = |limits, options, output_tokens| {
        let (mut run, _) = Run::start(Task { options, ..task(limits) }, catalog());
        let usage = Some(Usage::of(50, output_tokens));
        let reply = ModelReply { usage, finish: Finish::Length, ..says("half an ans") };
        done(run.on(replied(reply)).unwrap()).stop_reason
    };
    let wanted = Options { max_tokens: Some(100), ..Options::default() };
    let small = RunLimits { tokens: 500, ..RunLimits::default() };
    assert_eq!(cut(RunLimits::default(), wanted, 100), StopReason::MaxTokens);
    assert_eq!(cut(small, Options::default(), 450), StopReason::TokenBudget);
    assert_eq!(cut(RunLimits::default(), Options::default(), 4_096), StopReason::MaxTokens);
}

#[test]
fn the_calls_of_a_reply_that_was_cut_off_are_not_made() {
    let (mut run, _) = start(RunLimits::default());
    let reply = ModelReply { finish: Finish::Length, ..asks_for(&[("1", "echo", json!("{\"a"))]) };
    let result = done(run.on(replied(reply)).unwrap());
    assert_eq!(answers(&result), [("1", "Error: not run, because the reply that asked for it was cut off.")]);
}

#[test]
fn a_cancelled_run_ends_with_what_it_has() {
    let (mut run, _) = start(RunLimits::default());
    run.on(replied(asks_for(&[("1", "echo", json!({})), ("2", "add", json!({}))]))).unwrap();
    run.on(returned(0, "echo")).unwrap();
    let result = done(run.on(Event::Cancelled).unwrap());
    assert_eq!(result.stop_reason, StopReason::Cancelled);
    assert_eq!(
        answers(&result),
        [("1", "echo says hi"), ("2", "Error: not run, because the run was cancelled.")]
    );
}

/// Whoever paid is not to be told that nothing was paid.
#[test]
fn a_call_that_was_begun_when_its_run_was_cancelled_is_not_said_to_be_not_run() {
    let calls = [("1", "echo", json!({})), ("2", "add", json!({})), ("3", "echo", json!({}))];
    let nested = Event::NestedStarted { index: 2, number: 0, name: "add".into() };
    for markers in [vec![], vec![Event::TakenUp { by: "b".into() }]] {
        let (mut run, _) = start(RunLimits::default());
        run.on(replied(asks_for(&calls))).unwrap();
        run.on(Event::ToolsStarted { indexes: vec![1] }).unwrap();
        run.on(nested.clone()).unwrap();
        for marker in markers {
            run.on(marker).unwrap();
        }
        let result = done(run.on(Event::Cancelled).unwrap());
        let told = result.tool_calls.iter().map(|receipt| (receipt.outcome, receipt.nested));
        let interrupted = ToolOutcome::Interrupted;
        let expected = [(ToolOutcome::NotRun, 0), (interrupted, 0), (interrupted, 1)];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        assert!(answers(&result)[1].1.contains("it is not known whether it had an effect"));
    }
}

#[test]
fn an_event_that_answers_nothing_is_refused() {
    let (mut run, _) = start(RunLimits::default());
    assert_eq!(
        run.on(returned(0, "echo")).unwrap_err().to_string(),
        "run run_1 cannot go on with this event: it waits for the model"
    );
    let (mut run, _) = start(RunLimits::default());
    run.on(replied(asks_for(&[("1", "echo", json!({})), ("2", "add", json!({}))]))).unwrap();
    assert!(run.on(returned(2, "echo")).is_err(), "there is no third call");
    let (mut run, _) = start(RunLimits::default());
    run.on(replied(asks_for(&[("1", "echo", json!({})), ("2", "add", json!({}))]))).unwrap();
    run.on(returned(1, "add")).unwrap();
    assert!(run.on(returned(1, "add")).is_err(), "one call, two answers");
    let (mut run, _) = start(RunLimits::default());
    run.on(replied(says("4"))).unwrap();
    assert!(run.on(replied(says("5"))).is_err(), "the run has ended");
    assert!(run.on(Event::HandedBack).is_err(), "its result was given away");
    assert!(Run::resume([], catalog()).is_err(), "an empty journal begins no run");
}

/// Replies as a model might give them: tools known and unknown, arguments good and bad, cut off or not.
fn any_reply() -> impl Strategy<Value = ModelReply> {
    let call = (0..3_usize, prop::bool::ANY).prop_map(|(tool, good)| {
        let arguments = if good { json!({"a": 1}) } else { json!("{") };
        ("id", ["echo", "add", "nope"][tool], arguments)
    });
    (prop::collection::vec(call, 0..4), prop::option::of(0..500_u64), prop::bool::weighted(0.05)).prop_map(
        |(calls, output_tokens, cut)| ModelReply {
            usage: output_tokens.map(|output_tokens| Usage::of(10, output_tokens)),
            finish: if cut { Finish::Length } else { Finish::Done },
            ..asks_for(&calls)
        },
    )
}

proptest! {
    /// Whatever a model says and in whatever order tools return, a run ends within its limits with a whole
    /// transcript, and folding its journal at any point gives the very same run, markers or not.
    #[test]
    fn every_run_ends_and_can_be_resumed_after_every_event(
        replies in prop::collection::vec(any_reply(), 10),
        order in prop::collection::vec(0..60_usize, 200),
        tokens in 0..20_000_u64,
    ) {
        let limits = RunLimits { tokens, ..RunLimits::default() };
        let (mut run, mut step) = start(limits);
        let mut journal = vec![Event::Started { task: task(limits), tools: "sha256:test".into() }];
        let (mut replies, mut order) = (replies.into_iter(), order.into_iter());
        while !matches!(step, Step::Done(_)) {
            let event = match &step {
                Step::AskModel(call) => call.replied(replies.next().expect("at most ten model calls")),
                Step::CallTools(calls) => {
                    let drawn = order.next().unwrap();
                    let call = &calls[drawn % calls.len()];
                    match answer(call) {
                        _ if call.refusal.is_none() && call.times_shown < 2 && drawn % 3 == 0 => {
                            Event::Waiting { waits: vec![waits::wait(call)], epoch: 1 }
                        }
                        Event::ToolReturned { index, answer } => {
                            Event::ToolReturned { index, answer: run.fit(index, answer) }
                        }
                        _ => unreachable!(),
                    }
                }
                Step::Park(waits) => waits::decided(&waits[0], "u1", waits::verdict(order.next().unwrap())),
                Step::Done(_) => unreachable!(),
            };
            journal.push(event.clone());
            step = run.on(event).unwrap();
            let text = serde_json::to_string(&journal).unwrap();
            let mut read: Vec<Event> = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read, &journal);
            let (_, resumed) = Run::resume(read.clone(), catalog()).unwrap();
            prop_assert_eq!(&resumed, &step);
            read.insert(1 + read.len() / 2, Event::TakenUp { by: "b".into() });
            read.push(Event::HandedBack);
            let (_, resumed) = Run::resume(read, catalog()).unwrap();
            prop_assert_eq!(&resumed, &step);
        }
        let result = done(step);
        prop_assert!(result.iterations <= 10);
        // Every answer to a call has a receipt.
        prop_assert_eq!(answers(&result).len(), result.tool_calls.len());
        // A result is read from a cache as it was stored.
        let stored: AgentResult = serde_json::from_str(&serde_json::to_string(&result).unwrap()).unwrap();
        prop_assert_eq!(stored, result);
    }
}
