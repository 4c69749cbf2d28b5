//! Variant B as its users see it: who may ask, how often, what is a question, and what becomes of it.
//! How it compares with the Node deployment stands in `node_peer/`, how it shares a queue in `bullmq.rs`.

mod cache;
mod cache_commands;
mod cache_stores;
mod failures;
mod gateway;
mod health;
mod idempotency;
mod job_commands;
mod job_list;
mod jobs;
mod lambda;
mod limits;
mod limits_redis;
mod serverless;
mod single_flight;
mod startup;
mod store_settings;
mod token_command;
mod tokens;
mod validation;
mod variants;
mod webhooks;
