//! `agent-tool-sdk`: write a tool for agent-host as a plain function over serde types.
//!
//! ```
//! use agent_tool_sdk::Failure;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Name {
//!     /// Whom to greet.
//!     name: String,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Greeting {
//!     greeting: String,
//! }
//!
//! fn greet(Name { name }: Name) -> Result<Greeting, Failure> {
//!     if name.is_empty() {
//!         return Err(Failure::invalid_arguments("`name` is empty: say whom to greet"));
//!     }
//!     Ok(Greeting { greeting: format!("Hello, {name}!") })
//! }
//!
//! agent_tool_sdk::export! {
//!     /// Greets someone by name. Use it when the user asks to be greeted.
//!     greet(Name) -> Greeting, hints: [read_only, idempotent];
//! }
//! # fn main() {}
//! ```
//!
//! Doc comments are what the model reads: the one above the export describes the tool, those on fields
//! describe its arguments and its answer; line breaks within a paragraph are undone. The schemas are derived
//! when the host asks for the description, once at load; a call never touches them.
//!
//! The crate compiles natively too, so that a tool's logic is tested with a plain `cargo test`: there [`log`]
//! writes to standard error, [`clock`] reads the machine's, and [`context`] tells of an unhurried call. Each
//! module of the host's, [`key_value`], `http` and the others, has a `double` that a test fills and asks,
//! each thread its own.

pub mod ask;
#[doc(hidden)]
pub mod bindings;
pub mod clock;
mod component;
pub mod config;
pub mod context;
mod describe;
mod export;
mod failure;
#[cfg(feature = "http")]
pub mod http;
pub mod key_value;
pub mod log;
pub mod progress;
pub mod secrets;
pub mod toolbox;

pub use bindings::exports::agent::tool::tool::{Failure, Output, ToolDef};
pub use component::{Component, NoArguments};
pub use describe::{describe_tool, is_tool_name};
pub use failure::code;

/// The guide for authors: its tool goes on compiling.
#[cfg(doctest)]
#[doc = include_str!("../../../host/docs/tools/tutorial-rust.md")]
struct Tutorial;

/// What the guide says of imports compiles too.
#[cfg(doctest)]
#[doc = include_str!("../../../host/docs/tools/imports.md")]
struct Imports;

/// What the macros of this crate expand to; not for authors.
#[doc(hidden)]
pub mod private {
    pub use crate::component::{run_tool, watch_for_panics};
    pub use crate::describe::join_doc_lines;
    pub use crate::export::refuse_unknown_tool;
}
