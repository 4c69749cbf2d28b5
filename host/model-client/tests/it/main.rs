//! The clients against a scripted provider on a real socket, which checks every request it gets.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this binary is a test, but clippy's exception for tests ends where their functions do"
)]

mod call;
mod cluster;
mod faults;
mod hostile;
mod provider;
mod refusals;
mod replies;
mod streams;
