//! Variant B as its users see it, where only a process with its settings, stores and signals shows it. The
//! tables of tokens, bodies, windows and errors are tested in `host/http-edge`, and beside the Node
//! deployment in `node_peer/`; how a queue is shared with Node stands in `bullmq.rs`, what kills cost in
//! `bad_days/`.

mod cache_commands;
mod cache_stores;
mod gateway;
mod job_commands;
mod jobs;
mod lambda;
mod limits;
mod store_settings;
mod token_command;
mod tokens;
mod variants;
mod wait_tools;
mod webhooks;
