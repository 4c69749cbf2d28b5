//! `cargo xtask bench`: prints the project's numbers, all from one run on one machine.

use std::path::Path;

use crate::guests;
use crate::run::{cargo, run};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only the numbers of this bench: `call` (a tool call), `http` (the whole service) or `variant_b` (the whole
    /// service beside the Node deployment).
    only: Option<String>,
}

/// Builds for release and runs the benches.
pub(crate) fn print_numbers(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    guests::build(repository, &guests::Arguments::default())?;
    let native = ["build", "--release", "--package", "calculator", "--example", "native"];
    run(&mut cargo(&repository.join("guest-tools"), native))?;
    // One set of features for all, or the libraries are built once for each.
    run(&mut cargo(repository, ["build", "--release", "--workspace", "--bins", "--benches"]))?;
    for bench in ["call", "http", "variant_b"] {
        if arguments.only.as_deref().is_none_or(|only| only == bench) {
            run(&mut cargo(repository, ["bench", "--workspace", "--quiet", "--bench", bench]))?;
        }
    }
    Ok(())
}
