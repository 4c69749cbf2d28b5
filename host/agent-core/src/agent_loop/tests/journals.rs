//! Journals as they were written, by this version and by older ones.

use super::*;

fn read(lines: &[&str]) -> Vec<Event> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const STARTED: &str = r#"{"event":"started","task":{"id":"run_1","input":"hello","options":{},"limits":{"iterations":2,"tokens":3000},"model":"test/configured"},"tools":"sha256:old"}"#;
const ASKED: &str = r#"{"event":"model_replied","reply":{"content":"","tool_calls":[{"id":"1","name":"echo","arguments":{}}],"usage":{"inputTokens":1000,"outputTokens":200},"finish":"done","model":"test/scripted"}}"#;
const RETURNED: &str = r#"{"event":"tool_returned","index":0,"answer":{"content":"echo says hi","receipt":{"name":"echo","component":"c@sha256:1","durationMs":1.0,"outcome":"ok"}}}"#;
const MARKERS: [&str; 2] = [r#"{"event":"handed_back"}"#, r#"{"event":"taken_up","by":"b"}"#];

/// As version 0.1.0 wrote them: nothing about how the model was asked.
#[test]
fn journals_of_the_version_before_still_fold() {
    let (_, step) = Run::resume(read(&[STARTED]), catalog()).unwrap();
    assert_eq!(asks_model(&step).last_by, None);
    let (_, step) = Run::resume(read(&[STARTED, ASKED]), catalog()).unwrap();
    assert!(matches!(step, Step::CallTools(_)), "{step:?}");
    let (_, step) =
        Run::resume(read(&[STARTED, ASKED, RETURNED, MARKERS[0], MARKERS[1]]), catalog()).unwrap();
    assert_eq!(asks_model(&step).last_by, Some(Limit::Iterations));
    // The version that wrote this journal did not say that this reply was to be the last one.
    let (_, step) = Run::resume(read(&[STARTED, ASKED, RETURNED, ASKED]), catalog()).unwrap();
    let result = done(step);
    assert_eq!((result.stop_reason, result.iterations), (StopReason::MaxIterations, 2));
    let said = r#"{"event":"model_replied","reply":{"content":"4","tool_calls":[],"usage":null,"finish":"done","model":"m"}}"#;
    let (_, step) = Run::resume(read(&[STARTED, ASKED, RETURNED, said]), catalog()).unwrap();
    let result = done(step);
    assert_eq!((result.stop_reason, result.output.as_str()), (StopReason::Completed, "4"));
    let (_, step) = Run::resume(read(&[STARTED, ASKED, r#"{"event":"cancelled"}"#]), catalog()).unwrap();
    assert_eq!(done(step).stop_reason, StopReason::Cancelled);
}

/// The version that wrote these journals called tools whose answers did not fit and made more calls of a
/// reply than this one does.
#[test]
fn answers_that_this_version_would_not_have_asked_for_are_taken_as_they_are() {
    let started = STARTED.replace("3000", "2000");
    let long = RETURNED.replace("echo says hi", &"x".repeat(30_000));
    let (_, step) = Run::resume(read(&[&started, ASKED, &long]), catalog()).unwrap();
    let result = done(step);
    assert_eq!((result.stop_reason, result.iterations), (StopReason::TokenBudget, 1));
    assert_eq!(answers(&result)[0].1.len(), 30_000);

    let call = r#"{"id":"1","name":"echo","arguments":{}}"#;
    let asked = ASKED.replace(call, &[call; 40].join(","));
    let returned: Vec<_> =
        (0..40).rev().map(|n| RETURNED.replace(r#""index":0"#, &format!(r#""index":{n}"#))).collect();
    let lines: Vec<_> = [STARTED, &asked].into_iter().chain(returned.iter().map(String::as_str)).collect();
    let (run, step) = Run::resume(read(&lines), catalog()).unwrap();
    assert!(matches!(step, Step::AskModel(_)), "{step:?}");
    assert_eq!(run.messages().len(), 42);
}

#[test]
fn how_the_model_was_asked_is_journaled_with_its_reply() {
    let call =
        ModelCall { max_tokens: 9, temperature: 0.0, input_tokens: 1_000, last_by: Some(Limit::Tokens) };
    let event = serde_json::to_value(call.replied(says("4"))).unwrap();
    assert_eq!((&event["input_tokens"], &event["last_by"]), (&json!(1_000), &json!("tokens")));
    assert_eq!(serde_json::from_value::<Event>(event).unwrap(), call.replied(says("4")));
    let plain = serde_json::to_value(replied(says("4"))).unwrap();
    assert_eq!(plain.as_object().unwrap().keys().collect::<Vec<_>>(), ["event", "reply"]);
}

#[test]
fn usage_is_estimated_when_the_provider_does_not_say() {
    let (mut run, step) = start(RunLimits::default());
    let reply = ModelReply { usage: None, ..says(&"word ".repeat(300)) };
    let result = done(run.on(asks_model(&step).replied(reply)).unwrap());
    assert!(result.usage.input_tokens > 0 && result.usage.output_tokens >= 500, "{:?}", result.usage);
}

#[test]
fn estimated_usage_is_the_same_whatever_tools_are_loaded_when_the_journal_is_read() {
    let (mut run, step) = start(RunLimits::default());
    let reply = ModelReply { usage: None, ..says("hi") };
    let event = asks_model(&step).replied(reply);
    let journal =
        vec![Event::Started { task: task(RunLimits::default()), tools: "sha256:test".into() }, event.clone()];
    let whole = done(run.on(event).unwrap());
    let spec = ToolSpec { description: "a".repeat(100_000), ..tool("new") };
    let swapped = Arc::new(Catalog::new(vec![spec], "sha256:swapped".into()));
    let (_, step) = Run::resume(journal, swapped).unwrap();
    assert_eq!(done(step), whole);
}

/// What tools called changes nothing about the run but how many such calls it has left, as often as it is
/// told of one.
#[test]
fn calls_of_tools_by_tools_are_counted_and_change_nothing_else() {
    let (mut run, step) = start(RunLimits::default());
    let nested = |index, number| Event::NestedReturned {
        index,
        number,
        receipt: ToolReceipt::new("add", ToolOutcome::Ok),
        error: None,
        recorded: None,
    };
    let begun = |index, number| Event::NestedStarted { index, number, name: "add".into() };
    assert!(run.on(nested(0, 0)).is_err(), "it waits for the model");
    let asked = asks_model(&step).replied(asks_for(&[("1", "echo", json!({})), ("2", "echo", json!({}))]));
    let open = run.on(asked).unwrap();
    assert!(run.on(nested(2, 0)).is_err(), "there is no such call");
    // The calls of one tool are answered in any order; of the first one of the second, nothing is known but
    // its number.
    for (event, count) in
        [(begun(0, 0), 1), (nested(0, 2), 3), (nested(0, 0), 3), (nested(1, 1), 5), (nested(0, 1), 5)]
    {
        assert_eq!(run.on(event).unwrap(), open);
        assert_eq!(run.nested_calls(), count);
    }
    run.on(returned(0, "echo")).unwrap();
    assert!(run.on(nested(0, 3)).is_err(), "that call was answered");
    let step = run.on(returned(1, "echo")).unwrap();
    run.on(asks_model(&step).replied(asks_for(&[("3", "echo", json!({}))]))).unwrap();
    run.on(nested(0, 0)).unwrap();
    assert_eq!(run.nested_calls(), 6, "every reply has numbers of its own");
}

#[test]
fn a_tool_that_calls_others_is_never_called_twice_and_destroys_what_they_do() {
    let tool =
        |name: &str, is_destructive, calls_tools| ToolSpec { is_destructive, calls_tools, ..tool(name) };
    let script = || tool("script", false, true);
    let asked = |tools: Vec<ToolSpec>| {
        let catalog = Arc::new(Catalog::new(tools, String::new()));
        let (mut run, step) = Run::start(task(RunLimits::default()), catalog);
        let reply = asks_for(&[("1", "script", json!({}))]);
        let Step::CallTools(open) = run.on(asks_model(&step).replied(reply)).unwrap() else { panic!() };
        (open[0].is_repeatable, open[0].is_destructive, open[0].calls_tools)
    };
    assert_eq!(asked(vec![script(), tool("look", false, false)]), (false, false, true));
    assert_eq!(asked(vec![script(), tool("other", true, true)]), (false, false, true), "it cannot be called");
    assert_eq!(asked(vec![script(), tool("pay", true, false)]), (false, true, true));
    assert_eq!(asked(vec![tool("script", true, true)]), (false, true, true));
    assert_eq!(asked(vec![tool("script", false, false)]), (true, false, false));
}
