//! `cargo xtask fuzz`: the targets of `host/fuzz` for some minutes, guided by coverage where that can be
//! built.

pub(crate) mod covering_compiler;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::run::{cargo, run, succeeds};

/// The programs of `host/fuzz`, built for release.
const GUIDED: &str = "target/release/fuzz-coverage";

/// Where libFuzzer keeps what it finds.
const WORK: &str = "target/fuzzing";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// For how long, of all targets together.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Inputs are mutated from the corpora alone, also where they could be guided.
    #[arg(long)]
    blind: bool,
    /// Some of the targets; all of them without.
    targets: Vec<String>,
}

/// Builds the programs for release and runs them.
pub(crate) fn run_targets(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let mut told: Vec<OsString> = vec!["--minutes".into(), arguments.minutes.to_string().into()];
    if !arguments.blind && succeeds(Command::new("c++").arg("--version")) {
        let build =
            ["build", "--release", "--package", "fuzz", "--bin", "fuzz-coverage", "--features", "coverage"];
        run(cargo(repository, build).args(covering_compiler::cargo_arguments(repository)?))?;
        let work = repository.join(WORK);
        told.extend(["--guided".into(), repository.join(GUIDED).into(), "--work".into(), work.into()]);
    }
    told.extend(arguments.targets.iter().map(OsString::from));
    let command = ["run", "--release", "--quiet", "--package", "fuzz", "--bin", "fuzz", "--"];
    run(cargo(repository, command).args(told))
}
