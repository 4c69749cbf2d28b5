//! What the edge promises, one file per promise. Requests go through the public router, without sockets
//! unless the promise is about one.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod body_limits;
mod client_gone;
mod codings;
mod compression;
mod console;
mod docs;
mod harness;
mod health;
mod idempotency;
mod index;
mod invocation;
mod malformed_bodies;
mod metrics;
mod observed;
mod openapi;
mod origins;
mod panics;
mod request_ids;
mod request_log;
mod unrouted;
mod variant_b;
