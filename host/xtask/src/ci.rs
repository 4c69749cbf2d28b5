//! `cargo xtask ci`: what every change has to pass. The cheap checks come first.
//!
//! Nothing is built for release: that would build every library once more, and no test runs what comes of it. Whoever
//! ships it does that with `cargo xtask dist`, as the Dockerfile does.

use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use crate::run::{cargo, run};
use crate::test;

/// Runs every check, and stops at the first that fails.
pub(crate) fn check_all(repository: &Path) -> anyhow::Result<()> {
    let (linted, installed) = thread::scope(|scope| {
        // What the tests need is downloaded meanwhile.
        let parts = scope.spawn(|| test::install_missing(repository));
        let linted = lint(repository);
        (linted, parts.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    linted?;
    installed?;
    // Last, so that what it says of the tests is the last word.
    test::run_all(repository, &test::Arguments::default())
}

/// Formatting, lints and documentation.
fn lint(repository: &Path) -> anyhow::Result<()> {
    let guest_tools = repository.join("guest-tools");
    for workspace in [repository, &guest_tools] {
        run(&mut cargo(workspace, ["fmt", "--all", "--check"]))?;
    }
    for workspace in [repository, &guest_tools] {
        let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        run(&mut cargo(workspace, arguments))?;
    }
    let arguments = ["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"];
    run(cargo(repository, arguments).env("RUSTDOCFLAGS", "-D warnings"))
}
