//! `cargo xtask dist`: what is shipped, built the way it is shipped. The Dockerfile runs it, and so does CI.

use std::path::Path;

use crate::guests;
use crate::run::{cargo, run};

/// Builds the tools into `target/tools` and the binary into `target/release`.
pub(crate) fn build(repository: &Path) -> anyhow::Result<()> {
    guests::build(repository, &guests::Arguments::default())?;
    run(&mut cargo(repository, ["build", "--release", "--locked"]))
}
