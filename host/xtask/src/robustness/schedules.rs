//! `cargo xtask shuttle`: code around locks under schedules that are drawn by a seed. The program is
//! `host/schedules`.

use std::path::Path;

use crate::run::{cargo, run};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many schedules of each place.
    #[arg(long, default_value_t = 1_000_000)]
    schedules: usize,
    /// Some of the places; all of them without.
    places: Vec<String>,
}

/// Builds the program for release and runs it.
pub(crate) fn run_all(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let command = ["run", "--release", "--quiet", "--package", "schedules", "--", "--schedules"];
    let mut command = cargo(repository, command);
    run(command.arg(arguments.schedules.to_string()).args(&arguments.places))
}
