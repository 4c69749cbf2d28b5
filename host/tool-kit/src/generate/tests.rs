//! What is made fits its schema, the abuses do not, and a seed makes the same again.

use serde_json::json;

use super::*;

fn schemas() -> Vec<Value> {
    vec![
        json!({"type": "object"}),
        json!({"type": "object", "properties": {
            "a": {"type": "integer", "minimum": 3, "maximum": 5},
            "b": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "c": {"type": "string", "minLength": 2, "maxLength": 4},
            "d": {"type": "array", "items": {"$ref": "#/$defs/unit"}, "minItems": 2, "maxItems": 3, "uniqueItems": true},
            "e": {"type": ["string", "null"]},
            "f": {"type": "integer", "multipleOf": 7},
            "g": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]+$"},
            "h": {"type": "integer", "minimum": 0},
            "i": {"type": "number", "maximum": -2000.5}
        }, "required": ["a", "b", "c", "d", "f", "g", "h", "i"], "additionalProperties": false,
            "$defs": {"unit": {"enum": ["m", "km", "mi"]}}}),
        json!({"type": "object", "properties": {
            "when": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "kind": {"const": "x"},
            "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "minItems": 2, "maxItems": 2}
        }, "required": ["when", "day", "kind", "pair"]}),
        json!({"type": "object", "oneOf": [
            {"properties": {"a": {"const": 1}}, "required": ["a"]},
            {"properties": {"b": {"type": "boolean"}}, "required": ["b"], "not": {"required": ["a"]}}
        ], "properties": {"c": {"type": "string"}}, "required": ["c"]}),
        json!({"allOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, "required": ["b"]}
        ]}),
        json!({"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}}),
    ]
}

#[test]
fn what_is_made_fits_its_schema() {
    for schema in schemas() {
        let validator = jsonschema::validator_for(&schema).unwrap();
        let mut generator = Generator::new(&schema, 7);
        for _ in 0..200 {
            let made = Value::Object(generator.valid());
            assert!(validator.is_valid(&made), "{made} against {schema}");
        }
    }
}

#[test]
fn as_many_different_items_are_made_as_a_schema_may_ask_for() {
    let items = json!({"type": "integer", "minimum": 0, "maximum": 1_000_000_000});
    let list = json!({"type": "array", "items": items, "minItems": MOST_ASKED, "uniqueItems": true});
    let schema = json!({"type": "object", "properties": {"a": list}, "required": ["a"]});
    let mut generator = Generator::new(&schema, 7);
    // At the edges first, of which there are two.
    generator.valid();
    let made = generator.valid();
    let items = made["a"].as_array().unwrap();
    let different: HashSet<_> = items.iter().map(Value::to_string).collect();
    assert!(different.len() as u64 >= MOST_ASKED, "{} of {}", different.len(), items.len());
}

#[test]
fn a_seed_makes_the_same_again_and_another_makes_something_else() {
    let schema = &schemas()[1];
    let made = |seed| {
        let mut generator = Generator::new(schema, seed);
        (0..20).map(|_| generator.valid()).collect::<Vec<_>>()
    };
    assert_eq!(made(1), made(1));
    assert_ne!(made(1), made(2));
}

#[test]
fn a_schema_that_refers_to_itself_or_to_nothing_ends() {
    let schema = json!({"type": "object", "properties": {
        "a": {"$ref": "#/$defs/a"}, "b": {"$ref": "#/$defs/none"}, "c": {"$ref": "https://example.org/"}},
        "required": ["a", "b", "c"], "$defs": {"a": {"$ref": "#/$defs/a"}}});
    assert_eq!(Generator::new(&schema, 1).valid().len(), 3);
    let deep = json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]});
    assert_eq!(Generator::new(&deep, 1).valid().len(), 1);
}

#[test]
fn a_schema_that_asks_for_more_than_fits_into_memory_gets_a_part_of_it() {
    let many = |items: Value| json!({"type": "array", "minItems": 100_000, "items": items});
    let text = json!({"type": "string", "minLength": 100_000});
    let object = json!({"type": "object", "minProperties": 100_000, "additionalProperties": text});
    let copied = json!({"const": "x".repeat(10_000)});
    for schema in [many(many(many(json!({"type": "null"})))), many(text), object, many(copied)] {
        let schema = json!({"type": "object", "properties": {"a": schema}, "required": ["a"]});
        let mut generator = Generator::new(&schema, 1);
        for _ in 0..2 {
            let made = Value::Object(generator.valid());
            let made = size(&made);
            // As much as there may be, and the text that was the last one.
            assert!((MOST_MADE / 2..MOST_MADE + 110_000).contains(&made), "{made}");
        }
    }
}

#[test]
fn a_strict_schema_refuses_nearly_all_abuses_and_all_of_them_differ_from_what_is_valid() {
    let schema = &schemas()[1];
    let validator = jsonschema::validator_for(schema).unwrap();
    let valid = Generator::new(schema, 3).valid();
    let abuses: Vec<_> = invalid(schema, &valid, Size { text: 1 << 10, items: 100, depth: 20 }).collect();
    assert!(abuses.len() > 200, "{}", abuses.len());
    assert!(abuses.iter().all(|abuse| abuse.arguments != valid));
    let allowed: Vec<_> =
        abuses.iter().filter(|abuse| validator.is_valid(&Value::Object(abuse.arguments.clone()))).collect();
    assert!(allowed.len() < abuses.len() / 5, "{allowed:#?}");
    let names: Vec<_> = abuses.iter().map(|abuse| abuse.what.as_str()).collect();
    for part in [
        "without a",
        "null as b",
        "an argument that there is not",
        "the text \"NaN\" as c",
        "deep nesting as d",
    ] {
        assert!(names.contains(&part), "{part}");
    }
}
