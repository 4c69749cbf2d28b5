//! The client against a registry that means harm, and against a real one.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod artifacts;
mod fake;
mod hostile;
mod login;
mod real;
