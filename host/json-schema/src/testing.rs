//! Values and schemas at random.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Few names and numbers, so that they meet.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "ab", "é"]).prop_map(str::to_owned)
}

fn number() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(0),
        json!(1),
        json!(1.0),
        json!(2),
        json!(-1),
        json!(0.5),
        json!(1.5),
        json!(0.1),
        json!(0.3),
        json!(10),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(9_007_199_254_740_993_u64),
    ])
}

pub fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number(),
        name().prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(name(), inner, 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Any schema of the dialect, with references to two definitions.
pub fn any_schema() -> impl Strategy<Value = Value> {
    let simple = any_part(Just(json!(true)).boxed(), 1);
    let (first, second) = (simple.clone(), simple);
    let whole = any_part(Just(json!({"$ref": "#/$defs/x"})).boxed(), 3);
    (whole, first, second).prop_map(|(whole, x, y)| {
        let Value::Object(mut members) = whole else { return json!({ "allOf": [whole] }) };
        members.insert("$defs".into(), json!({"x": {"anyOf": [x, {"$ref": "#/$defs/y"}]}, "y": y}));
        Value::Object(members)
    })
}

fn any_part(reference: BoxedStrategy<Value>, depth: u32) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Value::Bool),
        2 => reference,
        6 => assertions(),
    ];
    leaf.prop_recursive(depth, 24, 3, |inner| {
        vec(prop_oneof![1 => assertions(), 3 => applicators(&inner)], 1..4).prop_map(merged)
    })
    .boxed()
}

fn merged(parts: Vec<Value>) -> Value {
    let members = parts.into_iter().filter_map(|part| match part {
        Value::Object(members) => Some(members),
        _ => None,
    });
    Value::Object(members.flatten().collect())
}

fn keyword(name: &'static str, value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    value.prop_map(move |value| json!({ name: value })).boxed()
}

fn assertions() -> BoxedStrategy<Value> {
    let types =
        prop::sample::select(vec!["null", "boolean", "integer", "number", "string", "array", "object"]);
    let type_list = prop::sample::subsequence(vec!["null", "integer", "string", "array", "object"], 1..4);
    let pattern = prop::sample::select(vec!["^a", "b$", "^[a-c]{1,2}$", "", "\\w", "^\\W$"]);
    let count = || (0_u64..3).prop_map(|count| json!(count));
    let above_0 = prop::sample::select(vec![json!(1), json!(2), json!(0.5), json!(0.1), json!(4.0)]);
    let names = || {
        vec(name(), 0..3).prop_map(|mut names| {
            names.sort();
            names.dedup();
            json!(names)
        })
    };
    prop_oneof![
        keyword("type", types.prop_map(|one| json!(one))),
        keyword("type", type_list.prop_map(|several| json!(several))),
        keyword("enum", vec(any_value(), 1..4).prop_map(Value::Array)),
        keyword("const", any_value()),
        keyword("minimum", number()),
        keyword("maximum", number()),
        keyword("exclusiveMinimum", number()),
        keyword("exclusiveMaximum", number()),
        keyword("multipleOf", above_0),
        keyword("minLength", count()),
        keyword("maxLength", count()),
        keyword("pattern", pattern.prop_map(|pattern| json!(pattern))),
        keyword("minItems", count()),
        keyword("maxItems", count()),
        keyword("minProperties", count()),
        keyword("maxProperties", count()),
        keyword("uniqueItems", any::<bool>().prop_map(Value::Bool)),
        keyword("required", names()),
        keyword("dependentRequired", (name(), names()).prop_map(|(name, needed)| json!({ name: needed }))),
        keyword("format", Just(json!("ipv4"))),
    ]
    .boxed()
}

fn applicators(inner: &BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let one = || inner.clone();
    let several = || vec(inner.clone(), 1..4).prop_map(Value::Array);
    let named = || {
        btree_map(name(), inner.clone(), 0..3)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
    };
    let contains = (one(), 0_u64..3, 0_u64..3)
        .prop_map(|(part, least, most)| json!({"contains": part, "minContains": least, "maxContains": most}));
    let conditional = (one(), one(), one())
        .prop_map(|(condition, then, otherwise)| json!({"if": condition, "then": then, "else": otherwise}));
    let matching = (prop::sample::select(vec!["^a", "b", "."]), one())
        .prop_map(|(pattern, part)| json!({ pattern: part }));
    prop_oneof![
        keyword("allOf", several()),
        keyword("anyOf", several()),
        keyword("oneOf", several()),
        keyword("not", one()),
        conditional,
        keyword("prefixItems", several()),
        keyword("items", one()),
        keyword("contains", one()),
        contains,
        keyword("properties", named()),
        keyword("patternProperties", matching),
        keyword("additionalProperties", one()),
        keyword("propertyNames", one()),
        keyword("dependentSchemas", named()),
        keyword("unevaluatedItems", one()),
        keyword("unevaluatedProperties", one()),
    ]
    .boxed()
}
