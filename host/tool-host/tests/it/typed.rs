//! A component that was built for another host: its typed functions are tools, unchanged.

use std::fs;
use std::path::Path;

use agent_core::ports::Toolbox as _;
use agent_core::words::{Principal, ToolCall, ToolOutcome};
use serde_json::{Value, json};

use crate::harness::{Host, WithPolicy, entry, limits};

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

/// A host with the component under a policy that has this line for it.
async fn with_line(line: &str) -> Host {
    let bytes = inventory();
    let policy = entry("inventory", &bytes, line);
    WithPolicy::start_with(&[("inventory.wasm", &bytes)], &policy, |_| {}).await.host
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_gives_its_tools_other_names() {
    // Two tools may even change their names.
    let host = with_line(
        r#"rename = { stock_find = "find_items", is_open = "stock_weigh", stock_weigh = "is_open" }"#,
    )
    .await;
    assert_eq!(host.faults(), Vec::<String>::new());
    assert_eq!(
        host.names(),
        ["find_items", "is_open", "stock_dimensions", "stock_print_label", "stock_reserve", "stock_weigh"]
    );
    let found = host.call("find_items", json!({"filter": "everything", "limit": 1})).await;
    assert!(found.content.contains("tea-250"), "{}", found.content);
    assert_eq!(host.call("stock_weigh", json!({})).await.content, "true");
    assert_eq!(host.call("stock_find", json!({})).await.receipt.outcome, ToolOutcome::UnknownTool);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_is_written_as_a_text_passes_no_bound_that_the_number_does_not() {
    let host =
        with_line(r#"approve = { when = "always", pass = '{"properties":{"quantity":{"maximum":50}}}' }"#)
            .await;
    assert_eq!(host.faults(), Vec::<String>::new());
    let tools = host.host.current_for(Principal::nobody());
    for (quantity, is_asked) in [
        (json!(50), false),
        (json!("50"), false),
        (json!(9_000), true),
        (json!("9000"), true),
        (json!("18446744073709551615"), true),
    ] {
        let arguments = json!({"sku": "tea-250", "quantity": quantity});
        let call = ToolCall { id: "1".into(), name: "stock_reserve".into(), arguments };
        assert_eq!(tools.approval(&call, Principal::nobody()).is_some(), is_asked, "{quantity}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_it_cannot_have_refuse_it_and_say_why() {
    for (rename, said) in [
        (
            r#"rename = { stock_fnid = "find" }"#,
            r#"it has no tool "stock_fnid": its tools are is_open, stock_dimensions"#,
        ),
        (
            r#"rename = { stock_find = "is_open" }"#,
            r#"it has another tool "is_open" already: take another name"#,
        ),
    ] {
        let faults = with_line(rename).await.faults();
        assert!(
            faults[0].contains("`rename` in its lines of the policy") && faults[0].contains(said),
            "{faults:?}"
        );
    }
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
    let host = Host::start(&[("it.wasm", &wat::parse_str(resource).unwrap())], limits()).await;
    let faults = host.faults();
    assert!(faults[0].contains("functions that cannot be tools"), "{faults:?}");
}
