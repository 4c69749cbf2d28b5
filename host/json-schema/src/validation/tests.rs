//! What schemas may be, what they say of values, and that the evaluator agrees with the reference.

use std::time::{Duration, Instant};

use jsonschema::PatternOptions;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{any_schema, any_value};

fn fuel() -> Fuel {
    Fuel::until(Instant::now() + Duration::from_secs(600))
}

fn read(text: &str) -> Result<Schema, String> {
    Schema::read(text, &mut SchemaBudget::until(Instant::now() + Duration::from_secs(600)))
}

fn problem(schema: &Value) -> String {
    read(&schema.to_string()).map(|_| ()).unwrap_err()
}

fn check(schema: &Value, value: &Value) -> Result<(), Misfit> {
    read(&schema.to_string()).unwrap().check(value, "it", &mut fuel())
}

fn wrong(schema: &Value, value: &Value) -> String {
    match check(schema, value) {
        Err(Misfit::Wrong(text)) => text,
        other => panic!("{schema} {value}: {other:?}"),
    }
}

#[test]
fn what_is_no_schema_is_refused_in_words() {
    let of = |text: &str| read(text).map(|_| ()).unwrap_err();
    insta::assert_snapshot!(of("{"), @"is not JSON: EOF while parsing an object at line 1 column 1");
    insta::assert_snapshot!(of("true"), @r#"is not an object: write {"type": "object", …}"#);
    insta::assert_snapshot!(of(&" ".repeat(70_000)), @"is longer than 65536 bytes: leave out what the tool can check by itself");
    insta::assert_snapshot!(of(r#"{"type":5}"#), @r#"is not a JSON Schema: /type is 5, not one of "null", "boolean", "integer", "number", "string", "array" and "object""#);
    insta::assert_snapshot!(of(r#"{"properties":{"a/b":{"items":{"type":"text"}}}}"#), @r#"is not a JSON Schema: /properties/a~1b/items/type is "text", not one of "null", "boolean", "integer", "number", "string", "array" and "object""#);
    insta::assert_snapshot!(of(r#"{"pattern":"("}"#), @r#"is not a JSON Schema: /pattern "(" is not a regex: try it in a browser, as new RegExp(…)"#);
    insta::assert_snapshot!(of(r#"{"anyOf":[{"minLength":-1}]}"#), @"is not a JSON Schema: /anyOf/0/minLength is -1, not a whole number from 0 on");
    insta::assert_snapshot!(of(r#"{"required":"a"}"#), @r#"is not a JSON Schema: /required is "a", not an array"#);
    insta::assert_snapshot!(of(r#"{"properties":{"a":5}}"#), @"is not a JSON Schema: /properties/a is 5, not a schema");
    insta::assert_snapshot!(of(r#"{"multipleOf":0}"#), @"is not a JSON Schema: /multipleOf is not above 0");
}

#[test]
fn a_schema_cannot_make_the_host_fetch_anything() {
    for reference in ["http://example.com/schema.json", "file:///etc/passwd", "other.json", "#nowhere"] {
        let text = problem(&json!({"properties": {"a": {"$ref": reference}}}));
        assert_eq!(
            text,
            format!("refers to {reference:?}, which is not a part of it: put that below its $defs")
        );
    }
}

#[test]
fn a_schema_that_doubles_at_every_step_is_refused() {
    // 1.3 KB that would take a validator minutes and gigabytes.
    let mut parts = serde_json::Map::new();
    for n in 0..20 {
        let next = json!({"$ref": format!("#/$defs/a{}", n + 1)});
        parts.insert(format!("a{n}"), json!({"anyOf": [next, next]}));
    }
    parts.insert("a20".into(), json!(false));
    let text = problem(&json!({"$defs": parts, "$ref": "#/$defs/a0"}));
    assert!(text.contains("parts with its references followed; it may have 1000"), "{text}");
}

#[test]
fn a_schema_that_refers_to_itself_is_refused() {
    let tree = json!({"$defs": {"tree": {"properties": {"left": {"$ref": "#/$defs/tree"}}}},
        "$ref": "#/$defs/tree"});
    assert_eq!(problem(&tree), r##"refers to itself through "#/$defs/tree""##);
    assert_eq!(problem(&json!({"items": {"$ref": "#"}})), r##"refers to itself through "#""##);
    assert_eq!(problem(&json!({"items": {"$ref": "#/items"}})), r##"refers to itself through "#/items""##);
    assert!(problem(&json!({"items": {"$dynamicRef": "#x"}})).contains("$dynamicRef"));
    assert!(problem(&json!({"items": {"$id": "x"}})).contains("$id"));
}

#[test]
fn chains_and_nesting_that_would_overflow_the_stack_are_refused() {
    let chain = |links: usize, wrap: &dyn Fn(Value) -> Value| {
        let mut parts = serde_json::Map::new();
        for n in 0..links {
            parts.insert(format!("a{n}"), wrap(json!({"$ref": format!("#/$defs/a{}", n + 1)})));
        }
        parts.insert(format!("a{links}"), json!(true));
        json!({"$defs": parts, "$ref": "#/$defs/a0"})
    };
    let deep = "is nested more than 64 levels deep with its references followed";
    assert_eq!(problem(&chain(1_800, &|next| next)), deep);
    // References that lie in a hundred arrays each.
    let nested = |next: Value| json!({"anyOf": [(0..100).fold(next, |part, _| json!([part]))]});
    assert!(problem(&chain(100, &nested)).starts_with("is not a JSON Schema: /"));
    let through_arrays = |next: Value| json!({"x": (0..100).fold(next, |part, _| json!([part]))});
    let mut reached = chain(280, &through_arrays);
    reached["$ref"] = json!(format!("#/$defs/a0/x{}", "/0".repeat(100)));
    for n in 0..280 {
        let target = format!("#/$defs/a{}/x{}", n + 1, "/0".repeat(100));
        *reached.pointer_mut(&format!("/$defs/a{n}/x{}/$ref", "/0".repeat(100))).unwrap() = json!(target);
    }
    let text = reached.to_string();
    let read = read(&text).map(|_| ()).unwrap_err();
    assert!(read == deep || read.starts_with("is longer than"), "{read}");
    // Forward and backward: what is known already has its depth too.
    let mut backward = chain(63, &|next| json!({"items": next}));
    backward["allOf"] = (0..64).rev().map(|n| json!({"$ref": format!("#/$defs/a{n}")})).collect();
    assert_eq!(problem(&backward), deep);
}

#[test]
fn fixed_values_booleans_and_patterns_have_weight() {
    let too_heavy = |schema: &Value| {
        let text = problem(schema);
        assert!(
            text.contains("parts") || text.contains("patterns") || text.contains("pattern too"),
            "{text}"
        );
    };
    too_heavy(&json!({ "anyOf": vec![false; 10_000] }));
    too_heavy(&json!({ "enum": (0..12_000).collect::<Vec<_>>() }));
    too_heavy(&json!({ "const": (0..12_000).collect::<Vec<_>>() }));
    let pattern = json!({"pattern": "a[ab]{300}[x-z]"});
    too_heavy(&json!({ "anyOf": vec![pattern; 900] }));
    let countries: Vec<_> = (0..250).map(|n| format!("c{n}")).collect();
    assert!(read(&json!({"properties": {"a": {"enum": countries}}}).to_string()).is_ok());
}

#[test]
fn a_pattern_counts_once_however_often_it_stands_there() {
    let patterns = |count: usize, pattern: fn(usize) -> String| {
        let members: serde_json::Map<_, _> =
            (0..count).map(|n| (format!("m{n}"), json!({ "pattern": pattern(n) }))).collect();
        json!({ "properties": members })
    };
    // A typed component has such a one for each integer of 64 bits.
    let same = patterns(150, |_| "^[0-9]{1,20}$".to_owned());
    assert_eq!(check(&same, &json!({ "m0": "1", "m149": "20" })), Ok(()));
    assert!(wrong(&same, &json!({ "m149": "x" })).contains("does not match"));
    assert!(read(&patterns(100, |n| format!("^{n}$")).to_string()).is_ok());
    let text = problem(&patterns(101, |n| format!("^{n}$")));
    assert!(text.contains("a component may have 100 different ones"), "{text}");
}

#[test]
fn parts_may_be_shared_and_values_are_held_against_them() {
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "$defs": {"n": {"type": "integer"}},
        "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"$ref": "#/$defs/n"}}});
    assert_eq!(check(&schema, &json!({"a": 1, "b": 2})), Ok(()));
    assert_eq!(wrong(&schema, &json!({"a": "1", "b": 2})), r#"/a: "1" is not of type "integer""#);
    assert_eq!(wrong(&schema, &json!(5)), r#"it: 5 is not of type "object""#);
}

#[test]
fn problems_say_where_and_what() {
    let of = |schema: Value, value: Value| wrong(&schema, &value);
    insta::assert_snapshot!(of(json!({"required": ["a"]}), json!({})), @r#"it: "a" is a required property"#);
    insta::assert_snapshot!(of(json!({"items": {"type": ["null", "string"]}}), json!(["x", 1])), @r#"/1: 1 is not of types "null", "string""#);
    insta::assert_snapshot!(of(json!({"enum": [1, 2, 3, 4, 5, 6, 7]}), json!(8)), @"it: 8 is not one of 1, 2, 3, 4, 5, 2 others");
    insta::assert_snapshot!(of(json!({"const": "x"}), json!([1])), @r#"it: "x" was expected"#);
    insta::assert_snapshot!(of(json!({"minimum": 2}), json!(1)), @"it: 1 is less than the minimum of 2");
    insta::assert_snapshot!(of(json!({"exclusiveMaximum": 2}), json!(2)), @"it: 2 is greater than or equal to the maximum of 2");
    insta::assert_snapshot!(of(json!({"pattern": "^a"}), json!("b")), @r#"it: "b" does not match "^a""#);
    insta::assert_snapshot!(of(json!({"minLength": 3}), json!("éé")), @r#"it: "éé" is shorter than 3 characters"#);
    insta::assert_snapshot!(of(json!({"properties": {"a": {"anyOf": [{"type": "null"}]}}}), json!({"a": 1})), @"/a: 1 is not valid under any of the schemas listed in the 'anyOf' keyword");
    insta::assert_snapshot!(of(json!({"oneOf": [true, true]}), json!(1)), @"it: 1 is valid under more than one of the schemas listed in the 'oneOf' keyword");
    insta::assert_snapshot!(of(json!({"propertyNames": {"maxLength": 1}}), json!({"ab": 1})), @r#"it: the name "ab" is not allowed"#);
    insta::assert_snapshot!(of(json!({"additionalProperties": false}), json!({"a": 1, "b": 1})), @"it: Additional properties are not allowed ('a', 'b' were unexpected)");
}

#[test]
fn only_a_few_problems_are_named_and_none_quotes_much() {
    let many = wrong(&json!({"items": {"type": "string"}}), &json!(vec![0; 100_000]));
    assert_eq!(many.split("; ").count(), 5, "{many}");
    let long = wrong(&json!({"type": "array"}), &json!("é".repeat(1 << 20)));
    assert!(long.len() < 400 && long.contains('…'), "{long}");
    let long = wrong(&json!({"items": false}), &json!([vec!["x"; 100_000]]));
    assert!(long.len() < 400 && long.contains('…'), "{long}");
}

#[test]
fn what_is_as_deep_as_it_may_be_is_checked_to_the_bottom() {
    let deep = (0..60).fold(json!({"type": "null"}), |part, _| json!({ "items": part }));
    let value = |leaf: Value| (0..60).fold(leaf, |value, _| json!([value]));
    assert_eq!(check(&deep, &value(json!(null))), Ok(()));
    let place = "/0".repeat(60);
    assert_eq!(wrong(&deep, &value(json!(1))), format!("{place}: 1 is not of type \"null\""));
}

#[test]
fn what_would_take_too_many_steps_is_given_up() {
    let deep = |levels: usize| {
        // Each level is held against the value twice, and it has parts.
        let leaf = json!({"type": "array", "items": {"type": "integer"}});
        (0..levels).fold(leaf, |part, _| json!({"unevaluatedItems": false, "anyOf": [part]}))
    };
    let value = json!(vec![0; 50_000]);
    assert_eq!(check(&deep(30), &value), Err(Misfit::TooCostly));
    let schema = read(&json!({ "items": {"type": "integer"} }).to_string()).unwrap();
    assert_eq!(schema.check(&value, "it", &mut Fuel::inline()), Err(Misfit::TooCostly));
    assert_eq!(schema.check(&value, "it", &mut fuel()), Ok(()));
}

fn reference(schema: &Value) -> jsonschema::Validator {
    jsonschema::draft202012::options().with_pattern_options(PatternOptions::regex()).build(schema).unwrap()
}

/// What random schemas seldom say.
#[test]
fn the_evaluator_and_the_reference_agree_on_these_too() {
    let pairs = [
        (json!({"dependencies": {"a": ["b"], "b": {"minProperties": 2}}}), json!({"a": 1})),
        (json!({"minLength": 2.0}), json!("a")),
        (json!({"type": "integer"}), json!(1e300)),
        (json!({"multipleOf": 0.01}), json!(4.35)),
        (json!({"multipleOf": 1e-7}), json!(12_391_239_123_u64)),
        (json!({"uniqueItems": true}), json!([1, 1.0])),
        (json!({"uniqueItems": true}), json!([{"a": 1}, {"a": 1.0}])),
        (json!({"uniqueItems": true}), json!([1, true])),
        (json!({"const": {"a": 1, "b": [2.0]}}), json!({"b": [2], "a": 1.0})),
        (json!({"pattern": "^\\d$"}), json!("٣")),
        (json!({"pattern": "^\\cA$"}), json!("\u{1}")),
        (json!({"minContains": 2}), json!([])),
        (json!({"contains": {"type": "null"}}), json!([])),
        (json!({"contains": true, "minContains": 0}), json!([])),
        (json!({"maximum": 9_007_199_254_740_992_u64}), json!(9_007_199_254_740_993_u64)),
        (json!({"then": false, "else": false}), json!(1)),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}, "type": "string"}), json!("x")),
        (json!({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "null"}}}), json!("x")),
        (json!({"unevaluatedProperties": false, "allOf": [{"properties": {"a": true}}]}), json!({"a": 1})),
        (json!({"unevaluatedItems": false, "contains": {"type": "null"}}), json!([null, 1])),
        (json!({"items": {}, "prefixItems": [false]}), json!([])),
        (json!({"format": "ipv4"}), json!("x")),
    ];
    for (schema, value) in pairs {
        let expected = reference(&schema).is_valid(&value);
        assert_eq!(check(&schema, &value).is_ok(), expected, "{schema} {value}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn the_evaluator_and_the_reference_agree(schema in any_schema(), values in prop::collection::vec(any_value(), 8)) {
        let ours = read(&schema.to_string()).unwrap();
        let reference = reference(&schema);
        for value in values {
            let found = ours.check(&value, "it", &mut fuel());
            prop_assert_ne!(&found, &Err(Misfit::TooCostly));
            prop_assert_eq!(found.is_ok(), reference.is_valid(&value), "{} {}: {:?}", schema, value, found);
        }
    }
}
