//! A run that is watched and its result come to equal items.

use agent_core::words::{StopReason, ToolReceipt};

use super::*;

fn call(name: &str) -> ToolCall {
    ToolCall { id: format!("id_{name}"), name: name.into(), arguments: json!({"a": 1}) }
}

fn result(messages: Vec<Message>, outcomes: &[ToolOutcome]) -> AgentResult {
    let tool_calls = outcomes.iter().map(|outcome| ToolReceipt::new("t", *outcome)).collect();
    AgentResult { tool_calls, ..agent_core::testing::result(messages, StopReason::Completed) }
}

fn said(content: &str, tool_calls: Vec<ToolCall>) -> Message {
    Message::Assistant { content: content.into(), tool_calls }
}

fn answer(content: &str) -> Message {
    Message::Tool { tool_call_id: "id".into(), name: "t".into(), content: content.into() }
}

/// Type, status and words of each item.
fn brief(items: &[Value]) -> Vec<String> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("-").to_owned();
    let brief = |item: &Value| {
        let words = item.pointer("/content/0/text").or(item.get("output")).filter(|words| !words.is_null());
        format!(
            "{} {} {}",
            text(item.get("type")),
            text(item.get("status")),
            text(words.or(item.pointer("/error/content/0/text")))
        )
    };
    items.iter().map(brief).collect()
}

fn whole_run() -> AgentResult {
    let calls = vec![call("add"), call("nope")];
    let messages = vec![
        Message::User { content: "1+2?".into() },
        said("Let me see.", calls),
        answer("3"),
        answer("There is no tool nope."),
        said("It is 3.", vec![]),
    ];
    result(messages, &[ToolOutcome::Ok, ToolOutcome::UnknownTool])
}

const WHOLE: [&str; 4] = [
    "message completed Let me see.",
    "mcp_call completed 3",
    "mcp_call failed There is no tool nope.",
    "message completed It is 3.",
];

/// The events of each item, by its place: begun before anything else, and nothing after it is done.
fn check_order(events: &[Event]) {
    let mut done = vec![];
    for (kind, fields) in events {
        let place = fields["output_index"].as_u64().unwrap() as usize;
        match *kind {
            "response.output_item.added" => {
                assert_eq!(place, done.len(), "items come in their order");
                done.push(false);
            }
            "response.output_item.done" => {
                assert!(!std::mem::replace(&mut done[place], true), "done twice");
                assert_ne!(fields["item"]["status"], "in_progress");
            }
            _ => assert!(!done[place], "{kind} of item {place} after it is done"),
        }
    }
    assert!(done.iter().all(|is_done| *is_done), "{done:?}");
}

#[test]
fn a_run_that_is_watched_has_the_items_of_one_that_is_not() {
    let whole = whole_run();
    let mut taken = Items::new("1", BTreeSet::new(), false);
    taken.take(&whole);
    assert_eq!(brief(taken.all()), WHOLE);
    let mut watched = Items::new("1", BTreeSet::new(), false);
    watched.delta("Let me ");
    watched.delta("see.");
    watched.replied("Let me see.", &[call("add"), call("nope")]);
    // In any order.
    watched.returned(1, "There is no tool nope.", false);
    watched.returned(0, "3", true);
    watched.delta("It is 4");
    watched.reset();
    watched.delta("It ");
    watched.delta("is 4");
    watched.reset();
    watched.replied("It is 3.", &[]);
    watched.end(&whole);
    let mut expected = WHOLE.to_vec();
    // What broke off cannot be taken back.
    expected.insert(3, "message incomplete It is 4");
    assert_eq!(brief(watched.all()), expected);
    let events = watched.events();
    check_order(&events);
    let deltas: String = events
        .iter()
        .filter(|(kind, _)| *kind == "response.output_text.delta")
        .map(|(_, fields)| fields["delta"].as_str().unwrap())
        .collect();
    assert_eq!(deltas, "Let me see.It is 4It is 3.");
    assert!(watched.events().is_empty());
}

#[test]
fn words_that_are_no_answer_of_the_format_are_not_said() {
    let right = || Some(json!({"a": 1}));
    for (stop_reason, output_value, expected) in [
        (StopReason::Completed, right(), &["message completed words"][..]),
        // What a limit has cut off is no JSON either.
        (StopReason::MaxTokens, None, &[]),
        // A run that waits for somebody says so in the place of an answer.
        (StopReason::Completed, None, &[]),
        (StopReason::InvalidOutput, None, &[]),
        (StopReason::ToolCalls, None, &[]),
    ] {
        let ended = result(vec![said("words", vec![])], &[]);
        let output_error = Some("why".to_owned());
        let output = "words".to_owned();
        let ended = AgentResult { stop_reason, output, output_value, output_error, ..ended };
        let mut items = Items::new("1", BTreeSet::new(), true);
        items.take(&ended);
        assert_eq!(brief(items.all()), expected, "{stop_reason:?}");
    }
}

#[test]
fn what_is_open_at_the_end_is_closed() {
    let mut items = Items::new("1", BTreeSet::new(), false);
    items.replied("", &[call("add"), call("add")]);
    items.returned(0, "3", true);
    let messages = vec![said("", vec![call("add"), call("add")]), answer("3"), answer("not run: cancelled")];
    items.end(&result(messages, &[]));
    assert_eq!(brief(items.all()), ["mcp_call completed 3", "mcp_call failed not run: cancelled"]);
    check_order(&items.events());

    let mut items = Items::new("1", BTreeSet::new(), false);
    items.delta("It");
    items.break_off();
    assert_eq!(brief(items.all()), ["message incomplete It"]);
    check_order(&items.events());
}

#[test]
fn functions_of_the_client_are_calls_for_it_to_make() {
    let calls = vec![call("look"), call("add"), call("look")];
    let messages = vec![said("", calls.clone()), answer("not run")];
    let ended =
        AgentResult { stop_reason: StopReason::ToolCalls, ..result(messages, &[ToolOutcome::NotRun]) };
    let items = || Items::new("1", BTreeSet::from(["look".to_owned()]), false);
    let (mut taken, mut watched) = (items(), items());
    taken.take(&ended);
    watched.replied("", &calls);
    watched.end(&ended);
    for mut items in [taken, watched] {
        assert_eq!(
            brief(items.all()),
            ["function_call completed -", "mcp_call failed not run", "function_call completed -"]
        );
        let first = &items.all()[0];
        assert_eq!((&first["call_id"], &first["arguments"]), (&json!("id_look"), &json!(r#"{"a":1}"#)));
        check_order(&items.events());
    }
}

/// The last of its calls may be cut in half, and all of them are answered already.
#[test]
fn a_reply_that_was_cut_off_has_no_calls_for_the_client() {
    let calls = vec![call("look"), call("add")];
    let messages = vec![said("Hm", calls.clone()), answer("no look"), answer("no add")];
    let not_run = [ToolOutcome::NotRun; 2];
    let ended = AgentResult { stop_reason: StopReason::MaxTokens, ..result(messages, &not_run) };
    let items = || Items::new("1", BTreeSet::from(["look".to_owned()]), false);
    let (mut taken, mut watched) = (items(), items());
    taken.take(&ended);
    watched.replied("Hm", &calls);
    watched.leave_out_functions();
    watched.settle();
    watched.end(&ended);
    for mut items in [taken, watched] {
        assert_eq!(brief(items.all()), ["message completed Hm", "mcp_call failed no add"]);
        check_order(&items.events());
    }
}
