//! What cannot be served, refused by the name of the function and the place in it.

use super::{Loaded, refusal};

/// A component that exports a function `f` of that type.
fn function(ty: &str) -> String {
    format!(r#"(component (import "host" (func $f {ty})) (export "f" (func $f)))"#)
}

/// The same in the interface `acme:shop/till@1.0.0`.
fn in_interface(functions: &str) -> String {
    format!(
        r#"(component (import "host" (func $f)) (instance $till {functions})
            (export "acme:shop/till@1.0.0" (instance $till)))"#
    )
}

#[test]
fn a_component_without_functions_is_told_what_it_exports() {
    assert_eq!(refusal("(component)"), "exports no function that could be a tool; it exports nothing");
    let wasi = r#"(component (import "host" (func $f)) (instance $i (export "run" (func $f)))
        (export "wasi:cli/run@0.2.0" (instance $i)) (export "agent:tool/tool@0.1.0" (instance $i)))"#;
    assert_eq!(
        refusal(wasi),
        "exports no function that could be a tool; it exports wasi:cli/run@0.2.0, agent:tool/tool@0.1.0"
    );
}

#[test]
fn resources_are_refused_where_they_stand() {
    let declared = r#"(import "counter" (type $counter (sub resource)))"#;
    let component =
        |ty| format!(r#"(component {declared} (import "host" (func $f {ty})) (export "count" (func $f)))"#);
    let cannot = "which cannot be passed as JSON: leave that function out of the world it is built for, or write a component around it";
    assert_eq!(
        refusal(&component(r#"(param "on" (borrow $counter))"#)),
        format!("has a resource in the parameter `on` of `count`, {cannot}")
    );
    assert_eq!(
        refusal(&component("(result (list (tuple u8 (own $counter))))")),
        format!("has a resource in item 1 of the element of the result of `count`, {cannot}")
    );
    let method = r#"(component
        (import "acme:shop/till" (instance $till
            (export "counter" (type $counter (sub resource)))
            (export "[static]counter.most" (func (result u8)))))
        (export "acme:shop/till@1.0.0" (instance $till)))"#;
    assert_eq!(
        refusal(method),
        format!("has a resource in the name of `[static]counter.most` of `acme:shop/till`, {cannot}")
    );
}

#[test]
fn error_contexts_are_refused_where_they_stand() {
    let text = refusal(&function("(result (result (error error-context)))"));
    assert!(text.starts_with("has an error context in the case `err` of the result of `f`, which"), "{text}");
    let text = refusal(&function(r#"(param "m" (map string error-context))"#));
    assert!(
        text.starts_with("has an error context in the value of the parameter `m` of `f`, which"),
        "{text}"
    );
}

#[test]
fn places_are_named_down_to_fields_and_cases() {
    let component = r#"(component
        (type $record (record (field "inner" error-context)))
        (export $r "r" (type $record))
        (type $variant (variant (case "other") (case "one" $r)))
        (export $v "v" (type $variant))
        (import "host" (func $f (param "p" (option $v))))
        (export "g" (func $f)))"#;
    let text = refusal(component);
    assert!(
        text.starts_with(
            "has an error context in the field `inner` of the case `one` of the parameter `p` of `g`"
        ),
        "{text}"
    );
}

#[test]
fn names_become_snake_case_and_have_to_be_a_tools() {
    let names = |text: &str| {
        let tools = Loaded::text(text).unwrap().tools;
        tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    let both = r#"(component (import "host" (func $f))
        (instance $i (export "take-OUT" (func $f)))
        (export "acme:shop/cash-till@1.0.0" (instance $i)) (export "side-door" (instance $i)) (export "is-open" (func $f)))"#;
    assert_eq!(names(both), ["cash_till_take_out", "side_door_take_out", "is_open"]);

    let long = "x".repeat(60);
    assert_eq!(names(&in_interface(&format!(r#"(export "{}" (func $f))"#, &long[..58])))[0].len(), 63);
    let refused = refusal(&in_interface(&format!(r#"(export "{}" (func $f))"#, &long[..59])));
    assert!(
        refused.starts_with(&format!(
            "exports `{}` of `acme:shop/till`, whose name as a tool would be",
            &long[..59]
        )),
        "{refused}"
    );
}

#[test]
fn two_functions_of_one_tool_name_are_refused_by_both_names() {
    let component = r#"(component (import "host" (func $f))
        (instance $a (export "b-c" (func $f))) (instance $b (export "c" (func $f)))
        (export "acme:shop/a@1.0.0" (instance $a)) (export "acme:shop/a-b" (instance $b)))"#;
    assert_eq!(
        refusal(component),
        r#"exports `b-c` of `acme:shop/a` and `c` of `acme:shop/a-b`, which would both be the tool "a_b_c": rename one of them"#
    );
}

#[test]
fn more_functions_than_a_component_may_have_are_refused() {
    let functions = |count: usize| {
        in_interface(
            &(0..count).map(|number| format!(r#"(export "f{number}" (func $f))"#)).collect::<String>(),
        )
    };
    assert_eq!(Loaded::text(&functions(64)).unwrap().tools.len(), 64);
    assert_eq!(refusal(&functions(65)), "exports more than 64 functions: split it into several components");
}

#[test]
fn types_that_are_nested_too_deep_are_refused() {
    let nested =
        |depth: usize| function(&format!("(result {}bool{})", "(list ".repeat(depth), ")".repeat(depth)));
    assert_eq!(Loaded::text(&nested(15)).unwrap().tools.len(), 1);
    let text = refusal(&nested(16));
    assert!(text.starts_with("nests types more than 16 deep in the element of the element of"), "{text}");
    assert!(text.ends_with("of the result of `f`: flatten them"), "{text}");
}

#[test]
fn a_small_graph_of_types_that_unfolds_to_a_large_tree_is_refused() {
    // Each tuple has the one before it four times: 4^9 numbers in nine lines.
    let mut declared = "(type $t0 (tuple u8 u8 u8 u8))".to_owned();
    for depth in 1..9 {
        declared.push_str(&format!("(type $t{depth} (tuple $t{0} $t{0} $t{0} $t{0}))", depth - 1));
    }
    let component =
        format!(r#"(component {declared} (import "host" (func $f (param "p" $t8))) (export "f" (func $f)))"#);
    assert_eq!(
        refusal(&component),
        "has more than 4096 fields, cases and types in what its functions take and return, counted up to `f`: export fewer functions, or smaller types"
    );
}

#[test]
fn names_and_schemas_that_are_too_long_are_refused() {
    let long = "x".repeat(65);
    let text = refusal(&function(&format!(r#"(param "{long}" u8)"#)));
    assert!(text.starts_with("has a name of more than 64 bytes in the parameter `xxx"), "{text}");
    assert!(text.ends_with("of `f`: shorten it"), "{text}");

    let cases: String = (0..1000).map(|number| format!(r#" "a-rather-long-case-{number}""#)).collect();
    let component = format!(
        r#"(component (type $enum (enum{cases})) (export $e "e" (type $enum))
            (import "host" (func $f (param "p" $e))) (export "f" (func $f)))"#
    );
    let text = refusal(&component);
    assert!(text.starts_with("takes or returns too much in `f`: its JSON Schema has 2"), "{text}");
    assert!(text.ends_with("bytes and may have 16384"), "{text}");
}

#[test]
fn streams_and_async_functions_do_not_get_past_an_engine_that_has_none() {
    for ty in [r#"(param "s" (stream u8))"#, "(result (future))", "async"] {
        let component = wat::parse_str(function(ty)).unwrap();
        let error = wasmtime::component::Component::new(&super::engine(), component).unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("async"), "{text}");
    }
}
