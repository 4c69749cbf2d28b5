//! Runs tools that are WebAssembly components: sandboxed, measured, and swapped while it serves.
//!
//! The only crate that names wasmtime. The rooms stand on each other in this order; none imports from above:
//! - `limits`, `typed`: what a call may use up, functions of other types as tools.
//! - `compiler`, `threads`: compiling in child processes, and where guests run.
//! - `capability`: what a guest may import.
//! - `component`, `folder`: a component that can be called, and the files that components come from.
//! - `rollout`, `runtime`: which versions serve on all replicas (the rules are in the crate `tool-versions`),
//!   and what all components share.
//! - `call`, `load`: one call; from a file to something that can be called.
//! - `serving`, `inventory`: the tool set that runs see, and which files make it.
//! - `host`: all of it together.
//!
//! What does not belong here: which tool a model should call, and what an operator may read.

mod bindings;
mod call;
mod capability;
mod compiler;
mod component;
mod config;
mod error;
mod folder;
mod host;
mod inventory;
mod limits;
mod load;
mod observer;
mod rollout;
mod runtime;
mod serving;
mod temp_file;
#[cfg(feature = "testing")]
pub mod testing;
mod threads;
mod typed;

pub use compiler::compiled::check_compile_cache;
pub use compiler::engine::Allocation;
pub use compiler::precompile::Precompiler;
pub use compiler::{CompileError, CompileJob, Compiler};
pub use config::Config;
pub use error::LoadError;
pub use host::{StartError, ToolHost};
pub use limits::{MOST_COMPONENT_BYTES, ToolLimits};
pub use load::inspect::{ComponentKind, Import, Inspection, Need, NeededGrants, inspect};
pub use mcp_client::{LaunchError, LaunchJob, Launcher};
pub use observer::{CallReport, Cost, NoObserver, Observer, SetReport, ToolListing};
pub use tool_egress::{
    CallKey, ErrorKind, HttpAnswers, HttpMode, HttpOutcome, HttpRecorder, HttpRequestRecord, MOST_BODY_BYTES,
};
pub use tool_grants::{Environment, Learned, NotTrusted, PolicyFile, Standing, standing};
