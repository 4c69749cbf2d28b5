//! `cargo xtask soak`: two replicas under everything at once, for as long as asked for. The program is
//! `tests/soak/`.

use std::path::Path;

use crate::robustness::chaos::run_program;
use crate::test;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// For how long.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
    /// Decides what is asked and when stores go away.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Builds what the acceptance tests are built of, and runs the program, which writes the plot into
/// `target/soak/`.
pub(crate) fn endure(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    test::install_stores(repository)?;
    let handed_on = [arguments.minutes.to_string(), arguments.seed.to_string()];
    run_program(repository, "soak", &handed_on)
}
