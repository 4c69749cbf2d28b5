//! `agent-host compile`: what the service starts for every tool component that it has not seen before. Nobody else
//! calls it, so it is not in the help.

use clap::Args;
use tool_host::CompileJob;

use super::Exit;

/// Compiles the component on standard input to standard output.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
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

#[expect(clippy::print_stderr, reason = "the service reads there why a component does not compile")]
pub(crate) fn run(arguments: &Arguments) -> Exit {
    let Arguments { memory_bytes, cpu_seconds, metering } = *arguments;
    match (CompileJob { metering, memory_bytes, cpu_seconds }).run() {
        Ok(()) => Exit::Success,
        Err(error) => {
            eprintln!("{error}");
            Exit::Code(error.exit_code())
        }
    }
}
