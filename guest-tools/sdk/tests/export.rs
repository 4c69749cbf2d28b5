//! What `export!` makes of functions: a component as the host sees it.

use agent_tool_sdk::{Component, Failure, NoArguments, code};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Not for the model.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Sum {
    /// What to add up, in
    /// any order.
    numbers: Vec<i32>,
    /// Whether to leave out what is below zero.
    #[serde(default)]
    positive_only: bool,
}

#[derive(Serialize, JsonSchema)]
struct Total {
    total: i32,
}

fn add(Sum { numbers, positive_only }: Sum) -> Result<Total, Failure> {
    let numbers = numbers.into_iter().filter(|number| !positive_only || *number > 0);
    let total = numbers.into_iter().try_fold(0_i32, i32::checked_add);
    let total =
        total.ok_or_else(|| Failure::new("overflow", "too large").with_meta("limit", "2147483647"))?;
    Ok(Total { total })
}

/// Values of every type.
#[derive(Deserialize, JsonSchema)]
struct Anything {
    /// Whatever it is.
    value: serde_json::Value,
    bare: serde_json::Value,
    many: Vec<serde_json::Value>,
    #[serde(default)]
    label: Option<String>,
}

fn keep(anything: Anything) -> Result<usize, Failure> {
    let Anything { value, bare, many, label } = anything;
    Ok([value, bare].len() + many.len() + label.iter().len())
}

fn forget(_: NoArguments) -> Result<(), Failure> {
    Ok(())
}

agent_tool_sdk::export! {
    /// Adds up whole
    /// numbers.
    ///
    /// Not fractions.
    add(Sum) -> Total, hints: [read_only, idempotent], timeout_ms: 250;

    /// Keeps anything.
    keep(Anything) -> usize, hints: [pure];

    /// Forgets everything.
    forget(NoArguments) -> (), hints: [destructive, never_asks];
}

fn call(name: &str, arguments: &str) -> Result<String, Failure> {
    Tools::call(name.to_owned(), arguments.to_owned()).map(|output| output.value)
}

#[test]
fn tools_are_described_by_their_types_and_comments() {
    let [add, keep, forget] = Tools::describe().try_into().unwrap();
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    assert_eq!(keep.hints, [("pure", "true")].map(owned));
    assert_eq!(forget.hints, [("destructive", "true"), ("asks", "false")].map(owned));
    assert_eq!(
        (add.name.as_str(), add.description.as_str()),
        ("add", "Adds up whole numbers.\n\nNot fractions.")
    );
    assert_eq!(add.hints, [("read-only", "true"), ("idempotent", "true"), ("timeout-ms", "250")].map(owned));
    assert_eq!(
        add.input_schema,
        concat!(
            r#"{"additionalProperties":false,"properties":{"#,
            r#""numbers":{"description":"What to add up, in any order.","items":{"type":"integer"},"type":"array"},"#,
            r#""positive_only":{"default":false,"description":"Whether to leave out what is below zero.","type":"boolean"}"#,
            r#"},"required":["numbers"],"type":"object"}"#
        )
    );
    assert_eq!(
        add.output_schema.as_deref(),
        Some(r#"{"properties":{"total":{"type":"integer"}},"required":["total"],"type":"object"}"#)
    );
    assert_eq!(forget.input_schema, r#"{"additionalProperties":false,"properties":{},"type":"object"}"#);
    assert_eq!(forget.output_schema.as_deref(), Some(r#"{"type":"null"}"#));
}

#[test]
fn every_part_of_a_schema_has_a_type_and_nothing_says_nothing() {
    let [_, keep, _] = Tools::describe().try_into().unwrap();
    let schema: serde_json::Value = serde_json::from_str(&keep.input_schema).unwrap();
    let any =
        serde_json::json!({"type": ["object", "array", "string", "number", "boolean", "null"], "items": {}});
    let properties = &schema["properties"];
    assert_eq!(properties["bare"], any);
    assert_eq!(properties["many"], serde_json::json!({"type": "array", "items": any}));
    assert_eq!(properties["value"]["type"], any["type"]);
    assert_eq!(properties["value"]["description"], "Whatever it is.");
    assert_eq!(properties["label"], serde_json::json!({"type": ["string", "null"]}));
    assert_eq!(schema["required"], serde_json::json!(["value", "bare", "many"]));
}

#[test]
fn a_call_goes_from_json_to_json() {
    assert_eq!(call("add", r#"{"numbers":[1,-2,3]}"#).unwrap(), r#"{"total":2}"#);
    assert_eq!(call("add", r#"{"numbers":[1,-2,3],"positive_only":true}"#).unwrap(), r#"{"total":4}"#);
    assert_eq!(call("forget", "{}").unwrap(), "null");
}

#[test]
fn failures_say_what_is_wrong() {
    let overflow = call("add", r#"{"numbers":[2147483647,1]}"#).unwrap_err();
    assert_eq!(overflow, Failure::new("overflow", "too large").with_meta("limit", "2147483647"));
    for (arguments, message) in [
        ("{}", "the arguments do not fit: missing field `numbers` at line 1 column 2"),
        (
            r#"{"numbers":[],"number":1}"#,
            "the arguments do not fit: unknown field `number`, expected `numbers` or `positive_only` at line 1 column 22",
        ),
        ("[", "the arguments do not fit: EOF while parsing a list at line 1 column 1"),
    ] {
        assert_eq!(call("add", arguments).unwrap_err(), Failure::invalid_arguments(message));
    }
    let unknown = call("subtract", "{}").unwrap_err();
    assert_eq!(
        (unknown.code.as_str(), unknown.message.as_str()),
        (code::NOT_FOUND, "there is no tool `subtract` here, only: add, keep, forget",)
    );
}
