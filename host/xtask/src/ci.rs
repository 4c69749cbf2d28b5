//! `cargo xtask ci`: what every change has to pass. The cheap check comes first.
//!
//! Nothing is built for release: that would build every library once more, and no test runs what comes of it.
//! Whoever ships it does that with `cargo xtask dist`, as the Dockerfile does. Lints and documentation are no
//! steps of their own: [`linting_compiler`] does both while the tests are built.

pub(crate) mod linting_compiler;

use std::path::Path;

use crate::run::{cargo, run};
use crate::{robustness::sim, test};
use linting_compiler::LintingCompiler;

/// Runs every check, and stops at the first that fails.
pub(crate) fn check_all(repository: &Path) -> anyhow::Result<()> {
    for workspace in [repository, &repository.join("guest-tools")] {
        run(&mut cargo(workspace, ["fmt", "--all", "--check"]))?;
    }
    let linting = LintingCompiler::install(repository)?;
    test::run_all(repository, &test::Arguments::default(), Some(&linting))?;
    // Behind the tests, which wait for each other's processor.
    sim::check(repository)
}
