//! `agent-host completions`: the command line for shells.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use host_setup::output::{completions, print};

use super::Exit;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    print(&completions(super::Arguments::command(), arguments.shell)?)?;
    Ok(Exit::Success)
}
