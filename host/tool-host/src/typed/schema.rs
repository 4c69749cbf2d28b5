//! WIT types as JSON Schema (2020-12). `mod.rs` has the mapping; here is what a model is told of it.
//!
//! A schema accepts what the encoder accepts, but for the size of 64-bit integers, what is base64, and floats
//! that an `f32` cannot hold: those the encoder refuses by name. Alternatives are `anyOf` without an overlap,
//! because fewer servers take `oneOf`, and types are written where they are used, because some take no
//! `$ref`.

use serde_json::{Map, Value, json};

use super::docs::TypeDocs;
use super::wit_type::{Case, Field, Integer, WitType};

/// Makes schemas, with or without the component's documentation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schemas<'a> {
    /// What is known of the types.
    pub(super) docs: Option<&'a TypeDocs>,
}

impl Schemas<'_> {
    /// An object with a member for each field. Options may be absent.
    pub(super) fn members(self, fields: &[Field]) -> Value {
        self.object(fields, |_field| None)
    }

    fn object<'d>(self, fields: &[Field], doc: impl Fn(&str) -> Option<&'d str>) -> Value {
        let properties: Map<_, _> = fields
            .iter()
            .map(|field| (field.name.clone(), described(self.of(&field.ty), doc(&field.name))))
            .collect();
        let required = fields.iter().filter(|field| !field.ty.is_nullable()).map(|field| field.name.as_str());
        let required: Vec<_> = required.collect();
        let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
        if !required.is_empty() {
            set(&mut schema, "required", json!(required));
        }
        schema
    }

    /// The schema of one type.
    pub(super) fn of(self, ty: &WitType) -> Value {
        let docs = self.docs.and_then(|docs| docs.of(ty));
        let item = |name: &str| docs.and_then(|docs| docs.item(name));
        let schema = match ty {
            WitType::Bool => json!({ "type": "boolean" }),
            WitType::Integer(integer) => integer_schema(*integer),
            WitType::Float32 | WitType::Float64 => json!({ "type": "number" }),
            WitType::Char => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
            WitType::String => json!({ "type": "string" }),
            WitType::Bytes(_) => json!({ "type": "string", "contentEncoding": "base64" }),
            WitType::List(element, length) => {
                let mut schema = json!({ "type": "array", "items": self.of(element) });
                if let Some(length) = length {
                    set(&mut schema, "minItems", json!(length));
                    set(&mut schema, "maxItems", json!(length));
                }
                schema
            }
            WitType::Map(key, value) if **key == WitType::String => {
                json!({ "type": "object", "additionalProperties": self.of(value) })
            }
            WitType::Map(key, value) => {
                json!({ "type": "array", "items": self.tuple([&**key, &**value].into_iter()) })
            }
            WitType::Record(fields) => {
                return described(self.object(fields, item), docs.and_then(|docs| docs.text()));
            }
            WitType::Tuple(items) => self.tuple(items.iter()),
            WitType::Variant(cases) => self.variant(cases, item),
            WitType::Enum(names) => choice(names.iter().map(String::as_str), item),
            WitType::Flags(names) => {
                json!({ "type": "array", "items": choice(names.iter().map(String::as_str), item) })
            }
            WitType::Option(inner) => nullable(self.some(inner)),
            WitType::Result { ok, err } => {
                let case = |name: &str, ty: Option<&WitType>| Case { name: name.to_owned(), ty: ty.cloned() };
                self.variant(&[case("ok", ok.as_deref()), case("err", err.as_deref())], |_name| None)
            }
        };
        described(schema, docs.and_then(|docs| docs.text()))
    }

    fn some(self, inner: &WitType) -> Value {
        if !inner.is_nullable() {
            return self.of(inner);
        }
        only_member("some", self.of(inner))
    }

    fn tuple<'t>(self, items: impl ExactSizeIterator<Item = &'t WitType>) -> Value {
        let count = items.len();
        let items: Vec<_> = items.map(|ty| self.of(ty)).collect();
        json!({ "type": "array", "prefixItems": items, "minItems": count, "maxItems": count })
    }

    /// The cases without a value are one branch, each with a value is another.
    fn variant<'d>(self, cases: &[Case], doc: impl Fn(&str) -> Option<&'d str>) -> Value {
        let plain: Vec<_> =
            cases.iter().filter(|case| case.ty.is_none()).map(|case| case.name.as_str()).collect();
        let mut branches = Vec::new();
        if !plain.is_empty() {
            branches.push(choice(plain.into_iter(), &doc));
        }
        for case in cases {
            if let Some(ty) = &case.ty {
                branches.push(only_member(&case.name, described(self.of(ty), doc(&case.name))));
            }
        }
        match branches.pop() {
            Some(only) if branches.is_empty() => only,
            Some(last) => {
                branches.push(last);
                json!({ "anyOf": branches })
            }
            None => json!({ "anyOf": [] }),
        }
    }
}

fn integer_schema(integer: Integer) -> Value {
    let within = |least: i64, most: i64| json!({ "type": "integer", "minimum": least, "maximum": most });
    match integer {
        Integer::U8 => within(0, u8::MAX.into()),
        Integer::U16 => within(0, u16::MAX.into()),
        Integer::U32 => within(0, u32::MAX.into()),
        Integer::S8 => within(i8::MIN.into(), i8::MAX.into()),
        Integer::S16 => within(i16::MIN.into(), i16::MAX.into()),
        Integer::S32 => within(i32::MIN.into(), i32::MAX.into()),
        // Many readers of JSON keep numbers as doubles, so the bounds would not be what is written.
        Integer::U64 => json!({ "type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]{1,20}$" }),
        Integer::S64 => json!({ "type": ["integer", "string"], "pattern": "^-?[0-9]{1,19}$" }),
    }
}

/// One of some strings. What is known of each goes into the description.
fn choice<'n, 'd>(names: impl Iterator<Item = &'n str>, doc: impl Fn(&str) -> Option<&'d str>) -> Value {
    let names: Vec<_> = names.collect();
    let docs: Vec<_> = names.iter().filter_map(|name| Some(format!("{name}: {}", doc(name)?))).collect();
    described(
        json!({ "type": "string", "enum": names }),
        Some(docs.join("\n")).filter(|text| !text.is_empty()),
    )
}

fn only_member(name: &str, value: Value) -> Value {
    let properties = Map::from_iter([(name.to_owned(), value)]);
    json!({ "type": "object", "properties": properties, "required": [name], "additionalProperties": false })
}

/// Lets a schema accept null too. What the schema says of itself stays outside.
fn nullable(mut schema: Value) -> Value {
    let Some(members) = schema.as_object_mut() else { return schema };
    if let Some(Value::Array(branches)) = members.get_mut("anyOf") {
        branches.push(json!({ "type": "null" }));
        return schema;
    }
    if let Some(Value::Array(names)) = members.get_mut("enum") {
        names.push(Value::Null);
    }
    match members.get_mut("type") {
        Some(Value::Array(types)) => types.push(json!("null")),
        Some(one) => *one = json!([one.take(), "null"]),
        None => {}
    }
    schema
}

/// Puts a description on a schema. What is said of a field comes before what is said of its type.
fn described(mut schema: Value, text: Option<impl Into<String>>) -> Value {
    if let Some(text) = text {
        set(&mut schema, "description", Value::String(text.into()));
    }
    schema
}

fn set(schema: &mut Value, key: &str, value: Value) {
    if let Some(members) = schema.as_object_mut() {
        members.insert(key.to_owned(), value);
    }
}
