//! Components of text, called: what functions return as answers and as failures.

use serde_json::json;

use super::Loaded;
use crate::typed::tool::Failed;

/// A component whose functions return constants.
const ANSWERS: &str = r#"(component
    (core module $code
        (memory (export "memory") 1)
        (data (i32.const 16) "no such thing")
        ;; The err of a string, and a variant's case 1 with the number 7.
        (data (i32.const 64) "\01\00\00\00\10\00\00\00\0d\00\00\00")
        (data (i32.const 96) "\01\00\00\00\01\00\00\00\07\00\00\00")
        (func (export "nothing"))
        (func (export "one") (result i32) (i32.const 1))
        (func (export "zero") (result i32) (i32.const 0))
        (func (export "string-error") (result i32) (i32.const 64))
        (func (export "variant-error") (result i32) (i32.const 96))
        (func (export "nan") (result f64) (f64.const nan)))
    (core instance $i (instantiate $code))
    (func (export "nothing") (canon lift (core func $i "nothing")))
    (func (export "truth") (result bool) (canon lift (core func $i "one")))
    (func (export "works") (result (result)) (canon lift (core func $i "zero")))
    (func (export "fails") (result (result)) (canon lift (core func $i "one")))
    (func (export "fails-in-words") (result (result u32 (error string)))
        (canon lift (core func $i "string-error") (memory $i "memory")))
    (type $variant (variant (case "closed") (case "left" u32)))
    (export $v "stock-error" (type $variant))
    (func (export "fails-with-a-case") (result (result u32 (error $v)))
        (canon lift (core func $i "variant-error") (memory $i "memory")))
    (func (export "nan") (result f64) (canon lift (core func $i "nan"))))"#;

#[test]
fn what_a_function_returns_is_its_answer_or_its_failure() {
    let loaded = Loaded::text(ANSWERS).unwrap();
    let call = |name| loaded.call(name, &json!({})).unwrap();
    let failed = |code: Option<&str>, message: &str| {
        Err(Failed { code: code.map(str::to_owned), message: message.to_owned() })
    };
    assert_eq!(call("nothing"), Ok(json!(null)));
    assert_eq!(call("truth"), Ok(json!(true)));
    assert_eq!(call("works"), Ok(json!(null)));
    assert_eq!(call("fails"), failed(None, "the tool failed and did not say why"));
    assert_eq!(call("fails_in_words"), failed(None, "no such thing"));
    assert_eq!(call("fails_with_a_case"), failed(Some("left"), r#"{"left":7}"#));
    let mismatch = loaded.call("nan", &json!({})).unwrap_err();
    assert_eq!(mismatch.to_string(), "is NaN, which JSON cannot carry");
}

#[test]
fn schemas_are_of_the_parameters_and_of_what_is_returned_without_failure() {
    let loaded = Loaded::text(ANSWERS).unwrap();
    let tool = loaded.tool("fails_in_words");
    assert_eq!(
        tool.input_schema,
        json!({ "type": "object", "properties": {}, "additionalProperties": false })
    );
    assert_eq!(tool.output_schema, json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }));
    assert_eq!(loaded.tool("fails").output_schema, json!({ "type": "null" }));
    assert_eq!(loaded.tool("nothing").output_schema, json!({ "type": "null" }));
    assert_eq!(tool.description, "Calls `fails-in-words`.");
}

#[test]
fn arguments_that_do_not_fit_are_no_call() {
    let loaded = Loaded::text(ANSWERS).unwrap();
    let wrong = |arguments| loaded.call("truth", &arguments).unwrap_err().to_string();
    assert_eq!(wrong(json!([])), "expected an object, found an array");
    assert_eq!(wrong(json!({ "x": 1 })), r#"has the unknown member "x"; it may have nothing"#);
}

#[test]
fn results_that_are_not_the_functions_are_a_mismatch() {
    let loaded = Loaded::text(ANSWERS).unwrap();
    assert_eq!(loaded.tool("truth").decode(&[]).unwrap_err().to_string(), "the function returned 0 values");
    let two = [wasmtime::component::Val::Bool(true), wasmtime::component::Val::Bool(true)];
    assert_eq!(
        loaded.tool("nothing").decode(&two).unwrap_err().to_string(),
        "the function returned 2 values"
    );
}
