//! The stores against what their ports promise. `contract/` has one suite per port, which knows no store;
//! the files beside it run the suites against real stores and add what holds for one store alone.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod backlog;
mod bullmq;
mod bullmq_commands;
mod bullmq_stalled;
mod contract;
mod memory;
mod mongo;
mod pooler;
mod redis;
mod redis_cluster;
mod redis_key_values;
mod redis_retention;
mod redis_sentinel;
mod sql;
mod sql_clock;
mod sql_commits;
mod sql_connections;
mod sql_key_values;
mod sql_partitions;
mod sql_queue;
mod sql_retention;
mod sql_setup;
mod sql_tool_versions;
mod store_checks;
mod valkey;
