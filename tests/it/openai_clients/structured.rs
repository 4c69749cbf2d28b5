//! Answers of a form, and replies that keep to what was asked of their calls and ends: what the model says to
//! the programs of `tests/clients/`, what they report, and what the model was told.

use acceptance::{Model, Play, Request, asks_for, asks_for_all, says};
use serde_json::{Value, json};

/// The form that all programs ask for.
fn city() -> Value {
    json!({ "name": "Bonn", "people": 341_519 })
}

const WRONG: &str = "It is Bonn.";
const FAULT: &str = "The reply is not JSON: expected value at line 1 column 1.";

fn right() -> Play {
    says(&city().to_string())
}

/// As some models write it.
fn fenced() -> Play {
    says(&format!("```json\n{}\n```", city()))
}

fn calculates() -> Play {
    asks_for("calculate", json!({ "expression": "6 * 7" }))
}

/// Two calls in one reply, of a model that takes no notice of `parallel_tool_calls`.
fn calls_twice(function: &str, arguments: &Value) -> Play {
    asks_for_all([(function, arguments.clone()), (function, arguments.clone())])
}

/// A reply with words and the call of a function.
fn says_and_calls(words: &str, function: &str) -> Play {
    let calls = vec![(function.to_owned(), json!({}))];
    Play::Reply { text: words.to_owned(), calls, usage: Some((100, 10)) }
}

fn play(model: &Model, plays: impl IntoIterator<Item = Play>) {
    for play in plays {
        model.plays(play);
    }
}

/// A model that is wrong first and after two corrections still.
fn never() -> [Play; 3] {
    [says(WRONG), says("{}"), says(WRONG)]
}

/// What the SDKs' programs ask.
pub(super) fn plays_for_sdks(model: &Model) {
    play(model, [says(WRONG), right(), calculates(), fenced(), says("[]"), right(), right()]);
    play(model, [never(), never(), never(), never()].into_iter().flatten());
    play(model, [right(), says("[1]"), right(), says_and_calls("Let me see.", "look")]);
    play(model, [calculates(), says("42"), calls_twice("City", &city()), calls_twice("look", &json!({}))]);
    play(model, [says("one END two.")]);
}

/// Adds what they report of it.
pub(super) fn expect_of_sdks(report: &mut Value) {
    let reported = json!({
        "parsed": [city(), 220],
        "parsed_response": [city(), ["mcp_call", "message"]],
        "parsed_stream": [[city()], city()],
        "parsed_events": [[city()], city()],
        "refusal": [FAULT, null, null],
        "refusal_stream": [FAULT, null, null],
        "failed": ["failed", "server_error", FAULT, null],
        "failed_events": ["response.failed", FAULT],
        "json_object": city(),
        "json_object_response": [city(), "json_object"],
        "looked": ["tool_calls", "look", null],
        "required": "42",
        "named": ["tool_calls", [city()]],
        "named_response": [["look"], "look", false],
        "stop": ["one ", "stop"],
        "broken": ["BadRequestError", 400, "invalid_value", "response_format"],
    });
    report.as_object_mut().unwrap().extend(reported.as_object().unwrap().clone());
}

/// Holds what the model was told against that.
pub(super) fn check_calls_of_sdks(calls: &[Request]) {
    let counts = [
        count(calls, |call| is_told(call, "has to be JSON that matches this JSON Schema: {")),
        count(calls, |call| is_told(call, "has to be one JSON object\n")),
        // A provider that is not known to have both is not asked for a format beside tools.
        count(calls, |call| !call.body["response_format"].is_null()),
        count(calls, is_asked_again),
    ];
    assert_eq!(counts, [20, 3, 0, 11]);
    let choices: Vec<_> = calls.iter().filter_map(|call| call.body.get("tool_choice")).collect();
    let named = |name: &str| json!({ "type": "function", "function": { "name": name } });
    assert_eq!(choices, [&json!("required"), &named("City"), &named("look")]);
    assert_eq!(count(calls, |call| call.body["parallel_tool_calls"] == false), 2);
    assert_eq!(count(calls, |call| call.body["stop"] == json!(["END", "."])), 1);
}

/// What LangChain's program asks: a form in five ways, one that is never right, two choices, and an end.
pub(super) fn plays_for_langchain(model: &Model) {
    play(model, [says(WRONG), right(), asks_for("City", city()), fenced(), right(), right()]);
    play(model, never());
    play(model, [asks_for("look", json!({})), calls_twice("look", &json!({})), says("one END two.")]);
}

pub(super) fn expect_of_langchain(report: &mut Value) {
    let methods = ["json_schema", "function_calling", "json_mode", "responses", "stream"];
    report["structured"] = methods.into_iter().map(|method| (method.to_owned(), city())).collect();
    report["never"] = json!([null, FAULT]);
    report["choice_any"] = json!(["look"]);
    report["choice_look"] = json!(["look"]);
    report["stop"] = json!("one ");
}

/// What the Vercel AI SDK's program asks with both of its models: a form at once, in pieces, twice after the
/// call of a function, and never; then two choices, of which the second is not done with a tool of the agent,
/// and an end.
pub(super) fn plays_for_ai_sdk(model: &Model) {
    for _ in 0..2 {
        play(model, [says(WRONG), right(), fenced()]);
        play(model, [says_and_calls("Let me see.", "look"), right(), asks_for("look", json!({})), right()]);
        play(model, never());
    }
    let look = || asks_for("look", json!({}));
    play(model, [look(), calculates(), look(), says("one END two.")]);
}

pub(super) fn expect_of_ai_sdk(report: &mut Value) {
    // A response that failed is an error of the call to it.
    let of_model = |never: &str| json!([city(), city(), city(), city(), city(), never]);
    report["objects"] = json!([of_model("AI_NoObjectGeneratedError"), of_model("AI_APICallError")]);
    report["choices"] = json!([["look"], ["look"]]);
    report["stop"] = json!(["one ", "stop"]);
}

/// What Instructor's program asks: a form in five modes, of which the first needs another try of
/// Instructor's, one in pieces, and one that is never right.
pub(super) fn plays_for_instructor(model: &Model) {
    let call = || asks_for("City", city());
    play(model, [asks_for("City", json!({ "name": "Bonn" })), call(), call()]);
    play(model, [says(WRONG), right(), fenced(), call(), asks_for("PartialCity", city())]);
    play(model, never());
}

pub(super) fn expected_of_instructor() -> Value {
    json!({
        "TOOLS": city(), "TOOLS_STRICT": city(), "JSON_SCHEMA": city(), "JSON": city(), "RESPONSES_TOOLS": city(),
        "partial": city(), "never": [1, FAULT],
    })
}

/// How many requests are so.
fn count(calls: &[Request], is_so: impl Fn(&Request) -> bool) -> usize {
    calls.iter().filter(|call| is_so(call)).count()
}

fn is_told(call: &Request, what: &str) -> bool {
    call.instructions().iter().any(|text| text.contains(what))
}

fn is_asked_again(call: &Request) -> bool {
    let last = call.body["messages"].as_array().and_then(|messages| messages.last());
    let content = last.and_then(|message| message["content"].as_str());
    content.is_some_and(|text| text.ends_with("Reply with the corrected JSON, and with nothing else."))
}
