//! What both programs begin with: `agent-host`, which serves and operates, and `agent-tool`, with which tools
//! are made.
//!
//! - [`settings`]: what both read of the environment, and what the server's other settings are declared with.
//! - [`program`]: from a command to the exit code of its process. [`output`]: what commands print.
//! - [`children`]: the commands that a tool host starts this very program with.
//! - [`tools`]: a tool host over the tools folder. [`component_file`]: a component's file and the signature
//!   beside it.
//! - [`stores`]: what runs and tools keep, opened. [`http_exchange`]: HTTP of tools, as a store keeps it.
//! - [`advice`]: what the author of a tool can do about a call that ended badly.
//!
//! What does not belong here: commands, and whatever only one of the two programs does.

pub mod advice;
pub mod children;
pub mod component_file;
pub mod http_exchange;
pub mod output;
pub mod program;
pub mod settings;
pub mod stores;
pub mod tools;
