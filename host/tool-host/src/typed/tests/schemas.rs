//! What models are told of each type.

use serde_json::{Value, json};

use crate::typed::named::Named;
use crate::typed::schema::Schemas;
use crate::typed::wit_type::{Case, Field, Integer, WitType};

fn schema(ty: &WitType) -> Value {
    Schemas { docs: None }.of(ty)
}

fn names(names: &[&str]) -> Named<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn plain_types_say_their_bounds() {
    for (ty, expected) in [
        (WitType::Bool, json!({ "type": "boolean" })),
        (WitType::String, json!({ "type": "string" })),
        (WitType::Char, json!({ "type": "string", "minLength": 1, "maxLength": 1 })),
        (WitType::Float32, json!({ "type": "number" })),
        (WitType::Bytes(None), json!({ "type": "string", "contentEncoding": "base64" })),
        (WitType::Integer(Integer::U8), json!({ "type": "integer", "minimum": 0, "maximum": 255 })),
        (WitType::Integer(Integer::S16), json!({ "type": "integer", "minimum": -32768, "maximum": 32767 })),
        (
            WitType::Integer(Integer::U32),
            json!({ "type": "integer", "minimum": 0, "maximum": 4_294_967_295_u32 }),
        ),
        (
            WitType::Integer(Integer::U64),
            json!({ "type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]{1,20}$" }),
        ),
        (
            WitType::Integer(Integer::S64),
            json!({ "type": ["integer", "string"], "pattern": "^-?[0-9]{1,19}$" }),
        ),
        (WitType::Enum(names(&["a", "b"])), json!({ "type": "string", "enum": ["a", "b"] })),
        (
            WitType::Flags(names(&["a", "b"])),
            json!({ "type": "array", "items": { "type": "string", "enum": ["a", "b"] } }),
        ),
    ] {
        assert_eq!(schema(&ty), expected, "{ty:?}");
    }
}

#[test]
fn compound_types_are_closed() {
    let record = WitType::Record(vec![
        Field { name: "x".to_owned(), ty: WitType::Bool },
        Field { name: "y".to_owned(), ty: WitType::Option(Box::new(WitType::String)) },
    ]);
    assert_eq!(
        schema(&record),
        json!({
            "type": "object",
            "properties": { "x": { "type": "boolean" }, "y": { "type": ["string", "null"] } },
            "required": ["x"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        schema(&WitType::Tuple(vec![WitType::Bool, WitType::String])),
        json!({ "type": "array", "prefixItems": [{ "type": "boolean" }, { "type": "string" }], "minItems": 2, "maxItems": 2 })
    );
    assert_eq!(
        schema(&WitType::List(Box::new(WitType::Bool), Some(3))),
        json!({ "type": "array", "items": { "type": "boolean" }, "minItems": 3, "maxItems": 3 })
    );
    assert_eq!(
        schema(&WitType::Map(Box::new(WitType::String), Box::new(WitType::Bool))),
        json!({ "type": "object", "additionalProperties": { "type": "boolean" } })
    );
    let one = |name: &str, ty: &str| json!({ "type": "object", "properties": { name: { "type": ty } }, "required": [name], "additionalProperties": false });
    let cases = [("a", None), ("b", Some(WitType::Bool)), ("c", None)];
    let variant =
        WitType::Variant(cases.map(|(name, ty)| Case { name: name.to_owned(), ty }).into_iter().collect());
    assert_eq!(
        schema(&variant),
        json!({ "anyOf": [{ "type": "string", "enum": ["a", "c"] }, one("b", "boolean")] })
    );
    let result = WitType::Result { ok: Some(Box::new(WitType::Bool)), err: Some(Box::new(WitType::String)) };
    assert_eq!(schema(&result), json!({ "anyOf": [one("ok", "boolean"), one("err", "string")] }));
}

#[test]
fn an_option_adds_null_where_it_is_understood() {
    let optional = |ty| schema(&WitType::Option(Box::new(ty)));
    assert_eq!(
        optional(WitType::Enum(names(&["a"]))),
        json!({ "type": ["string", "null"], "enum": ["a", null] })
    );
    assert_eq!(optional(WitType::Integer(Integer::S64))["type"], json!(["integer", "string", "null"]));
    let result = WitType::Result { ok: None, err: Some(Box::new(WitType::Bool)) };
    assert_eq!(optional(result)["anyOf"][2], json!({ "type": "null" }));
    assert_eq!(
        optional(WitType::Option(Box::new(WitType::Bool))),
        json!({
            "type": ["object", "null"],
            "properties": { "some": { "type": ["boolean", "null"] } },
            "required": ["some"],
            "additionalProperties": false,
        })
    );
}
