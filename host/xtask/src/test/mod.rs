//! `cargo xtask test`: every test there is, against the real parts. One file per kind of part that is installed
//! when it is missing; each is quick when nothing is.

mod debian;
mod mongo;
mod peers;
mod postgres;
mod redis;

use std::path::Path;

use crate::guests;
use crate::run::{cargo, run, succeeds};

#[derive(Default, clap::Args)]
pub(crate) struct Arguments {
    /// Handed on to the test runner, for example `-p agent-core` or a part of a test's name.
    #[arg(last = true)]
    runner: Vec<String>,
}

/// Installs what is missing, builds the tools and the binary, and runs all tests.
pub(crate) fn run_all(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    postgres::find_or_install()?;
    redis::find_or_install()?;
    mongo::find_or_install(repository)?;
    peers::find_or_install(repository)?;
    guests::build(repository, &guests::Arguments::default())?;
    run(&mut cargo(&repository.join("guest-tools"), ["test", "--workspace", "--quiet"]))?;
    // The acceptance tests start the binary; they are no tests of its package, so cargo does not know. Built
    // together with the tests, or the libraries would be built twice, with other features each time.
    run(&mut cargo(repository, ["build", "--workspace", "--bins", "--tests"]))?;
    let nextest = succeeds(&mut cargo(repository, ["nextest", "--version"]));
    let runner: &[&str] = if nextest { &["nextest", "run", "--workspace"] } else { &["test", "--workspace"] };
    let mut command = cargo(repository, runner);
    command.args(&arguments.runner);
    run(&mut command)
}
