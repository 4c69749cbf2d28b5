//! `cargo xtask test`: every test there is, against the real parts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::guests;
use crate::run::{cargo, run, succeeds};

#[derive(Default, clap::Args)]
pub(crate) struct Arguments {
    /// Handed on to the test runner, for example `-p agent-core` or a part of a test's name.
    #[arg(last = true)]
    runner: Vec<String>,
}

/// Builds the tools and the binary, and runs all tests.
pub(crate) fn run_all(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    find_or_install_postgres()?;
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

/// The tests start a PostgreSQL of their own; they need its programs.
fn find_or_install_postgres() -> anyhow::Result<()> {
    if postgres_is_there() {
        return Ok(());
    }
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let has_apt = succeeds(Command::new("apt-get").arg("--version"));
    if !(is_root && has_apt) {
        bail!(
            "the tests need PostgreSQL's server programs: install them, on Debian with `apt-get install postgresql`"
        );
    }
    eprintln!("xtask: PostgreSQL is missing; installing it with apt-get");
    let apt = |arguments: &[&str]| {
        run(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update"])?;
    apt(&["install", "--yes", "--no-install-recommends", "postgresql"])?;
    postgres_is_there()
        .then_some(())
        .context("apt-get installed postgresql, but its server is not to be found")
}

fn postgres_is_there() -> bool {
    let debian = PathBuf::from("/usr/lib/postgresql");
    let versions = std::fs::read_dir(debian).into_iter().flatten().flatten();
    versions.into_iter().any(|version| version.path().join("bin/initdb").exists())
        || succeeds(Command::new("initdb").arg("--version"))
}
