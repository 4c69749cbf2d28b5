//! The mistakes that authors of tools make, each with what it is answered: the message names the mend. Those
//! that a file, a description or a schema shows by itself are beside `contract.rs`, `definition.rs` and in
//! `json-schema`.

use serde_json::{Value, json};
use tool_host::{PolicyFile, ToolLimits};

use crate::harness::{Host, WithPolicy, built, entry, limits, misbehaving};
use crate::text::Text;

/// What is said of a file of these bytes, without its name.
async fn refused(bytes: &[u8]) -> String {
    let host = Host::start(&[("mine.wasm", bytes)], limits()).await;
    let faults = host.faults();
    let [fault] = faults.as_slice() else { panic!("{faults:?}") };
    // Offsets and addresses are of no interest.
    let fault = fault.replace("mine.wasm: ", "");
    match fault.split_once(" (at offset") {
        Some((start, rest)) => format!("{start}{}", rest.split_once(')').map_or("", |(_, rest)| rest)),
        None => fault,
    }
}

async fn refused_text(text: Text<'_>) -> String {
    refused(&text.component()).await
}

fn component(wat: &str) -> Vec<u8> {
    wat::parse_str(wat).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_grant_and_has_none() {
    let fetcher = built("tools-granted", "http-fetch");
    insta::assert_snapshot!(refused(&fetcher).await, @"imports wasi:http, and the policy (TOOLS_POLICY) grants it no requests: the log has the lines to write. If it needs none, build it without: in JavaScript `jco componentize --disable http --disable fetch-event`, or disableFeatures: ['http', 'fetch-event'] with componentize-js");
    let lines = tool_host::inspect("mine", &fetcher, None, &PolicyFile::None).lines.unwrap();
    let digest = tool_host::inspect("mine", &fetcher, None, &PolicyFile::None).digest;
    insta::assert_snapshot!(lines.replace(&digest, "sha256:…"), @r#"
    # Fill in the host that it is to reach, and narrow port, methods and path.
    [[component]]
    name = "mine"
    digest = "sha256:…"
    [[component.http]]
    scheme = "https"
    host = "host.example"
    "#);
    insta::assert_snapshot!(refused(&misbehaving("keeps-values")).await, @"imports agent:tool/key-value, and the policy (TOOLS_POLICY) does not grant it a place to keep values: the log has the lines to write");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_tools_that_cannot_be_served() {
    insta::assert_snapshot!(refused(&misbehaving("describe-nothing")).await, @"describes tools that cannot be served: it describes no tool: return at least one (in Rust, list the functions in agent_tool_sdk::export!)");
    insta::assert_snapshot!(refused(&misbehaving("describe-duplicates")).await, @r#"describes its tool "twin" wrongly: it describes two tools of that name: rename one of them"#);
    insta::assert_snapshot!(refused_text(Text { tool: "Add", ..Text::default() }).await, @r#"describes its tool "Add" wrongly: its name must be a letter a-z and then up to 62 of a-z, 0-9 and '_': take "add""#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_none() {
    let of = async |input_schema: &str| refused_text(Text { input_schema, ..Text::default() }).await;
    insta::assert_snapshot!(of(r#"{"type":"object","properties":{"a":{"type":"strnig"}}}"#).await, @r#"describes its tool "text" wrongly: its input schema is not a JSON Schema: /properties/a/type is "strnig", not one of "null", "boolean", "integer", "number", "string", "array" and "object"; did you mean "string"?"#);
    let many = (0..1100).map(|n| format!(r#""a{n}":{{}}"#)).collect::<Vec<_>>().join(",");
    insta::assert_snapshot!(of(&format!(r#"{{"type":"object","properties":{{{many}}}}}"#)).await, @r#"describes its tool "text" wrongly: its input schema has more than 1000 parts: leave out what the tool can check by itself"#);
    insta::assert_snapshot!(of(r#"{"type":"object","properties":{"a":{"pattern":"(?=a)b"}}}"#).await, @r#"describes its tool "text" wrongly: its input schema is not a JSON Schema: /properties/a/pattern "(?=a)b" is not a regex that can be matched in linear time: look-around and references back are not supported; check that in the tool"#);
    insta::assert_snapshot!(of(r#"{"type":"object","properties":{"a":{"$ref":"https://example.org/"}}}"#).await, @r#"describes its tool "text" wrongly: its input schema refers to "https://example.org/", which is not a part of it: put that below its $defs"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_that_means_nothing() {
    let hints = [("read_only", "true"), ("idempotent", "yes")];
    let text = Text { hints: &hints, ..Text::default() };
    let host = Host::start(&[("mine.wasm", &text.component())], limits()).await;
    insta::assert_snapshot!(host.host.list()[0].oddities.join("\n"), @r#"
    the hint "read_only" means nothing to this host; did you mean "read-only"?
    the hint "idempotent" is "yes"; it should be "true" or "false"
    "#);
    insta::assert_snapshot!(refused_text(Text { hints: &[("timeout-ms", "soon")], ..Text::default() }).await, @r#"describes its tool "text" wrongly: its hint timeout-ms is not a whole number above 0: write milliseconds, such as 5000"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_describe_that_does_not_return() {
    let trapped = refused(&misbehaving("describe-traps")).await;
    let (_, remedy) = trapped.split_once("; ").unwrap();
    assert!(
        trapped.starts_with("fails in its describe function: ") && trapped.contains("unreachable"),
        "{trapped}"
    );
    insta::assert_snapshot!(remedy, @"it is called once, when the component is loaded, and must return its tools without help (what it logged stands in the log)");
    insta::assert_snapshot!(refused(&misbehaving("describe-loops")).await, @"fails in its describe function: it did not return within 2000 ms: leave work to the call; it is called once, when the component is loaded, and must return its tools without help (what it logged stands in the log)");
}

const OTHER_TYPES: &str = r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
    (func $f (canon lift (core func $i "f")))
    (instance $t (export "describe" (func $f)) (export "call" (func $f)))
    (export "agent:tool/tool@0.1.1" (instance $t)))"#;

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_the_contract_with_other_types() {
    let said = refused(&component(OTHER_TYPES)).await;
    assert!(
        said.starts_with("exports agent:tool/tool with other functions than the contract has: "),
        "{said}"
    );
    assert!(said.ends_with("build it against wit/tool.wit as it is, and give `describe` and `call` the parameters and results that stand there"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_sockets_of_another_kind_than_those_of_wasi() {
    for import in ["wasi:filesystem/types@0.2.3", "wasi:sockets/tcp@0.2.3"] {
        let text = format!(
            r#"(component (import "{import}" (instance (export "handle" (type (sub resource)))))
                (instance $i) (export "agent:tool/tool@0.1.1" (instance $i)))"#
        );
        let said = refused(&component(&text)).await;
        assert!(said.starts_with("does not fit this host: ") && said.contains(import), "{said}");
        assert!(said.ends_with("; tools have no files and no sockets, only WASI 0.2's interfaces of them, closed: build it without, send requests with wasi:http, keep values with agent:tool/key-value"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_text() {
    let text = Text { fields: r#"(data (i32.const 640) "\ff\fe")"#, ..Text::default() };
    let host = Host::start(&[("text.wasm", &text.component())], limits()).await;
    insta::assert_snapshot!(called(&host, "text", json!({})).await, @r#"
    invalid_output: Error: the tool returned something that does not match its own description.
    its answer is no UTF-8 text (invalid utf-8 sequence of 1 bytes from index 0): write bytes as base64, and texts as UTF-8
    "#);
}

/// What the model and the operator are told of a call.
async fn called(host: &Host, tool: &str, arguments: Value) -> String {
    let returned = host.call(tool, arguments).await;
    let detail = returned.receipt.detail.unwrap_or_default();
    // A backtrace has addresses.
    let cause = detail.cause.unwrap_or_default();
    let cause = cause.split(": error while executing").next().unwrap_or_default();
    format!("{}: {}\n{cause}", returned.receipt.outcome.as_str(), returned.content)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_ends_badly() {
    let limits = ToolLimits { memory_bytes: 16 << 20, output_bytes: 64 << 10, ..limits() };
    let host = Host::start(&[("misbehaving.wasm", &misbehaving("misbehaving"))], limits).await;
    assert_eq!(host.faults(), Vec::<String>::new());
    insta::assert_snapshot!(called(&host, "return_wrong_shape", json!({})).await, @r#"
    invalid_output: Error: the tool returned something that does not match its own description.
    /calls: "one" is not of type "integer": return what its output schema says, or write into the schema what it returns
    "#);
    insta::assert_snapshot!(called(&host, "return_bad_json", json!({})).await, @r#"
    invalid_output: Error: the tool returned something that does not match its own description.
    not JSON: EOF while parsing an object at line 1 column 11: return one JSON value, as a serializer writes it; a text is one in quotes
    "#);
    insta::assert_snapshot!(called(&host, "return_100_mb", json!({"mb": 1})).await, @"output_limit: Error: the tool returned more than 65536 bytes. Ask it for less.");
    insta::assert_snapshot!(called(&host, "trap", json!({"by": "panic"})).await, @r#"
    trapped: Error: the tool crashed.
    it panicked or aborted, and what it printed stands in the log: have it return a failure instead; wasm trap: wasm `unreachable` instruction executed
    "#);
    insta::assert_snapshot!(called(&host, "allocate_forever", json!({})).await, @r#"
    memory_limit: Error: the tool needed more memory than it may have (16 MiB) and was stopped.
    wasm trap: wasm `unreachable` instruction executed
    "#);
    insta::assert_snapshot!(called(&host, "loop_forever", json!({})).await, @"timed_out: Error: the tool did not finish within 400 ms and was stopped.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_not_there() {
    let asking = Text {
        imports: r#"(import "agent:tool/secrets@0.1.1" "exists" (func $exists (param i32 i32) (result i32)))"#,
        fields: r#"(data (i32.const 2048) "api-key")"#,
        call: "(drop (call $exists (i32.const 2048) (i32.const 7))) (i32.const 96)",
        ..Text::default()
    };
    let asking = asking.component();
    let entry = entry("mine", &asking, "[[component.http]]\nhost = \"example.org\"");
    let start = async |policy: &str, learn: bool| {
        WithPolicy::start_with(&[("mine.wasm", &asking)], policy, |config| config.learn = learn).await
    };
    // The component asks for a secret that the policy does not name.
    let learning = start(&entry, true).await;
    learning.host.call("text", json!({})).await;
    let lines = learning.host.host.learned("text").unwrap().lines;
    let asked: Vec<_> = lines.lines().filter(|line| line.contains("secret")).collect();
    insta::assert_snapshot!(asked.join("\n"), @r#"# It asked whether there is a secret "api-key": a [[component.secret]] of that name"#);
    // The policy names one that nobody has set.
    let secret = "[[component.secret]]\nname = \"api-key\"\nenv = \"UNSET\"\nheader = \"Authorization\"\nhosts = [\"example.org\"]\n";
    insta::assert_snapshot!(start(&(entry + secret), false).await.host.faults().join("\n"), @"mine.wasm: cannot have the secrets that the policy gives it: set what their lines read (env or file); the log says which and why");
}
