//! Schemas as generators and people write them, the form they get, and what servers say of it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::server_checks::refusals;
use super::{MOST_BYTES, free_form};

fn portable(schema: &Value) -> Value {
    super::portable(schema, &mut { usize::MAX })
}

/// The form of one argument that must be given.
fn argument(schema: &Value) -> Value {
    let root = json!({ "type": "object", "properties": { "x": schema }, "required": ["x"] });
    let mut form = portable(&root);
    assert_eq!(refusals(&form), [] as [String; 0]);
    form["properties"]["x"].take()
}

/// The form of one argument that may be left out.
fn option(schema: &Value) -> Value {
    let mut form = portable(&json!({ "type": "object", "properties": { "x": schema } }));
    assert_eq!(refusals(&form), [] as [String; 0]);
    form["properties"]["x"].take()
}

fn anything() -> Value {
    let types = ["string", "number", "boolean", "object", "array", "null"];
    json!({ "type": types, "items": { "type": ["string", "number", "boolean", "object", "null"] } })
}

#[test]
fn a_part_of_any_type_says_so() {
    for schema in [
        json!({}),
        json!(true),
        json!({ "title": "X" }),
        json!({ "type": "any" }),
        json!({ "$ref": "http://h/s" }),
    ] {
        assert_eq!(argument(&schema), anything(), "{schema}");
    }
    let described = argument(&json!({ "description": "The document." }));
    assert_eq!(
        (&described["description"], &described["type"]),
        (&json!("The document."), &anything()["type"])
    );
    assert_eq!(argument(&json!({ "type": "array" }))["items"], anything()["items"]);
    let open = json!({ "type": "object", "properties": {}, "additionalProperties": true });
    for schema in [json!({ "type": "object" }), json!({ "type": "object", "additionalProperties": {} })] {
        assert_eq!(argument(&schema), open, "{schema}");
    }
}

#[test]
fn what_every_server_takes_stays_as_it_is() {
    for schema in [
        json!({ "type": "string", "description": "A city.", "default": "Rome" }),
        json!({ "type": "integer", "minimum": 0, "maximum": 255 }),
        json!({ "type": "number", "minimum": 0.5 }),
        json!({ "type": "boolean" }),
        json!({ "type": "string", "enum": ["a", "b"] }),
        json!({ "type": "string", "format": "date-time" }),
        json!({ "type": ["string", "number"] }),
        json!({ "type": "array", "items": { "type": "string" } }),
        json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] }),
        json!({ "type": "object", "properties": {}, "additionalProperties": { "type": "number" } }),
        json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] }),
    ] {
        assert_eq!(argument(&schema), schema);
    }
}

#[test]
fn what_some_server_refuses_is_said_otherwise() {
    let text = |description: &str| json!({ "type": "string", "description": description });
    for (schema, form) in [
        (json!({ "type": "string", "pattern": "\\d+" }), text("(pattern \\d+)")),
        (json!({ "type": "string", "minLength": 1, "maxLength": 2000, "description": "A text." }), {
            text("A text. (1 to 2000 characters)")
        }),
        (json!({ "type": "string", "examples": ["Rome"] }), text("(e.g. Rome)")),
        (json!({ "const": 5 }), json!({ "type": "integer", "enum": [5] })),
        (json!({ "enum": ["a", "a", 1] }), json!({ "type": ["string", "integer"], "enum": ["a", 1] })),
        (json!({ "type": "string", "enum": [] }), json!({ "type": "string" })),
        (json!({ "type": "integer", "format": "uint64", "minimum": 0, "maximum": u64::MAX }), {
            json!({ "type": "integer", "minimum": 0 })
        }),
        (json!({ "type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9.5 }), {
            json!({ "type": "integer", "minimum": 1, "maximum": 9 })
        }),
        (json!({ "type": "number", "exclusiveMinimum": 0 }), {
            json!({ "type": "number", "description": "(more than 0)" })
        }),
        (json!({ "type": "number", "exclusiveMinimum": true, "minimum": 1 }), {
            json!({ "type": "number", "minimum": 1 })
        }),
        (json!({ "type": "array", "items": [{ "type": "string" }], "maxItems": 3, "uniqueItems": true }), {
            json!({ "type": "array", "items": anything()["items"], "description": "(at most 3 items, no item twice)" })
        }),
        (json!({ "properties": { "a": { "type": "string" } } }), {
            json!({ "type": "object", "properties": { "a": { "type": "string" } } })
        }),
        (json!({ "type": ["integer", "number"] }), json!({ "type": "number" })),
        (json!({ "oneOf": [{ "type": "string" }, { "type": "boolean" }] }), {
            json!({ "anyOf": [{ "type": "string" }, { "type": "boolean" }] })
        }),
        (json!({ "type": "string", "anyOf": [{ "minLength": 1 }, { "format": "date" }] }), {
            json!({ "anyOf": [text("(at least 1 characters)"), { "type": "string", "format": "date" }] })
        }),
    ] {
        assert_eq!(argument(&schema), form, "{schema}");
    }
}

#[test]
fn what_may_be_left_out_need_not_be_null() {
    for schema in [
        json!({ "type": ["string", "null"] }),
        json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }),
        json!({ "type": "string", "default": null }),
    ] {
        assert_eq!(option(&schema), json!({ "type": "string" }), "{schema}");
    }
    assert_eq!(argument(&json!({ "type": ["string", "null"] })), json!({ "type": ["string", "null"] }));
}

#[test]
fn references_are_followed_wherever_they_lead() {
    let root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:x",
        "title": "Args",
        "type": "object",
        "properties": {
            "unit": { "$ref": "#/$defs/Unit", "description": "Which." },
            "old": { "allOf": [{ "$ref": "#/$defs/Unit" }], "default": "m" },
            "tree": { "$ref": "#/$defs/Tree" },
            "self": { "$ref": "#/properties/self" },
            "odd": { "$ref": "#/$defs/a%20b" },
        },
        "$defs": {
            "Unit": { "type": "string", "enum": ["m", "km"] },
            "Tree": { "type": "object", "properties": { "left": { "$ref": "#/$defs/Tree" } } },
            "a b": { "type": "boolean" },
        },
    });
    let form = portable(&root);
    assert_eq!(refusals(&form), [] as [String; 0]);
    let properties = &form["properties"];
    assert_eq!(properties["unit"], json!({ "type": "string", "enum": ["m", "km"], "description": "Which." }));
    assert_eq!(properties["old"], json!({ "type": "string", "enum": ["m", "km"], "default": "m" }));
    assert_eq!(properties["odd"], json!({ "type": "boolean" }));
    assert_eq!(properties["tree"]["properties"]["left"]["properties"]["left"]["type"], "object");
    for key in ["$schema", "$id", "title", "$defs"] {
        assert!(form.get(key).is_none(), "{key}");
    }
}

#[test]
fn alternatives_at_the_root_become_one_list_of_properties() {
    let root = json!({
        "type": "object",
        "properties": { "unit": { "type": "string" } },
        "oneOf": [
            { "properties": { "kind": { "const": "circle" }, "radius": { "type": "number" } },
              "required": ["kind", "radius"] },
            { "properties": { "kind": { "const": "square" }, "side": { "type": "number" } },
              "required": ["kind", "side"] },
        ],
    });
    assert_eq!(
        portable(&root),
        json!({
            "type": "object",
            "properties": {
                "unit": { "type": "string" },
                "kind": { "type": "string", "enum": ["circle", "square"] },
                "radius": { "type": "number" },
                "side": { "type": "number" },
            },
            "required": ["kind"],
        })
    );
    let either = json!({
        "type": "object",
        "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
        "anyOf": [{ "required": ["a"] }, { "required": ["b"] }],
    });
    assert!(portable(&either).get("required").is_none());
}

#[test]
fn values_that_are_described_one_by_one_become_one_list() {
    let schema = json!({ "oneOf": [
        { "const": "asc", "description": "Smallest first." },
        { "const": "desc", "description": "Largest first." },
    ] });
    let description = "asc: Smallest first.; desc: Largest first.";
    let form = json!({ "type": "string", "enum": ["asc", "desc"], "description": description });
    assert_eq!(argument(&schema), form);
}

#[test]
fn a_name_that_a_provider_refuses_costs_that_argument_only() {
    let long = "x".repeat(65);
    let root = json!({
        "type": "object",
        "properties": { "näme": { "type": "string" }, "b c": {}, &long: {}, "ok": { "type": "string" } },
        "required": ["näme", "ok", "ghost"],
        "additionalProperties": false,
    });
    let form = portable(&root);
    assert_eq!(refusals(&form), [] as [String; 0]);
    let ok = json!({ "ok": { "type": "string" } });
    assert_eq!(
        form,
        json!({ "type": "object", "properties": ok, "required": ["ok"], "additionalProperties": true })
    );
}

#[test]
fn whatever_a_schema_is_the_form_is_taken_and_bounded() {
    let deep =
        (0..100).fold(json!({ "type": "string" }), |below, _| json!({ "type": "array", "items": below }));
    let wide: Value = (0..3_000).map(|n| (format!("p{n}"), json!({ "type": "string" }))).collect();
    let doubling: Value = (0..40)
        .map(|n| {
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            (format!("d{n}"), json!({ "type": "object", "properties": { "l": next, "r": next } }))
        })
        .collect();
    for root in [
        json!(null),
        json!([]),
        json!({}),
        json!({ "type": "string" }),
        json!({ "type": ["object", "null"] }),
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "type": "object", "properties": true, "required": "all" }),
        json!({ "type": "object", "properties": { "a": false, "b": 7, "c": null, "d": [] } }),
        json!({ "type": "object", "properties": { "a": deep } }),
        json!({ "type": "object", "properties": wide }),
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": doubling }),
        json!({ "type": "object", "description": "é".repeat(9_000) }),
        json!({ "type": "object", "properties": { "a": { "enum": (0..9_000).collect::<Vec<_>>() } } }),
        json!({ "type": "object", "properties": { "a": { "anyOf": [] }, "b": { "anyOf": [7, true] } } }),
        json!({ "type": "object", "properties": { "a": { "type": "object", "anyOf": [{ "required": ["x"] }] } } }),
        json!({ "type": "object", "properties": { "a": { "if": {}, "then": {}, "not": {}, "contains": {} } } }),
    ] {
        let form = portable(&root);
        assert_eq!(refusals(&form), [] as [String; 0], "{form}");
        assert!(form.to_string().len() <= MOST_BYTES);
    }
}

/// Some kilobytes would else be worth seconds of the thread that serves others beside.
#[test]
fn a_long_part_that_is_referred_to_many_times_is_not_read_each_time() {
    let names: Vec<_> = (0..2_000).map(|n| format!("n{n}")).collect();
    let many = |parts: usize, long: &Value| {
        let parts: Value = (0..parts).map(|n| (format!("p{n}"), json!({ "$ref": "#/$defs/long" }))).collect();
        json!({ "type": "object", "properties": parts, "$defs": { "long": long } })
    };
    for long in [
        json!({ "type": "object", "required": names }),
        json!({ "type": "string", "enum": names }),
        json!({ "type": "string", "x-notes": "x".repeat(200_000) }),
    ] {
        assert_ne!(portable(&many(3, &long)), free_form());
        assert_eq!(portable(&many(150, &long)), free_form());
    }
    let notes: serde_json::Map<_, _> = names.iter().map(|name| (name.clone(), json!(0))).collect();
    for long in [json!({ "required": names }), json!(notes)] {
        let merged = |parts: usize| {
            let references = vec![json!({ "$ref": "#/$defs/long" }); parts];
            json!({ "properties": { "p": {} }, "allOf": references, "$defs": { "long": long } })
        };
        assert_ne!(portable(&merged(3)), free_form());
        assert_eq!(portable(&merged(150)), free_form());
    }
    let mut left = 3;
    assert_eq!(super::portable(&many(9, &json!({})), &mut left), free_form());
    assert_eq!(left, 0);
}

/// The form must not forbid what the tool takes: a server that generates by a grammar could not write it.
#[test]
fn the_form_allows_what_the_tools_own_schema_does() {
    let object = |properties: Value| json!({ "type": "object", "properties": properties });
    for (schema, arguments) in [
        (object(json!({ "x": { "description": "any" } })), json!({ "x": [1, "a", { "b": null }] })),
        (object(json!({ "x": { "type": "object" } })), json!({ "x": { "deep": { "er": [1] } } })),
        (object(json!({ "x": { "exclusiveMinimum": 1, "type": "number" } })), json!({ "x": 1.01 })),
        (object(json!({ "x": { "type": "integer", "exclusiveMinimum": 1.5 } })), json!({ "x": 2 })),
        (
            object(json!({ "x": { "prefixItems": [{ "type": "string" }, { "type": "number" }] } })),
            json!({ "x": ["a", 1] }),
        ),
        (
            object(
                json!({ "x": { "type": ["object", "string"], "properties": { "a": { "type": "string" } } } }),
            ),
            json!({ "x": "s" }),
        ),
        (
            object(json!({ "x": { "allOf": [{ "minimum": 1 }, { "minimum": 5 }], "type": "integer" } })),
            json!({ "x": 5 }),
        ),
        (
            json!({ "type": "object", "patternProperties": { "^x": { "type": "number" } } }),
            json!({ "xy": 1 }),
        ),
        (json!({ "type": "object", "additionalProperties": { "type": "string" } }), json!({ "a": "b" })),
    ] {
        let is_valid = |schema: &Value| jsonschema::draft202012::new(schema).unwrap().is_valid(&arguments);
        assert!(is_valid(&schema), "{schema} {arguments}");
        let form = portable(&schema);
        assert!(is_valid(&form), "{form} {arguments}");
        assert_eq!(refusals(&form), [] as [String; 0]);
    }
}

/// Schemas of the keywords that are read, in any combination.
fn any_schema() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        Just(json!("string")),
        Just(json!("integer")),
        Just(json!("object")),
        Just(json!("array")),
        Just(json!(["null", "number"])),
        Just(json!(["array", "object", "string"])),
        Just(json!("void")),
    ];
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!(null)),
        Just(json!({ "$ref": "#/properties/a" })),
        Just(json!({ "enum": ["a", null, 1, {}] })),
        Just(json!({ "const": [1] })),
        Just(json!({ "pattern": "a", "maxLength": 5, "minimum": 1.5, "description": "d", "default": "x" })),
        kind.clone().prop_map(|kind| json!({ "type": kind })),
    ];
    leaf.prop_recursive(4, 40, 4, move |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4);
        let named = prop::collection::btree_map(prop_oneof![Just("a"), Just("b c"), Just("d")], inner.clone(), 0..4);
        let key = prop_oneof![Just("anyOf"), Just("oneOf"), Just("allOf"), Just("items"), Just("prefixItems")];
        prop_oneof![
            (key, list).prop_map(|(key, list)| json!({ key: list, "description": "d" })),
            (kind.clone(), named, inner.clone()).prop_map(|(kind, named, more)| {
                json!({ "type": kind, "properties": named, "required": ["a", "d"], "additionalProperties": more })
            }),
            (kind.clone(), inner).prop_map(|(kind, items)| json!({ "type": kind, "items": items, "minItems": 1 })),
        ]
    })
}

proptest! {
    #[test]
    fn no_schema_gets_a_form_that_a_server_refuses(schema in any_schema()) {
        let form = portable(&schema);
        prop_assert_eq!(refusals(&form), [] as [String; 0], "{}\n{}", schema, form);
        prop_assert!(form.to_string().len() <= MOST_BYTES);
    }
}
