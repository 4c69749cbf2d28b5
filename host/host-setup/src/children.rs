//! The commands that a tool host starts this very program with. Nobody else calls them, so they are not in
//! the help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tool_host::{CompileJob, LaunchJob};

use crate::program::Exit;

/// What a shell answers with when a command cannot be run.
const CANNOT_RUN: u8 = 126;

/// What a tool host starts in a process of its own.
#[derive(Debug, Subcommand)]
pub enum Child {
    /// Compiles the component on standard input to standard output: one that the host has not seen before
    #[command(hide = true)]
    Compile(Compile),
    /// Becomes a program, with limits: an MCP server that is a child process
    #[command(hide = true)]
    Launch(Launch),
}

/// What a compilation may use up.
#[derive(Debug, Args)]
pub struct Compile {
    /// Most memory it may take
    #[arg(long)]
    memory_bytes: u64,
    /// Most processor time it may take
    #[arg(long)]
    cpu_seconds: u64,
    /// Whether the code is to count the instructions it runs
    #[arg(long)]
    metering: bool,
}

/// What to become.
#[derive(Debug, Args)]
pub struct Launch {
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

impl Child {
    /// Carries it out, in this process alone.
    #[expect(clippy::print_stderr, reason = "the host reads there why a component does not compile")]
    pub fn run(self) -> Exit {
        match self {
            Self::Compile(Compile { memory_bytes, cpu_seconds, metering }) => {
                match (CompileJob { metering, memory_bytes, cpu_seconds }).run() {
                    Ok(()) => Exit::Success,
                    Err(error) => {
                        eprintln!("{error}");
                        Exit::Code(error.exit_code())
                    }
                }
            }
            Self::Launch(Launch { memory_bytes, parent, command }) => {
                let mut command = command.into_iter();
                let program = command.next().map(PathBuf::from).unwrap_or_default();
                let error = LaunchJob { memory_bytes, parent, program, arguments: command.collect() }.run();
                eprintln!("{error}");
                Exit::Code(CANNOT_RUN)
            }
        }
    }
}
