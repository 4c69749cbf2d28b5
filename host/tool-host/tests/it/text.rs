//! Components written as text: a core module in WAT, wrapped for the contract in `wit/`.

use std::path::Path;

use agent_core::words::ToolOutcome;
use serde_json::json;
use tool_host::ToolLimits;
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

use crate::harness::{Host, limits};

/// A tool in a core module. `call` is the body of a function that returns a pointer to its result; 96 is the
/// address of one that says `value`.
pub(crate) struct Text<'a> {
    pub(crate) tool: &'a str,
    pub(crate) description: &'a str,
    pub(crate) input_schema: &'a str,
    pub(crate) output_schema: Option<&'a str>,
    pub(crate) hints: &'a [(&'a str, &'a str)],
    /// What a successful call returns.
    pub(crate) value: &'a str,
    /// Imports of the module.
    pub(crate) imports: &'a str,
    /// Fields of the module beside what every tool needs.
    pub(crate) fields: &'a str,
    pub(crate) call: &'a str,
    /// The body of `describe`, which returns the address of the list of definitions.
    pub(crate) describe: &'a str,
    /// WIT packages beside the contract, and the world that is built for.
    pub(crate) packages: &'a [&'a str],
    pub(crate) world: &'a str,
}

impl Default for Text<'_> {
    fn default() -> Self {
        Self {
            tool: "text",
            description: "Written as text.",
            input_schema: r#"{"type":"object"}"#,
            output_schema: None,
            hints: &[],
            value: r#"{"ok":true}"#,
            imports: "",
            fields: "",
            call: "(i32.const 96)",
            describe: "(i32.const 0)",
            packages: &[],
            world: "sandboxed-tool",
        }
    }
}

/// What lies where in a module's memory.
struct Layout {
    data: String,
    end: usize,
}

impl Layout {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let escaped: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
        self.data.push_str(&format!("(data (i32.const {at}) \"{escaped}\")\n"));
    }

    fn words(&mut self, at: usize, words: &[usize]) {
        let bytes = words.iter().flat_map(|word| u32::try_from(*word).unwrap().to_le_bytes());
        self.put(at, &bytes.collect::<Vec<_>>());
    }

    /// A string at its usual place if there is room for it, else behind everything.
    fn text(&mut self, usual: Option<(usize, usize)>, text: &str) -> [usize; 2] {
        let at = match usual {
            Some((at, room)) if text.len() <= room => at,
            _ => self.end,
        };
        self.end = self.end.max((at + text.len()).next_multiple_of(16));
        self.put(at, text.as_bytes());
        [at, text.len()]
    }
}

impl Text<'_> {
    /// The component. What every tool has lies at fixed places: 0 list of definitions, 16 the definition, 96
    /// the result, 640 a short value.
    pub(crate) fn component(&self) -> Vec<u8> {
        let mut layout = Layout { data: String::new(), end: 4096 };
        let [name, name_bytes] = layout.text(Some((256, 64)), self.tool);
        let [description, description_bytes] = layout.text(Some((384, 128)), self.description);
        let [input, input_bytes] = layout.text(Some((512, 128)), self.input_schema);
        let [output, output_bytes] = self.output_schema.map_or([0, 0], |schema| layout.text(None, schema));
        let mut hints = vec![];
        for (key, value) in self.hints {
            hints.extend(layout.text(None, key));
            hints.extend(layout.text(None, value));
        }
        layout.words(1024, &hints);
        layout.words(0, &[16, 1]);
        let has_output = usize::from(self.output_schema.is_some());
        let strings = [name, name_bytes, description, description_bytes, input, input_bytes];
        layout.words(16, &strings);
        layout.words(40, &[has_output, output, output_bytes, 1024, self.hints.len()]);
        let [value, value_bytes] = layout.text(Some((640, 384)), self.value);
        layout.words(96, &[0, value, value_bytes, 0, 0]);
        let Layout { data, end } = layout;
        let pages = (end + (32 << 10)).div_ceil(64 << 10);
        let (imports, fields, call, describe) = (self.imports, self.fields, self.call, self.describe);
        self.wrap(&format!(
            r#"(module
                {imports}
                (memory (export "memory") {pages})
                {data}
                {fields}
                (func (export "agent:tool/tool@0.1.1#describe") (result i32) {describe})
                (func (export "agent:tool/tool@0.1.1#call") (param i32 i32 i32 i32) (result i32) {call})
                (global $free (mut i32) (i32.const {end}))
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                    (global.get $free)
                    (global.set $free (i32.add (global.get $free)
                        (i32.and (i32.add (local.get 3) (i32.const 15)) (i32.const -16)))))
            )"#
        ))
    }

    fn wrap(&self, module: &str) -> Vec<u8> {
        let mut resolve = Resolve::default();
        let (mut package, _) =
            resolve.push_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")).unwrap();
        for (number, text) in self.packages.iter().enumerate() {
            package = resolve.push_str(format!("{number}.wit"), text).unwrap();
        }
        let world = resolve.select_world(&[package], Some(self.world)).unwrap();
        let mut module = wat::parse_str(module).unwrap();
        wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
    }
}

/// A component with one tool of that name. `version` makes its bytes, and so its digest, its own.
pub(crate) fn versioned(name: &str, version: u32) -> Vec<u8> {
    Text { tool: name, fields: &format!("(global i32 (i32.const {version}))"), ..Text::default() }.component()
}

async fn outcome_of(text: Text<'_>) -> ToolOutcome {
    let host = Host::start(&[("text.wasm", &text.component())], limits()).await;
    assert_eq!(host.faults(), Vec::<String>::new());
    host.call("text", json!({})).await.receipt.outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smallest_tool_answers() {
    let host = Host::start(&[("text.wasm", &Text::default().component())], limits()).await;
    assert_eq!(host.faults(), Vec::<String>::new());
    let returned = host.call("text", json!({})).await;
    assert_eq!(returned.content, r#"{"ok":true}"#);
    assert_eq!(host.last_cost().peak_memory_bytes, 64 << 10, "one page");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_limited_over_all_memories_together() {
    // Each memory alone would fit into the limit of 64 MiB, which is 1024 pages.
    let two = |second: u32| {
        format!(
            r"(memory $second 0)
              (func $take (if (i32.eq (memory.grow $second (i32.const {second})) (i32.const -1)) (then unreachable)))"
        )
    };
    let call = "(call $take) (i32.const 96)";
    let fits = two(1023);
    assert_eq!(outcome_of(Text { fields: &fits, call, ..Text::default() }).await, ToolOutcome::Ok);
    let too_much = two(1024);
    let outcome = outcome_of(Text { fields: &too_much, call, ..Text::default() }).await;
    assert_eq!(outcome, ToolOutcome::MemoryLimit);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_limited() {
    let fields = "(table $t 0 funcref)";
    let call = "(drop (table.grow $t (ref.null func) (i32.const 200000))) unreachable";
    let outcome = outcome_of(Text { fields, call, ..Text::default() }).await;
    assert_eq!(outcome, ToolOutcome::MemoryLimit);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_may_be_as_large_with_a_pool_as_without() {
    let fields = "(table $t 90000 funcref)";
    let component = Text { fields, ..Text::default() }.component();
    for concurrency in [16, 1 << 20] {
        let limits = ToolLimits { concurrency, ..limits() };
        let host = Host::start(&[("text.wasm", &component)], limits).await;
        assert_eq!(host.faults(), Vec::<String>::new(), "{:?}", host.host.allocation());
        assert_eq!(host.call("text", json!({})).await.receipt.outcome, ToolOutcome::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_a_refusal_that_was_borne_is_a_crash() {
    let imports = r#"(import "agent:tool/clock@0.1.1" "now-ms" (func $now (result i64)))"#;
    let call = "(drop (memory.grow (i32.const 2000))) (drop (call $now)) unreachable";
    assert_eq!(outcome_of(Text { imports, call, ..Text::default() }).await, ToolOutcome::Trapped);
    let call = "(drop (memory.grow (i32.const 2000))) unreachable";
    assert_eq!(outcome_of(Text { call, ..Text::default() }).await, ToolOutcome::MemoryLimit);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_line_of_megabytes_is_not_said_to_be_an_output_of_megabytes() {
    let imports = r#"(import "agent:tool/log@0.1.1" "write" (func $write (param i32 i32 i32 i32 i32 i32)))"#;
    let call = "(drop (memory.grow (i32.const 40)))
        (call $write (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 2000000) (i32.const 0) (i32.const 0))
        (i32.const 96)";
    assert_eq!(outcome_of(Text { imports, call, ..Text::default() }).await, ToolOutcome::Trapped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_starts_with_too_much_memory_is_refused_or_stopped() {
    let fields = "(memory $huge 2000)";
    let host = Host::start(&[("text.wasm", &Text { fields, ..Text::default() }.component())], limits()).await;
    assert_eq!(host.names(), Vec::<String>::new());
    assert_eq!(host.faults().len(), 1, "{:?}", host.faults());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_lies_outside_of_memory_is_the_tools_fault() {
    let outcome = outcome_of(Text { call: "(i32.const 0x7fffff00)", ..Text::default() }).await;
    assert_eq!(outcome, ToolOutcome::Trapped);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_gets_a_fresh_instance() {
    // Traps when the instance was called before.
    let fields = "(global $calls (mut i32) (i32.const 0))";
    let call = "(if (global.get $calls) (then unreachable))
        (global.set $calls (i32.const 1)) (i32.const 96)";
    let host =
        Host::start(&[("text.wasm", &Text { fields, call, ..Text::default() }.component())], limits()).await;
    for _ in 0..20 {
        assert_eq!(host.call("text", json!({})).await.receipt.outcome, ToolOutcome::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fuel_is_counted_when_metering_is_on() {
    let component = Text::default().component();
    let host =
        Host::start_with(&[("text.wasm", &component)], limits(), |config| config.metering = true).await;
    host.call("text", json!({})).await;
    let fuel = host.last_cost().fuel.expect("fuel was counted");
    assert!((1..10_000).contains(&fuel), "{fuel}");
    let unmetered = Host::start(&[("text.wasm", &component)], limits()).await;
    unmetered.call("text", json!({})).await;
    assert_eq!(unmetered.last_cost().fuel, None);
}
