//! The tools as an MCP server (Model Context Protocol): the protocol's side, whatever carries its messages.
//! `http-edge` carries them over HTTP (`/mcp`), `agent-host mcp` over the standard input and output.
//!
//! The protocol itself is the official SDK's (`rmcp`), in every version that it knows from 2025-03-26 on:
//! those with the `initialize` handshake and those in which each request stands for itself.
//!
//! - `server`: one client's server: whose tools it lists and calls.
//! - `listing`: tools and answers as the protocol has them.
//! - `progress`: what tools report while they run.
//! - `waiting`: calls that wait for somebody. `forms`: what their users are asked. `request_state`: what
//!   clients carry meanwhile.
//! - `under_way`: calls that a later message may cancel.

mod forms;
mod listing;
mod progress;
mod request_state;
mod server;
#[cfg(feature = "testing")]
pub mod testing;
mod under_way;
mod waiting;

pub use request_state::{PURPOSE, RequestStates};
pub use server::McpServer;
pub use server::SUPPORTED;
pub use under_way::{CallId, CallsUnderWay};
