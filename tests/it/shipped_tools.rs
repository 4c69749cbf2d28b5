//! The tools we ship: every one can be called through the service, and none is forgotten here.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use acceptance::{Component, Model, PATIENCE, Service, count_tokens, order, repository};
use serde_json::{Value, json};

/// Component, tool, arguments, and a part of what it returns.
type Sample = (&'static str, &'static str, Value, &'static str);

fn samples() -> Vec<Sample> {
    let paris = json!({ "time_zone": "Europe/Paris" });
    let noon =
        json!({ "time": "2026-07-14T12:00", "from_time_zone": "Europe/Berlin", "to_time_zone": "UTC" });
    let month = json!({ "date": "2026-01-31", "duration": "1 month" });
    let year = json!({ "from": "2026-01-01", "to": "2027-01-01" });
    let sum = json!({ "json": { "a": [1, 2] }, "query": ".a | add" });
    // Without a length `substr` counts to the end, which a guest's `usize` of 32 bits got wrong.
    let table = json!({ "csv": "a,b\n1,x2\n3,x4", "sql": "select sum(substr(b, 2)) from csv" });
    let digits = json!({ "text": "a1b22", "pattern": "\\d+" });
    let mile = json!({ "value": 1, "from": "mi", "to": "km" });
    vec![
        ("calculator", "calculate", json!({ "expression": "2^10" }), r#""value":"1024""#),
        ("clock", "current_time", paris, r#""time_zone":"Europe/Paris""#),
        ("clock", "convert_time", noon, "2026-07-14T10:00:00"),
        ("clock", "add_to_date", month, r#""result":"2026-02-28""#),
        ("clock", "date_difference", year, r#""whole":365"#),
        ("json-query", "json_query", sum, r#""results":[3]"#),
        ("csv-query", "csv_query", table, r#""rows":[[6]]"#),
        ("regex", "regex", digits, r#""text":"22""#),
        ("unit-convert", "unit_convert", mile, r#""value":"1.609344""#),
        ("text-stats", "text_stats", json!({ "text": "to be or not to be" }), r#""words":6"#),
    ]
}

/// What `cargo xtask guests` has built to be shipped.
fn built() -> BTreeSet<String> {
    let folder = repository().join("target/tools");
    let entries = std::fs::read_dir(folder).expect("the folder of built tools").map(Result::unwrap);
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_suffix(".wasm").map(str::to_owned)).collect()
}

#[tokio::test]
async fn every_shipped_tool_can_be_called() {
    let model = Model::obeying().await;
    let names = built();
    let service = Service::variant_a().model(&model).tools(names.iter().map(String::as_str)).start().await;
    let ready = service.ready().await;
    assert_eq!(ready.json().get("tools"), None, "{ready}");
    for (component, tool, arguments, part) in samples() {
        let result = service.result_of(&order(tool, &arguments)).await;
        let call = &result["toolCalls"][0];
        assert_eq!(call["outcome"], "ok", "{result:#}");
        assert_eq!(call["component"], Component::shipped(component).id(), "{result:#}");
        assert!(result["output"].as_str().unwrap().contains(part), "{result:#}");
    }
    let offered: BTreeSet<_> = model.calls()[0].tools().into_iter().map(str::to_owned).collect();
    let called: BTreeSet<_> = samples().into_iter().map(|(_, tool, ..)| tool.to_owned()).collect();
    assert_eq!(offered, called, "a tool without a sample here");
}

/// Most tokens that the tools we ship may add to every call of a model, all together.
const CATALOG_TOKENS: usize = 800;

#[tokio::test]
async fn all_shipped_tools_together_are_cheap_in_every_call_of_a_model() {
    let model = Model::saying("hello").await;
    let service = Service::variant_a().model(&model).tools(built().iter().map(String::as_str)).start().await;
    service.result_of("hi").await;
    let tools = model.calls()[0].body["tools"].take();
    let each = tools.as_array().unwrap().iter().map(Value::to_string);
    let texts: Vec<_> = std::iter::once(tools.to_string()).chain(each).collect();
    let counts = count_tokens(&texts);
    for (vocabulary, tokens) in &counts[0] {
        let each: Vec<_> = std::iter::zip(&counts[1..], &texts[1..]).collect();
        assert!(*tokens <= CATALOG_TOKENS, "{tokens} tokens of {vocabulary}; each:\n{each:#?}");
    }
}

/// How deep a query may go is a matter of the stack in WebAssembly, which no unit test has.
#[tokio::test]
async fn a_query_that_goes_too_deep_is_told_so_before_it_traps() {
    let model = Model::obeying().await;
    let service = Service::variant_a().model(&model).tools(["json-query"]).start().await;
    let ask = async |query: &str| {
        service.result_of(&order("json_query", &json!({ "json": [], "query": query }))).await
    };
    let deep = ask("def f: if . == 0 then 0 else 1 + (. - 1 | f) end; 100 | f").await;
    assert!(deep["output"].as_str().unwrap().contains("[100]"), "{deep:#}");
    for query in [
        "def f: 1 + f; f",
        "def f: [f]; f",
        "def f: f | f; f",
        "def f: {a: f}; f",
        "def f: try (1 + f) catch 0; f",
        "def f: .a | f | .b; null | path(f)",
    ] {
        let result = ask(query).await;
        assert_eq!(result["toolCalls"][0]["outcome"], "failed", "{query}: {result:#}");
        assert!(result["output"].as_str().unwrap().contains("calls itself too deep"), "{query}: {result:#}");
    }
}

#[tokio::test]
async fn the_clock_tells_the_time_of_the_host() {
    let model = Model::obeying().await;
    let service = Service::variant_a().model(&model).tools(["clock"]).start().await;
    let result = service.result_of(&order("current_time", &json!({}))).await;
    let told: Value = serde_json::from_str(result["output"].as_str().unwrap()).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(now.abs_diff(told["unix_seconds"].as_u64().unwrap()) <= PATIENCE.as_secs(), "{told} {now}");
}
