//! `agent-host`: reads the command line, starts the runtimes, and turns how it went into an exit code.
#![expect(clippy::disallowed_methods, reason = "this is where the process ends")]

use std::process::ExitCode;

use agent_host::cli::{self, Arguments, Exit};
use agent_host::telemetry;
use host_setup::program;
use mimalloc::MiMalloc;

/// A fifth of a request's processor time was glibc's allocator, whose arenas are shared by threads and which
/// keeps what a burst has fragmented (`cargo xtask bench http`). Without huge pages: with them an idle
/// service holds twice the memory.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let arguments = match cli::parse() {
        Ok(arguments) => arguments,
        Err(moved) => return moved,
    };
    let json = arguments.prints_json();
    match run(arguments) {
        // What did not end by itself must not get another chance to hold the process up.
        Ok(Exit::Forced) => std::process::exit(1),
        exit => program::exit_code("agent-host", json, exit),
    }
}

fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let _flushed = FlushLog;
    match cli::run_alone(arguments) {
        Ok(exit) => Ok(exit),
        Err(arguments) => program::run("agent-host", cli::run(arguments)),
    }
}

/// Writes what is left of the log when it is dropped, also when a panic ends the process.
struct FlushLog;

impl Drop for FlushLog {
    fn drop(&mut self) {
        telemetry::flush();
    }
}
