//! Real servers for tests: each a process of our own, on a free port of the loopback, with its data in a
//! temporary folder, gone when its guard is dropped. One that is not installed is a failure that says what to
//! install; `cargo xtask test` installs what is missing.
//!
//! - [`Postgres`], [`Redis`], [`Mongo`]: each a [`Server`], which can be stopped and brought back with its
//!   data, and frozen.
//! - [`Sentinels`], [`RedisCluster`]: more than one Redis.
//! - [`Monitor`]: which commands clients send to Redis, and what scripts do there.
//! - [`PgBouncer`]: before a PostgreSQL server.
//! - [`Registry`]: for OCI artifacts; it can be stopped and brought back.
//! - [`HttpServer`]: an HTTP/1.1 server that answers what a test says.
//! - [`Proxy`]: the network between the host and a store, which can fail in more ways than a server.
//! - [`provider_rules`]: what model providers refuse, for tests that play one.
//! - [`eventually`], [`within`], [`Task`]: waiting for something to happen, and not for ever.
//!
//! What does not belong here: anything of agent-host.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so does what it is written with"
)]

mod address;
mod child;
mod cluster;
mod command;
mod http;
mod mongo;
mod monitor;
mod pgbouncer;
mod postgres;
pub mod provider_rules;
mod proxy;
mod redis;
mod registry;
mod sentinels;
mod server;
mod waiting;

pub use cluster::RedisCluster;
pub use http::{HttpConnection, HttpRequest, HttpServer};
pub use mongo::Mongo;
pub use monitor::{Commands, Monitor};
pub use pgbouncer::{PgBouncer, PgBouncerProgram};
pub use postgres::Postgres;
pub use proxy::Proxy;
pub use redis::Redis;
pub use registry::{REGISTRY_LOGIN, Registry};
pub use sentinels::Sentinels;
pub use server::Server;
pub use waiting::{PATIENCE, Task, eventually, within};
