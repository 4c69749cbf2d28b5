//! The stores against what their ports promise. `contract/` has one suite per port, which knows no store;
//! the files beside it run the suites against real stores and add what holds for one store alone.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod bullmq;
mod contract;
mod memory;
mod mongo;
mod redis;
mod redis_key_values;
mod sql;
mod sql_commits;
mod sql_key_values;
mod sql_queue;
mod sql_setup;
