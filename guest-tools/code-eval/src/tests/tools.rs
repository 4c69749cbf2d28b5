//! Calls of tools.

use std::rc::Rc;

use serde_json::{Value, json};

use super::{Fakes, failure_of, result_of, run_with};

/// A shop with ten items.
fn shop() -> Rc<Fakes> {
    let fakes = Fakes::default()
        .with("list_items", |_| {
            Ok(json!({"items": (1..=10).map(|id| json!({"id": id})).collect::<Vec<_>>()}))
        })
        .with("get_stock", |arguments| match arguments["id"].as_u64() {
            Some(7) => Err(("not-found", "there is no item 7")),
            Some(id) => Ok(json!({"count": id * 3 % 10})),
            None => Err(("invalid-arguments", "`id` is missing")),
        })
        .with("calculate", |arguments| Ok(json!({"value": arguments["expression"].as_str().unwrap().len()})));
    Rc::new(fakes)
}

#[test]
fn ten_steps_fit_in_one_script() {
    let tools = shop();
    let code = "
        const scarce = [];
        for (const {id} of tools.list_items({}).items) {
            try {
                const {count} = tools.get_stock({id});
                if (count < 4) scarce.push({id, count});
            } catch (e) {
                if (e.code !== 'not-found') throw e;
                console.log(`skipped ${id}: ${e.message}`);
            }
        }
        scarce.sort((a, b) => a.count - b.count || a.id - b.id)";
    let answer = run_with(&tools, code).unwrap();
    let expected = json!([{"id": 10, "count": 0}, {"id": 4, "count": 2}, {"id": 1, "count": 3}]);
    assert_eq!(answer, json!({"result": expected, "log": ["skipped 7: there is no item 7"]}));
    assert_eq!(tools.calls.borrow().len(), 11);
    assert_eq!(tools.calls.borrow()[3], ("get_stock".to_owned(), json!({"id": 3})));
}

#[test]
fn calls_work_awaited_and_all_at_once() {
    let tools = shop();
    let code = "
        const {items} = await tools.list_items();
        const stocks = await Promise.all(items.filter(i => i.id < 4).map(({id}) => tools.get_stock({id})));
        const more = await Promise.all([8, 9].map(async id => (await tools.get_stock({id})).count));
        return [...stocks.map(s => s.count), ...more]";
    assert_eq!(run_with(&tools, code).unwrap()["result"], json!([3, 6, 9, 4, 7]));
    let called: Vec<_> = tools.calls.borrow().iter().map(|(_, arguments)| arguments["id"].clone()).collect();
    assert_eq!(
        called,
        [Value::Null, json!(1), json!(2), json!(3), json!(8), json!(9)],
        "one after the other"
    );
}

#[test]
fn a_failed_call_throws_its_code_and_its_words() {
    let code = "try { tools.get_stock({id: 7}) } catch (e) { ({
        is: e instanceof Error, name: e.name, tool: e.tool, code: e.code, message: e.message, text: String(e)}) }";
    assert_eq!(
        run_with(&shop(), code).unwrap()["result"],
        json!({"is": true, "name": "ToolError", "tool": "get_stock", "code": "not-found",
            "message": "there is no item 7", "text": "ToolError: there is no item 7"})
    );
}

#[test]
fn one_that_nobody_caught_is_told_with_its_tool_and_line() {
    for code in [
        "const id = 7;\ntools.get_stock({id})",
        "const id = 7;\nawait Promise.all([id].map(async id => tools.get_stock({id})))",
        "[7].map(async id =>\ntools.get_stock({id}))",
    ] {
        let failure = run_with(&shop(), code).unwrap_err();
        assert_eq!(
            (failure.code.as_str(), failure.message.as_str()),
            ("script-failed", "the tool `get_stock` failed with not-found (line 2): there is no item 7"),
            "{code}"
        );
    }
}

#[test]
fn a_failure_that_was_lost_is_in_the_log() {
    let code = "async function main() { tools.get_stock({id: 7}) }\nmain();\n'done'";
    let answer = run_with(&shop(), code).unwrap();
    assert_eq!(
        answer,
        json!({"result": "done", "log": ["a promise that nothing awaited failed: \
            the tool `get_stock` failed with not-found (line 1): there is no item 7"]})
    );
    let code = "const p = Promise.reject(new Error('x')); p.catch(() => {}); 'done'";
    assert_eq!(run_with(&shop(), code).unwrap(), json!({"result": "done"}), "this one was handled");
}

#[test]
fn a_tool_that_is_not_there_is_named_with_those_that_are() {
    let failure = run_with(&shop(), "tools.get_price({id: 1})").unwrap_err();
    assert_eq!(
        failure.message,
        "the tool `get_price` failed with unknown-tool: \
         there is no tool `get_price`, only: list_items, get_stock, calculate"
    );
    let failure = failure_of("tools.x()");
    assert!(failure.message.contains("no tool can be called from scripts here"), "{}", failure.message);
}

#[test]
fn the_object_of_tools_can_be_looked_at() {
    let code = "[Object.keys(tools), 'calculate' in tools, 'nope' in tools, typeof tools.calculate, tools.calculate.name,
        JSON.stringify(tools), await tools === tools, `${tools}`]";
    assert_eq!(
        run_with(&shop(), code).unwrap()["result"],
        json!([
            ["list_items", "get_stock", "calculate"],
            true,
            false,
            "function",
            "calculate",
            "{}",
            true,
            "[object Object]"
        ])
    );
}

#[test]
fn arguments_are_one_object() {
    for code in [
        "tools.calculate('1+1')",
        "tools.calculate(1, 2)",
        "tools.calculate({}, {})",
        "tools.calculate(() => 1)",
    ] {
        let failure = run_with(&shop(), code).unwrap_err();
        assert!(
            failure
                .message
                .contains("`calculate` takes one object, with its arguments by name: tools.calculate({…})"),
            "{code}: {}",
            failure.message
        );
    }
    let code = "const o = {expression: '1'}; o.o = o; tools.calculate(o)";
    let failure = run_with(&shop(), code).unwrap_err();
    assert!(
        failure.message.contains("the arguments of `calculate` cannot be put as JSON: it contains itself"),
        "{}",
        failure.message
    );
    let failure = run_with(&shop(), "tools.calculate([1])").map(|answer| answer.to_string());
    assert!(failure.unwrap_err().message.contains("takes one object"), "an array is none");
}

#[test]
fn any_text_and_number_passes_both_ways() {
    let tools = Rc::new(Fakes::default().with("echo", |arguments| Ok(arguments.clone())));
    for value in [
        json!({"text": "\u{0} \u{1f980} \u{fc} \u{2028} \" \\ </script> \u{ffff}"}),
        json!({"numbers": [0, -1, 2_147_483_648_u64, 9_007_199_254_740_991_i64, -9_007_199_254_740_991_i64, 1e308, 5e-324, 0.1]}),
        json!({"": {"0": [], "toString": 1, "__proto__": null, "constructor": {}}}),
    ] {
        assert_eq!(
            run_with(&tools, &format!("tools.echo({value})")).unwrap()["result"],
            echoed(&value),
            "{value}"
        );
    }
}

/// In the source of a script, `__proto__` in an object is its prototype.
fn echoed(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(inner) = value.get_mut("").and_then(Value::as_object_mut) {
        inner.remove("__proto__");
    }
    value
}

#[test]
fn a_megabyte_passes() {
    let tools = Rc::new(Fakes::default().with("echo", |arguments| Ok(arguments.clone())));
    let code = "const text = '\u{fc}x'.repeat(1 << 19); const back = tools.echo({text}).text; [back === text, back.length]";
    assert_eq!(run_with(&tools, code).unwrap()["result"], json!([true, 1 << 20]));
}

#[test]
fn a_script_may_call_what_it_calls_its_own() {
    assert_eq!(result_of("const tools = {x: () => 1}; tools.x()"), json!(1));
    assert_eq!(result_of("globalThis.tools = 1; globalThis.JSON = 1; Object.keys = () => 1; 2"), json!(2));
}
