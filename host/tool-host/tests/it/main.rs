//! The tool host against components: written as text, and the misbehaving one that `cargo xtask guests`
//! builds.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod approved;
mod author_mistakes;
mod bulkheads;
mod compiler;
mod fleet;
mod folder;
mod granted;
mod granted_means;
mod harness;
mod host_work;
mod learning;
mod mcp_client;
mod nested;
mod restart;
mod sandbox;
mod sent;
mod text;
mod trials;
mod typed;
mod versions;
mod wasi;
mod withdrawn;
