//! What the users of agent-host see, one file per promise: the real binary over a real socket, with the real
//! components, against a provider that plays a script.
//!
//! Run with `cargo xtask test`, or, after `cargo build -p agent-host -p agent-tool` and `cargo xtask guests`,
//! with `cargo nextest run -p acceptance`.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod architecture;
mod bad_days;
mod bad_input;
mod bulkheads;
mod bull_board;
mod bullmq;
mod bullmq_features;
mod chat;
mod code_mode;
mod command_line;
mod console;
mod deployment;
mod doctor;
mod documentation;
mod documents;
mod edge;
mod evidence;
mod first_start;
mod granted_tools;
mod harness;
mod health;
mod invoke;
mod log;
mod log_form;
mod log_reader;
mod mcp;
mod metrics;
mod misbehaving;
mod node_peer;
mod openai_clients;
mod openapi_clients;
mod packages;
mod provider;
mod replay;
mod retention;
mod shipped_tools;
mod shutdown;
mod shutdown_streams;
mod startup;
mod streams;
mod tool_projects;
mod tool_testing;
mod tools_approval;
mod tools_command;
mod tools_compiler;
mod tools_folder;
mod tools_registry;
mod traces;
mod traces_of_jobs;
mod variant_b;
