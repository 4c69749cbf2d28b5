//! `cargo xtask sim`: the service in a box, for some minutes or for one seed. The program is `host/sim`.

use std::path::Path;

use crate::run::{cargo, run};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// For how long simulations are made, one after the other.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// The first seed, or the only one with `--trace`.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Show the simulation of that seed as a time line; of one that fails, the shortest that fails alike.
    #[arg(long)]
    trace: bool,
    /// Go on behind failures, and say in the end which promises were broken by which seeds.
    #[arg(long)]
    all: bool,
    /// Put a bug in, by its name in `host/sim/src/mutation.rs`.
    #[arg(long)]
    mutation: Option<String>,
}

/// Builds the program for release and runs it.
pub(crate) fn simulate(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { minutes, seed, trace, all, mutation } = arguments;
    let mut command = cargo(repository, ["run", "--release", "--quiet", "--package", "sim", "--"]);
    command.arg(format!("--minutes={minutes}")).arg(format!("--seed={seed}"));
    for (is_wanted, flag) in [(trace, "--trace"), (all, "--all")] {
        command.args(is_wanted.then_some(flag));
    }
    command.args(mutation.as_ref().map(|name| format!("--mutation={name}")));
    run(&mut command)
}
