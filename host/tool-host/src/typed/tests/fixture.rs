//! A component as another host would build it: Rust and wit-bindgen, with documentation, and no contract of
//! ours.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wit_component::ComponentEncoder;

use super::docs::{section_of, with_docs};
use super::{Loaded, MEMORY, function, is_valid};
use crate::typed::imports_of_types;
use crate::typed::tool::Failed;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn inventory() -> Loaded {
    Loaded::read(&fs::read(fixtures().join("typed-inventory.wasm")).unwrap()).unwrap()
}

/// Calls a tool whose arguments and answer fit its schemas.
fn call(loaded: &Loaded, name: &str, arguments: &Value) -> Result<Value, Failed> {
    let tool = loaded.tool(name);
    assert!(is_valid(&tool.input_schema, arguments), "{arguments} {}", tool.input_schema);
    let answer = loaded.call(name, arguments).unwrap();
    if let Ok(answer) = &answer {
        assert!(is_valid(&tool.output_schema, answer), "{answer} {}", tool.output_schema);
    }
    answer
}

#[test]
fn its_functions_are_tools() {
    let loaded = inventory();
    let names: Vec<_> = loaded.tools.iter().map(|tool| tool.name.as_str()).collect();
    let expected =
        ["stock_find", "stock_reserve", "stock_dimensions", "stock_print_label", "stock_weigh", "is_open"];
    let sorted = |mut names: Vec<_>| {
        names.sort_unstable();
        names
    };
    assert_eq!(sorted(names), sorted(expected.to_vec()));
    let find = loaded.tool("stock_find");
    assert_eq!(find.description, "Finds items of the stock. Use it before reserving.");
    assert_eq!(find.export.interface.as_deref(), Some("acme:inventory/stock@1.2.0"));
    assert_eq!(loaded.tool("is_open").description, "Whether the warehouse is open.");
    assert_eq!(
        loaded.tool("stock_weigh").description,
        "Calls `weigh` of `acme:inventory/stock`. The stock of a small warehouse."
    );
    let item = &find.output_schema["items"]["properties"];
    assert_eq!(item["sku"]["description"], "Names the item, for example `tea-250`.");
    assert_eq!(item["price"]["description"], "Absent for what is not for sale.");
    let currency = &item["price"]["properties"]["currency"]["description"];
    assert_eq!(currency, "Three letters of ISO 4217, for example `EUR`.");
    let prefix = &find.input_schema["properties"]["filter"]["anyOf"][1]["properties"]["prefix"];
    assert_eq!(prefix["description"], "The items whose name begins so.");
}

#[test]
fn its_import_of_types_needs_nobody_to_answer_it() {
    let loaded = inventory();
    let imports = imports_of_types(&loaded.component.component_type(), &loaded.engine);
    assert_eq!(imports.into_iter().collect::<Vec<_>>(), ["acme:inventory/types@1.2.0"]);
    let other = format!(
        r#"(component {MEMORY} (import "acme:shop/till" (instance (export "open" (func))))
            (import "acme:shop/safe" (instance (export "key" (type (sub resource)))))
            {} (export "f" (func $f)))"#,
        function("f", "")
    );
    let other = Loaded::text(&other).unwrap();
    assert!(imports_of_types(&other.component.component_type(), &other.engine).is_empty());
}

#[test]
fn records_options_flags_and_large_numbers_come_back() {
    let loaded = inventory();
    let tea = json!({
        "sku": "tea-250", "quantity": 12, "size": "small", "handling": [],
        "price": { "amount": 495, "currency": "EUR" },
    });
    let sand = json!({ "sku": "sand", "quantity": "18446744073709551615", "size": "medium", "handling": [] });
    let find = |arguments| call(&loaded, "stock_find", &arguments).unwrap();
    assert_eq!(find(json!({ "filter": { "prefix": "tea" } })), json!([tea]));
    assert_eq!(find(json!({ "filter": { "at-least": "18446744073709551615" } })), json!([sand]));
    assert_eq!(find(json!({ "filter": "everything", "limit": 1 })), json!([tea]));
    assert_eq!(find(json!({ "filter": "everything", "limit": null })).as_array().unwrap().len(), 3);
    let large = find(json!({ "filter": { "in-size": ["large"] } }));
    assert_eq!(large[0]["handling"], json!(["fragile", "upright"]));
}

#[test]
fn results_are_answers_and_failures() {
    let loaded = inventory();
    let reserve = |sku: &str, quantity: Value| {
        call(&loaded, "stock_reserve", &json!({ "sku": sku, "quantity": quantity }))
    };
    assert_eq!(
        reserve("tea-250", json!(5)),
        Ok(json!({ "number": "9007199254740993", "sku": "tea-250", "left": 7 }))
    );
    let failed = |code: Option<&str>, message: &str| {
        Err(Failed { code: code.map(str::to_owned), message: message.to_owned() })
    };
    assert_eq!(reserve("tea-250", json!("13")), failed(Some("out-of-stock"), r#"{"out-of-stock":12}"#));
    assert_eq!(reserve("gold", json!(1)), failed(Some("not-found"), r#"{"not-found":"gold"}"#));
    assert_eq!(reserve("tea-250", json!(0)), failed(Some("closed"), "closed"));
    assert_eq!(
        call(&loaded, "stock_dimensions", &json!({ "sku": "gold" })),
        failed(None, r#"nobody has measured "gold" yet"#)
    );
    assert_eq!(call(&loaded, "stock_dimensions", &json!({ "sku": "tea-250" })), Ok(json!([0.1, 0.2, 0.05])));
    let mismatch = loaded.call("stock_dimensions", &json!({ "sku": "void" })).unwrap_err();
    assert_eq!(mismatch.to_string(), "/0: is NaN, which JSON cannot carry");
}

#[test]
fn bytes_tuples_and_functions_of_the_world_are_called() {
    let loaded = inventory();
    assert_eq!(call(&loaded, "stock_print_label", &json!({ "text": "AAEC" })), Ok(json!("AgEA")));
    let boxes = json!({ "boxes": [["a", 1.5], ["b", 2]] });
    assert_eq!(call(&loaded, "stock_weigh", &boxes), Ok(json!(3.5)));
    assert_eq!(call(&loaded, "is_open", &json!({})), Ok(json!(true)));
}

#[test]
#[ignore = "writes the fixture: fixtures/typed-inventory/README.md"]
fn the_fixture_is_written() {
    let source = fixtures().join("typed-inventory");
    let module = source.join("target/wasm32-unknown-unknown/release/typed_inventory.wasm");
    let module = fs::read(module).unwrap();
    let component = ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap();
    let wit = fs::read_to_string(source.join("wit/inventory.wit")).unwrap();
    fs::write(fixtures().join("typed-inventory.wasm"), with_docs(&component, &section_of(&wit))).unwrap();
}
