//! What cannot be served, refused by the name of the function and the place in it.

use super::{Loaded, MEMORY, function, refusal, samples};

/// A component that exports a function `f` of that type, after what has to be declared for it.
fn exporting(declared: &str, ty: &str) -> String {
    format!(r#"(component {MEMORY} {declared} {} (export "f" (func $f)))"#, function("f", ty))
}

/// A component that exports the interface `acme:shop/till@1.0.0`, whose functions are called `$f` here.
fn in_interface(functions: &str) -> String {
    format!(
        r#"(component {MEMORY} {} (instance $till {functions}) (export "acme:shop/till@1.0.0" (instance $till)))"#,
        function("f", "")
    )
}

#[test]
fn a_component_without_functions_is_told_what_it_exports() {
    assert_eq!(refusal("(component)"), "exports no function that could be a tool; it exports nothing");
    let others = format!(
        r#"(component {MEMORY} {} (instance $i (export "run" (func $f)))
            (export "wasi:cli/run@0.2.0" (instance $i)) (export "agent:tool/tool@0.1.0" (instance $i)))"#,
        function("f", "")
    );
    assert_eq!(
        refusal(&others),
        "exports no function that could be a tool; it exports wasi:cli/run@0.2.0, agent:tool/tool@0.1.0"
    );
}

/// A resource, and a record and a variant that have it.
const COUNTER: &str = r#"(import "counter" (type $counter (sub resource)))
    (type $record (record (field "inner" (own $counter)))) (import "r" (type $r (eq $record)))
    (type $variant (variant (case "other") (case "one" $r))) (import "v" (type $v (eq $variant)))"#;

#[test]
fn resources_are_refused_where_they_stand() {
    let cannot = "which cannot be passed as JSON: leave that function out of the world it is built for, or write a component around it";
    let place = |ty| {
        let text = refusal(&exporting(COUNTER, ty));
        let place = text.strip_prefix("has a resource in ").and_then(|text| text.split_once(" of `f`, "));
        let (place, advice) = place.unwrap_or_else(|| panic!("{text}"));
        assert_eq!(advice, cannot);
        place.to_owned()
    };
    assert_eq!(place(r#"(param "on" (borrow $counter))"#), "the parameter `on`");
    assert_eq!(place("(result (own $counter))"), "the result");
    assert_eq!(
        place(r#"(param "all" (list (tuple u8 (own $counter))))"#),
        "item 1 of the element of the parameter `all`"
    );
    assert_eq!(
        place(r#"(param "p" (option $v))"#),
        "the field `inner` of the case `one` of the parameter `p`"
    );
    assert_eq!(
        place(r#"(param "r" (result (error (own $counter))))"#),
        "the case `err` of the parameter `r`"
    );
    assert_eq!(place(r#"(param "m" (map string (own $counter)))"#), "the value of the parameter `m`");

    let method = format!(
        r#"(component {MEMORY} (type $counter (resource (rep i32))) {}
            (component $shim (import "r" (type $r (sub resource))) (import "f" (func $f (result u8)))
                (export "counter" (type $r)) (export "[static]counter.most" (func $f)))
            (instance $till (instantiate $shim (with "r" (type $counter)) (with "f" (func $f))))
            (export "acme:shop/till@1.0.0" (instance $till)))"#,
        function("f", "(result u8)")
    );
    assert_eq!(
        refusal(&method),
        format!("has a resource in the name of `[static]counter.most` of `acme:shop/till`, {cannot}")
    );
}

#[test]
fn names_become_snake_case_and_have_to_be_a_tools() {
    let names = |text: &str| {
        let tools = Loaded::text(text).unwrap().tools;
        tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    let both = format!(
        r#"(component {MEMORY} {}
        (instance $i (export "take-OUT" (func $f)))
        (export "acme:shop/cash-till@1.0.0" (instance $i)) (export "side-door" (instance $i)) (export "is-open" (func $f)))"#,
        function("f", "")
    );
    assert_eq!(names(&both), ["cash_till_take_out", "side_door_take_out", "is_open"]);

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
    let component = format!(
        r#"(component {MEMORY} {}
        (instance $a (export "b-c" (func $f))) (instance $b (export "c" (func $f)))
        (export "acme:shop/a@1.0.0" (instance $a)) (export "acme:shop/a-b" (instance $b)))"#,
        function("f", "")
    );
    assert_eq!(
        refusal(&component),
        r#"exports `b-c` of `acme:shop/a` and `c` of `acme:shop/a-b`, which would both be the tool "a_b_c": rename one of them"#
    );
}

#[test]
fn what_a_toolchain_exports_for_itself_is_no_tool() {
    let init = |first: &str| {
        format!(
            r#"(component {MEMORY} {} {}
            (instance $i (export "init" (func $init))) (export "exports" (instance $i)) (export "add" (func $add)))"#,
            function("init", &format!(r#"(param "{first}" string) (param "stub-wasi" bool)"#)),
            function("add", r#"(param "a" s32) (result s32)"#)
        )
    };
    let names = |first: &str| -> Vec<_> {
        Loaded::text(&init(first)).unwrap().tools.into_iter().map(|tool| tool.name).collect()
    };
    assert_eq!(names("app-name"), ["add"], "as componentize-py writes it");
    assert_eq!(names("who"), ["exports_init", "add"], "an author's own");
}

#[test]
fn the_contract_under_another_name_is_refused_with_the_name_to_export() {
    let exporting = |arguments: &str, more: &str| {
        format!(
            r#"(component {MEMORY} {} {} (instance $i (export "describe" (func $d)) (export "call" (func $c)) {more})
            (export "my:tools/tools@0.1.0" (instance $i)))"#,
            function("d", "(result u32)"),
            function("c", arguments)
        )
    };
    let texts = r#"(param "name" string) (param "arguments" string) (result u32)"#;
    let refused = refusal(&exporting(texts, ""));
    assert!(
        refused.starts_with("exports `describe` and `call` of my:tools/tools@0.1.0, a copy of the contract")
            && refused.contains("export agent:tool/tool@0.1.1 itself"),
        "{refused}"
    );
    let names = |text: &str| Loaded::text(text).map(|loaded| loaded.tools.len()).unwrap();
    assert_eq!(names(&exporting(r#"(param "number" u32)"#, "")), 2, "functions of one's own");
    assert_eq!(names(&exporting(texts, r#"(export "list" (func $d))"#)), 3);
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
    let nested = |depth: usize| {
        exporting("", &format!(r#"(param "p" {}bool{})"#, "(list ".repeat(depth), ")".repeat(depth)))
    };
    assert_eq!(Loaded::text(&nested(15)).unwrap().tools.len(), 1);
    let text = refusal(&nested(16));
    assert!(text.starts_with("nests types more than 16 deep in the element of the element of"), "{text}");
    assert!(text.ends_with("of the parameter `p` of `f`: flatten them"), "{text}");
}

#[test]
fn a_small_graph_of_types_that_unfolds_to_a_large_tree_is_refused() {
    // Each tuple has the one before it four times: 4^9 numbers in nine lines.
    let mut declared = "(type $t0 (tuple u8 u8 u8 u8))".to_owned();
    for depth in 1..9 {
        declared.push_str(&format!("(type $t{depth} (tuple $t{0} $t{0} $t{0} $t{0}))", depth - 1));
    }
    let component = exporting(&declared, r#"(param "p" $t8)"#);
    assert_eq!(
        refusal(&component),
        "has more than 4096 fields, cases and types in what its functions take and return, counted up to `f`: export fewer functions, or smaller types"
    );
}

#[test]
fn names_and_schemas_that_are_too_long_are_refused() {
    let long = "x".repeat(65);
    let text = refusal(&exporting("", &format!(r#"(param "{long}" u8)"#)));
    assert!(text.starts_with("has a name of more than 64 bytes in the parameter `xxx"), "{text}");
    assert!(text.ends_with("of `f`: shorten it"), "{text}");

    let cases: String = (0..1000).map(|number| format!(r#" "a-rather-long-case-{number}""#)).collect();
    let declared = format!(r#"(type $enum (enum{cases})) (import "e" (type $e (eq $enum)))"#);
    let component = exporting(&declared, r#"(param "p" $e)"#);
    let text = refusal(&component);
    assert!(text.starts_with("takes or returns too much in `f`: its JSON Schema has 2"), "{text}");
    assert!(text.ends_with("bytes and may have 16384"), "{text}");
}

#[test]
fn streams_and_async_functions_do_not_get_past_an_engine_that_has_none() {
    let engine = samples::engine().unwrap();
    for ty in [r#"(param "s" (stream u8))"#, "(result (future))", "async", "(result error-context)"] {
        let component = format!(r#"(component (import "host" (func $f {ty})))"#);
        let component = wat::parse_str(component).unwrap();
        let error = wasmtime::component::Component::new(&engine, component).unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("component model"), "{text}");
    }
}
