//! What is promised of bytes of strangers before anything of them runs, for `host/fuzz`: functions that panic
//! when it is broken.

use std::time::{Duration, Instant};

use json_schema::{Fuel, SchemaBudget};
use tool_grants::PolicyFile;

pub use crate::typed::testing::{encode_arguments, read_types};
pub use mcp_client::testing::{list_tools, read_output, take_in_messages};

use crate::bindings::exports::agent::tool::tool::ToolDef;
use crate::component::definition::Definition;
use crate::load::{contract, inspect as inspection};

/// Longest refusal of a component, in bytes: it goes to logs and answers.
const REFUSAL_BYTES: usize = 4_096;

/// A tool as its component describes it, and arguments of a call, which are its output as well.
#[derive(Debug)]
pub struct Described<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub input_schema: &'a str,
    pub output_schema: Option<&'a str>,
    pub hints: Vec<(String, String)>,
    pub arguments: &'a str,
}

/// What a file says of itself: whatever it is, it is read or refused in few words, and twice alike.
///
/// # Panics
/// When it is not.
pub fn inspect(bytes: &[u8]) {
    let read = contract::inspect(bytes).map_err(|error| error.to_string());
    if let Err(refusal) = &read {
        assert!(refusal.len() <= REFUSAL_BYTES, "a refusal of {} bytes", refusal.len());
    }
    let shown = inspection::inspect("fuzz", bytes, Some(&[7; 64]), &PolicyFile::None);
    assert_eq!(shown.refusal, read.err(), "authors are told what the service says");
}

/// A tool is taken or refused; what it is called with is held against what it said.
///
/// # Panics
/// When a refusal is too long, or what the model is told hides something.
pub fn define(described: Described<'_>) {
    let owned = ToolDef {
        name: described.name.to_owned(),
        description: described.description.to_owned(),
        input_schema: described.input_schema.to_owned(),
        output_schema: described.output_schema.map(str::to_owned),
        hints: described.hints,
    };
    let deadline = Instant::now() + Duration::from_mins(10);
    match Definition::new(owned, &mut SchemaBudget::until(deadline)) {
        Ok(definition) => {
            let shown = format!("{} {}", definition.spec.description, definition.spec.input_schema);
            assert!(!shown.chars().any(json_schema::text_sanitizer::is_smuggled), "{shown:?}");
            drop(definition.check_arguments_text(described.arguments, &mut Fuel::inline()));
            drop(definition.check_output(described.arguments, &mut Fuel::inline()));
        }
        Err(refusal) => {
            let refusal = refusal.to_string();
            assert!(refusal.len() <= REFUSAL_BYTES, "a refusal of {} bytes", refusal.len());
        }
    }
}
