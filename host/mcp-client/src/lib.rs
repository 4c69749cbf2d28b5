//! Servers of the Model Context Protocol whose tools are served: `[[mcp]]` in the policy.
//!
//! A server is a component whose bytes are its list of tools (`tool_list`): that list has a digest, is
//! proposed, approved, kept and rolled back as any version is, and everything around a call (arguments,
//! permits, deadline, receipt) is that of components. What is here is the rest: asking for the list and
//! making the call.
//!
//! In reading order: `servers` are those of the policy in force, `server` is one of them with its idle
//! connections, `hosting` what the host has for them, `connection` a handshake and a request over either
//! transport, with `http` (and `farewell`) and `child` (and `child_output`, `child_limits`) in its folder,
//! `message` is JSON-RPC, `progress` what is reported meanwhile, `answer` what a call returned, `error` what
//! can go wrong.
//!
//! What holds for every exchange:
//! - One call has a connection to itself. One that did not end well is closed: a child process is killed with
//!   its call, a server over HTTP is told that call and session are over.
//! - Every message is bounded, and so is what a server says beside its answer. Waits end with the deadline of
//!   whoever asked, who drops the future.
//! - A server gets nothing that it asks for: no sampling, no elicitation, no roots.
//! - Requests over HTTP go the way of components' requests (`tool-egress`), under a grant of one address.
//!
//! The official SDK is not used here: its client moves each connection into a task of its own, which outlives
//! the call, and its HTTP does not go through `tool-egress`. What does not belong here: components, catalogs
//! and versions.

mod answer;
mod connection;
mod error;
mod hosting;
mod message;
mod progress;
mod server;
mod servers;
#[cfg(feature = "testing")]
pub mod testing;
mod tool_list;

pub use answer::McpAnswer;
pub use connection::Means;
pub use connection::child_limits::{LaunchError, LaunchJob, Launcher};
pub use connection::farewell::Farewells;
pub use error::{LookError, McpError};
pub use hosting::Hosting;
pub use server::Server;
pub use servers::McpServers;
pub use tool_list::{RemoteTool, ToolList};
