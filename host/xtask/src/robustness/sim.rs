//! `cargo xtask sim`: the service in a box, for some minutes or for one seed. The program is `host/sim`.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::run::{cargo, run};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// What the program is told: `--help` says what it knows.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    told: Vec<OsString>,
}

/// How many simulations every change has to pass, two minutes of one processor. Always the same ones, so that
/// what fails was changed and not drawn; `cargo xtask sim` looks for more.
const SEEDS: &str = "300";

/// Makes the simulations that every change has to pass, with the program that was built beside the tests:
/// without optimizations, and with the checks that only then are made.
pub(crate) fn check(repository: &Path) -> anyhow::Result<()> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(16).to_string();
    let simulations = ["--strict", "--seeds", SEEDS, "--threads", &threads];
    run(Command::new(repository.join("target/debug/sim")).args(simulations))
}

/// Builds the program for release and runs it.
pub(crate) fn simulate(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let command = ["run", "--release", "--quiet", "--package", "sim", "--"];
    run(cargo(repository, command).args(&arguments.told))
}
