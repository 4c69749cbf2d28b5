//! Twenty and more typical mistakes of authors, each with a phrase of the mend that it is answered with. What
//! else is said stands in `author_mistakes.rs` and beside the code.

use serde_json::json;
use tool_host::ToolLimits;

use crate::author_mistakes::{OTHER_TYPES, called, component, refused, refused_text};
use crate::harness::{Host, built, limits, misbehaving};
use crate::text::Text;

/// A file, by its bytes, and what mends it.
fn files() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let good = Text::default().component();
    let imports = |name: &str| {
        component(&format!(
            r#"(component (import "{name}" (instance (export "handle" (type (sub resource)))))
                (instance $i) (export "agent:tool/tool@0.1.1" (instance $i)))"#
        ))
    };
    let exports = |version: &str| {
        component(&format!(r#"(component (instance $i) (export "agent:tool/tool@{version}" (instance $i)))"#))
    };
    let sockets = "send requests with wasi:http, keep values with agent:tool/key-value";
    vec![
        ("a core module", component("(module)"), "wrap it with `wasm-tools component new`"),
        ("a native library", b"\x7fELF\x02\x01\x01".to_vec(), "build for a WebAssembly target"),
        ("an error page", b"<!DOCTYPE html><html>404".to_vec(), "then download the component again"),
        ("half a file", good[..good.len() / 2].to_vec(), "write the file aside and rename it"),
        ("another contract", exports("0.9.0"), "rebuild it against one of those"),
        ("an import nobody has", imports("acme:things/store@1.0.0"), "build it without"),
        ("no export", component("(component)"), "build it for a world of wit/tool.wit"),
        ("sockets", imports("wasi:sockets/tcp@0.2.3"), sockets),
        ("files", imports("wasi:filesystem/types@0.2.3"), sockets),
        ("`call` of other types", component(OTHER_TYPES), "give `describe` and `call` the parameters"),
        ("HTTP without a grant", built("tools-granted", "http-fetch"), "the log has the lines to write"),
        ("no tool", misbehaving("describe-nothing"), "list the functions in agent_tool_sdk::export!"),
        ("two tools of a name", misbehaving("describe-duplicates"), "rename one of them"),
        ("a trap in `describe`", misbehaving("describe-traps"), "must return its tools without help"),
        ("a loop in `describe`", misbehaving("describe-loops"), "leave work to the call"),
    ]
}

/// A description, and what mends it.
fn descriptions() -> Vec<(&'static str, Text<'static>, &'static str)> {
    let schema = |input_schema| Text { input_schema, ..Text::default() };
    vec![
        ("a capital in a name", Text { tool: "Add", ..Text::default() }, "take \"add\""),
        (
            "no description",
            Text { description: " ", ..Text::default() },
            "say what it does and when to use it",
        ),
        ("a schema of a text", schema(r#"{"type":"string"}"#), r#"write {"type": "object", "properties""#),
        (
            "a misspelled type",
            schema(r#"{"type":"object","properties":{"a":{"type":"strnig"}}}"#),
            "did you mean \"string\"?",
        ),
        (
            "a pattern that is none",
            schema(r#"{"type":"object","properties":{"a":{"pattern":"("}}}"#),
            "try it in a browser",
        ),
        (
            "a schema elsewhere",
            schema(r#"{"type":"object","properties":{"a":{"$ref":"https://example.org/"}}}"#),
            "put that below its $defs",
        ),
        (
            "a time that is none",
            Text { hints: &[("timeout-ms", "soon")], ..Text::default() },
            "write milliseconds, such as 5000",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_file_that_is_refused_names_its_mend() {
    for (mistake, bytes, mend) in files() {
        let said = refused(&bytes).await;
        assert!(said.contains(mend), "{mistake}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_description_that_is_refused_names_its_mend() {
    for (mistake, text, mend) in descriptions() {
        let said = refused_text(text).await;
        assert!(said.contains(mend), "{mistake}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_that_is_none_names_its_mend() {
    let limits = ToolLimits { memory_bytes: 16 << 20, output_bytes: 64 << 10, ..limits() };
    let bytes = Text { fields: r#"(data (i32.const 640) "\ff\fe")"#, ..Text::default() }.component();
    let misbehaving = misbehaving("misbehaving");
    let host = Host::start(&[("text.wasm", &bytes), ("misbehaving.wasm", &misbehaving)], limits).await;
    for (mistake, tool, arguments, mend) in [
        ("bytes for a text", "text", json!({}), "write bytes as base64, and texts as UTF-8"),
        ("another shape", "return_wrong_shape", json!({}), "return what its output schema says"),
        ("no JSON", "return_bad_json", json!({}), "return one JSON value"),
        ("a panic", "trap", json!({"by": "panic"}), "have it return a failure instead"),
        ("too much", "return_100_mb", json!({"mb": 1}), "Ask it for less"),
    ] {
        let said = called(&host, tool, arguments).await;
        assert!(said.contains(mend), "{mistake}: {said}");
    }
}
