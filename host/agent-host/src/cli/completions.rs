//! `agent-host completions`: the command line for shells.

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Exit;
use super::tools::print;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    print(&script(arguments.shell)?)?;
    Ok(Exit::Success)
}

pub(super) fn script(shell: Shell) -> anyhow::Result<String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::Arguments::command(), "agent-host", &mut script);
    String::from_utf8(script).context("the script is no text")
}
