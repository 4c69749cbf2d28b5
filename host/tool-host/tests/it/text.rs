//! Components written as text: a core module in WAT, wrapped for the contract in `wit/`.

use std::path::Path;

use agent_core::result::ToolOutcome;
use serde_json::json;
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

use crate::harness::{Host, limits};

/// A tool in a core module. `call` is the body of a function that returns a pointer to its result; `OK` is the
/// address of one that says `{"ok":true}`.
pub(crate) struct Text<'a> {
    pub(crate) tool: &'a str,
    /// Fields of the module beside what every tool needs.
    pub(crate) fields: &'a str,
    pub(crate) call: &'a str,
}

impl Default for Text<'_> {
    fn default() -> Self {
        Self { tool: "text", fields: "", call: "(i32.const 96)" }
    }
}

impl Text<'_> {
    /// The component. Its strings lie at fixed places: 0 list of definitions, 16 the definition, 96 the result.
    pub(crate) fn component(&self) -> Vec<u8> {
        let (name, description, schema, value) =
            (self.tool, "Written as text.", r#"{\22type\22:\22object\22}"#, r#"{\22ok\22:true}"#);
        let word = |number: usize| -> String {
            u32::try_from(number).unwrap().to_le_bytes().iter().map(|byte| format!("\\{byte:02x}")).collect()
        };
        let words = |numbers: &[usize]| numbers.iter().map(|number| word(*number)).collect::<String>();
        let definitions = words(&[16, 1]);
        let definition = words(&[256, name.len(), 384, description.len(), 512, 17, 0, 0, 0, 0, 0]);
        let result = words(&[0, 640, 11, 0, 0]);
        let (fields, call) = (self.fields, self.call);
        self.wrap(&format!(
            r#"(module
                (memory (export "memory") 1)
                (data (i32.const 0) "{definitions}")
                (data (i32.const 16) "{definition}")
                (data (i32.const 96) "{result}")
                (data (i32.const 256) "{name}")
                (data (i32.const 384) "{description}")
                (data (i32.const 512) "{schema}")
                (data (i32.const 640) "{value}")
                {fields}
                (func (export "agent:tool/tool@0.1.0#describe") (result i32) (i32.const 0))
                (func (export "agent:tool/tool@0.1.0#call") (param i32 i32 i32 i32) (result i32) {call})
                (global $free (mut i32) (i32.const 4096))
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                    (global.get $free)
                    (global.set $free (i32.add (global.get $free)
                        (i32.and (i32.add (local.get 3) (i32.const 15)) (i32.const -16)))))
            )"#
        ))
    }

    fn wrap(&self, module: &str) -> Vec<u8> {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")).unwrap();
        let world = resolve.select_world(&[package], Some("sandboxed-tool")).unwrap();
        let mut module = wat::parse_str(module).unwrap();
        wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
    }
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
    // A result whose string is not UTF-8.
    let fields = r#"(data (i32.const 640) "\ff\fe")"#;
    assert_eq!(outcome_of(Text { fields, ..Text::default() }).await, ToolOutcome::Trapped);
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
