//! An engine that has every type, and a tool of any type, for tests and `host/fuzz`.

use wasmtime::{Config, Engine};

use super::names::Export;
use super::schema::Schemas;
use super::tool::TypedTool;
use super::wit_type::{Field, WitType};

/// The host's own engine has neither maps nor lists of fixed length yet. What it is to do once it has them is
/// settled with this one.
pub(super) fn engine() -> Option<Engine> {
    let mut config = Config::new();
    config.wasm_component_model_map(true).wasm_component_model_fixed_length_lists(true);
    Engine::new(&config).ok()
}

/// A tool that takes one parameter, `value`, and returns one of the same type.
pub(super) fn identity(ty: WitType) -> TypedTool {
    let schemas = Schemas { docs: None };
    let parameters = vec![Field { name: "value".to_owned(), ty: ty.clone() }];
    TypedTool {
        name: "identity".to_owned(),
        description: String::new(),
        input_schema: schemas.members(&parameters),
        output_schema: schemas.of(&ty),
        export: Export { interface: None, function: "identity".to_owned() },
        parameters,
        result: Some(ty),
    }
}
