//! What others make of `/openapi.json`: clients that are generated from it, and a fuzzer that holds the
//! service against it.

mod fuzzed;
mod generated;

use std::path::PathBuf;

use acceptance::{Ended, Process, repository};
use tokio::process::Command;

/// Where `cargo xtask test` puts the Python packages.
const PYTHON: &str = "target/test-servers/openapi/bin/python3";

fn python() -> Command {
    Command::new(repository().join(PYTHON))
}

/// The programs of tests/openapi/, and what they are told.
fn folder() -> PathBuf {
    repository().join("tests/openapi")
}

/// Runs a program to its end, which has to be a good one: what it prints.
async fn succeed(what: &str, command: &mut Command) -> String {
    for proxy in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(proxy);
    }
    let Ended { code, stdout, stderr } = Process::spawn(command).ended_at_last().await;
    assert_eq!(code, Some(0), "{what}: {stdout}{stderr}");
    stdout
}
