//! What is promised of types and arguments of strangers, for `host/fuzz`: functions that panic when it is
//! broken.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use json_schema::{Fuel, MemoryBudget, Misfit, Schema, SchemaBudget};
use serde_json::Value;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::docs::PackageDocs;
use super::named::Named;
use super::samples::{engine, identity};
use super::tool::TypedTool;
use super::wit_type::{Case, Field, Integer, WitType};
use super::{decode, read};

static ENGINE: LazyLock<Option<Engine>> = LazyLock::new(engine);

/// A function of each kind of type.
static TOOLS: LazyLock<Vec<TypedTool>> = LazyLock::new(|| {
    let named = |name: &str, ty: WitType| Field { name: name.to_owned(), ty };
    let case = |name: &str, ty: Option<WitType>| Case { name: name.to_owned(), ty };
    let text = || Box::new(WitType::String);
    let words = || Named::from(vec!["small".to_owned(), "large".to_owned()]);
    let item = WitType::Record(vec![
        named("sku", WitType::String),
        named("quantity", WitType::Integer(Integer::U64)),
        named("price", WitType::Option(Box::new(WitType::Float64))),
    ]);
    let filter = WitType::Variant(Named::from(vec![
        case("everything", None),
        case("prefix", Some(WitType::String)),
        case("in-size", Some(WitType::Flags(words()))),
    ]));
    let all = [
        WitType::List(Box::new(item), None),
        filter,
        WitType::Tuple(vec![WitType::Char, WitType::Bool, WitType::Float32, WitType::Integer(Integer::S8)]),
        WitType::Map(text(), Box::new(WitType::Enum(words()))),
        WitType::Option(Box::new(WitType::Option(Box::new(WitType::Integer(Integer::S64))))),
        WitType::Bytes(None),
        WitType::Result { ok: Some(Box::new(WitType::Bytes(Some(3)))), err: Some(text()) },
        WitType::List(Box::new(WitType::Integer(Integer::U16)), Some(2)),
    ];
    all.into_iter().map(identity).collect()
});

/// Arguments that are encoded are what the schema takes, and are decoded to what is encoded alike.
///
/// # Panics
/// When they are not.
pub fn encode_arguments(text: &[u8]) {
    let Ok(value) = MemoryBudget::default().read(text) else { return };
    let arguments = Value::Object([("value".to_owned(), value.clone())].into_iter().collect());
    for tool in TOOLS.iter() {
        drop(tool.encode(&value));
        let (Ok(encoded), Some(ty)) = (tool.encode(&arguments), &tool.result) else { continue };
        let misfit = prepared(&tool.input_schema)
            .map(|schema| schema.check(&arguments, "the arguments", &mut Fuel::inline()));
        assert!(!matches!(misfit, Some(Err(Misfit::Wrong(_)))), "{misfit:?}: {arguments}");
        let [parameter] = encoded.as_slice() else { return assert_eq!(encoded.len(), 1) };
        let decoded = decode::value(ty, parameter);
        assert!(decoded.is_ok(), "what was encoded is decoded: {arguments}");
        let decoded =
            Value::Object([("value".to_owned(), decoded.unwrap_or_default())].into_iter().collect());
        assert_eq!(tool.encode(&decoded).ok(), Some(encoded), "{arguments} {decoded}");
    }
}

fn prepared(schema: &Value) -> Option<Schema> {
    let deadline = Instant::now() + Duration::from_mins(10);
    Schema::read(&schema.to_string(), &mut SchemaBudget::until(deadline)).ok()
}

/// Types of a component that compiles: each tool has a name of its own, and schemas that hold.
///
/// # Panics
/// When one has not.
pub fn read_types(bytes: &[u8]) {
    drop(PackageDocs::read(bytes));
    let Some(engine) = ENGINE.as_ref() else { return assert!(ENGINE.is_some(), "an engine is made") };
    let Ok(component) = Component::new(engine, bytes) else { return };
    let types = component.component_type();
    let _ = super::imports_of_types(&types, engine);
    let tools = match read(&types, engine, bytes) {
        Ok(tools) => tools,
        Err(refusal) => return assert!(refusal.to_string().len() < 4_096, "{refusal}"),
    };
    let names: BTreeSet<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names.len(), tools.len(), "{names:?}");
    for tool in &tools {
        for schema in [&tool.input_schema, &tool.output_schema] {
            assert!(prepared(schema).is_some(), "{}: {schema}", tool.name);
        }
        drop(tool.encode(&Value::Null));
    }
}
