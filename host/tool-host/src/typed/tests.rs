//! What several of the tests of typed tools need: components from text, called for real.

mod components;
mod docs;
mod encoding;
mod fixture;
mod generated;
mod refusals;
mod round_trip;
mod schemas;

use serde_json::Value;
use wasmtime::component::{Component, Func, Linker};
use wasmtime::{Engine, Store};

use super::refusal::Refusal;
use super::tool::Failed;
use super::*;

/// A component that can be called.
struct Loaded {
    engine: Engine,
    component: Component,
    tools: Vec<TypedTool>,
}

impl Loaded {
    fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let engine = samples::engine().unwrap();
        let component = Component::new(&engine, bytes).unwrap();
        let tools = read(&component.component_type(), &engine, bytes)?;
        Ok(Self { engine, component, tools })
    }

    fn text(text: &str) -> Result<Self, Refusal> {
        Self::read(&wat::parse_str(text).unwrap())
    }

    fn tool(&self, name: &str) -> &TypedTool {
        self.tools.iter().find(|tool| tool.name == name).unwrap()
    }

    fn call(&self, name: &str, arguments: &Value) -> Result<Result<Value, Failed>, Mismatch> {
        let tool = self.tool(name);
        let parameters = tool.encode(arguments)?;
        let mut store = Store::new(&self.engine, ());
        let instance = Linker::new(&self.engine).instantiate(&mut store, &self.component).unwrap();
        let interface = tool.export.interface.as_ref();
        let interface = interface.map(|name| instance.get_export_index(&mut store, None, name).unwrap());
        let function =
            instance.get_export_index(&mut store, interface.as_ref(), &tool.export.function).unwrap();
        let function: Func = instance.get_func(&mut store, function).unwrap();
        let mut results = tool.results();
        function.call(&mut store, &parameters, &mut results).unwrap();
        tool.decode(&results)
    }
}

fn refusal(text: &str) -> String {
    match Loaded::text(text) {
        Ok(loaded) => panic!("{:?}", loaded.tools),
        Err(refusal) => refusal.to_string(),
    }
}

/// Declares the function `$name` of that type, for components that are read and never called. What is
/// exported has to be lifted from a core function, and one of the right signature comes of lowering an import
/// of the same type.
fn function(name: &str, ty: &str) -> String {
    let options = r#"(memory $memory "memory") (realloc (func $memory "realloc"))"#;
    format!(
        r#"(import "host-{name}" (func $host-{name} {ty}))
            (core func $core-{name} (canon lower (func $host-{name}) {options}))
            (func ${name} {ty} (canon lift (core func $core-{name}) {options}))"#
    )
}

/// What functions are declared after.
const MEMORY: &str = r#"(core module $memories (memory (export "memory") 1)
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable))
    (core instance $memory (instantiate $memories))"#;

fn is_valid(schema: &Value, value: &Value) -> bool {
    jsonschema::draft202012::new(schema).unwrap().is_valid(value)
}
