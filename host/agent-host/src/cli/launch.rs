//! `agent-host launch`: what the service starts for every MCP server that is a child process, and what becomes that server.
//! Nobody else calls it, so it is not in the help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use tool_host::LaunchJob;

use super::Exit;

/// What a shell answers with when a command cannot be run.
const CANNOT_RUN: u8 = 126;

/// Becomes a program, with limits.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Most memory it may write to
    #[arg(long)]
    memory_bytes: u64,
    /// The process that starts it
    #[arg(long)]
    parent: u32,
    /// The program and its arguments
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

#[expect(clippy::print_stderr, reason = "the service logs what an MCP server writes there")]
pub(crate) fn run(arguments: Arguments) -> Exit {
    let Arguments { memory_bytes, parent, command } = arguments;
    let mut command = command.into_iter();
    let program = command.next().map(PathBuf::from).unwrap_or_default();
    let error = LaunchJob { memory_bytes, parent, program, arguments: command.collect() }.run();
    eprintln!("{error}");
    Exit::Code(CANNOT_RUN)
}
