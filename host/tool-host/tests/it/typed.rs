//! A component that was built for another host: its typed functions are tools, unchanged.

use std::fs;
use std::path::Path;

use agent_core::words::ToolOutcome;
use serde_json::{Value, json};

use crate::harness::{Host, limits};

fn inventory() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/typed-inventory.wasm")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn its_functions_are_called_with_json_and_fail_as_tools_do() {
    let host = Host::start(&[("inventory.wasm", &inventory())], limits()).await;
    assert_eq!(host.faults(), Vec::<String>::new());
    assert_eq!(
        host.names(),
        ["is_open", "stock_dimensions", "stock_find", "stock_print_label", "stock_reserve", "stock_weigh"]
    );
    let reserved = host.call("stock_reserve", json!({"sku": "tea-250", "quantity": 5})).await;
    assert_eq!(reserved.receipt.outcome, ToolOutcome::Ok, "{}", reserved.content);
    let value: Value = serde_json::from_str(&reserved.content).unwrap();
    assert_eq!(value, json!({"number": "9007199254740993", "sku": "tea-250", "left": 7}));
    let failed = host.call("stock_reserve", json!({"sku": "gold", "quantity": 1})).await;
    assert_eq!((failed.receipt.outcome, failed.receipt.code()), (ToolOutcome::Failed, Some("not-found")));
    assert_eq!(failed.content, r#"Error: not-found: {"not-found":"gold"}"#);
    // What does not fit is for the model to mend, and what JSON cannot say is the component's fault.
    for wrong in [json!({}), json!({"sku": 1, "quantity": 1}), json!({"sku": "a", "quantity": -1})] {
        let refused = host.call("stock_reserve", wrong.clone()).await;
        assert_eq!(refused.receipt.outcome, ToolOutcome::InvalidArguments, "{wrong}: {}", refused.content);
    }
    let none = host.call("stock_dimensions", json!({"sku": "void"})).await;
    assert_eq!(none.receipt.outcome, ToolOutcome::InvalidOutput, "{}", none.content);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_tool_is_refused_by_name() {
    let resource = r#"(component
        (type $t (resource (rep i32)))
        (core func $new (canon resource.new $t))
        (core module $m (func (export "f") (param i32)))
        (core instance $i (instantiate $m))
        (export $e "thing" (type $t))
        (func $f (param "it" (own $e)) (canon lift (core func $i "f")))
        (export "use-it" (func $f)))"#;
    let nothing = "(component (instance $i) (export \"wasi:cli/run@0.2.0\" (instance $i)))";
    for (text, said) in [(resource, "functions that cannot be tools"), (nothing, "so it is not a tool")] {
        let host = Host::start(&[("it.wasm", &wat::parse_str(text).unwrap())], limits()).await;
        let faults = host.faults();
        assert!(faults[0].contains(said), "{faults:?}");
    }
}
