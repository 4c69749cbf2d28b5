//! `cargo xtask test`: every test there is, against the real parts. One file per kind of part that is
//! installed when it is missing; each is quick when nothing is.

mod authors;
mod debian;
mod faketime;
pub(crate) mod peers;
mod pgbouncer;
mod postgres;
pub(crate) mod python;
mod valkey;

use std::env;
use std::ffi::OsString;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use crate::ci::linting_compiler::LintingCompiler;
use crate::guests;
use crate::run::{cargo, run, succeeds};

/// Where property tests begin to draw their cases unless `PROPTEST_RNG_SEED` says otherwise: a change is
/// judged by the same cases as the one before it, so that what fails was changed and not drawn. Another seed,
/// or `PROPTEST_CASES`, looks for more.
const PROPTEST_RNG_SEED: &str = "2026";

/// Which of the tests run once more with Valkey in Redis' place: the bad days that have Redis in them, and
/// clusters.
const ON_VALKEY: [&str; 2] = [
    "-E",
    "(package(acceptance) & test(/^bad_days::.*(redis|sentinel|replica)/)) | (package(backends) & test(/^redis_cluster/))",
];

#[derive(Default, clap::Args)]
pub(crate) struct Arguments {
    /// Handed on to the test runner, for example `-p agent-core` or a part of a test's name.
    #[arg(last = true)]
    runner: Vec<String>,
}

/// Installs the servers, clients and checkers that the tests start, as far as they are missing.
pub(crate) fn install_missing(repository: &Path) -> anyhow::Result<()> {
    install_stores(repository)?;
    pgbouncer::find_or_install(repository)?;
    valkey::find_or_install(repository);
    faketime::find_or_install()?;
    // The tests publish to one of their own, and install from it.
    debian::find_or_install("docker-registry", &["docker-registry"])?;
    // What the files in host/deploy/ are checked with.
    for (program, package) in [("promtool", "prometheus"), ("systemd-analyze", "systemd")] {
        debian::find_or_install(program, &[package])?;
    }
    peers::find_or_install(repository)?;
    python::find_or_install(repository)?;
    authors::find_or_install(repository)?;
    install_browser(repository)
}

/// Installs the browser that uses the console as a person does, with a font, and what drives it, as far as
/// they are missing.
pub(crate) fn install_browser(repository: &Path) -> anyhow::Result<()> {
    peers::install_packages(&repository.join(peers::CONSOLE))?;
    debian::find_or_install("chromium", &["chromium", "fonts-liberation"])
}

/// Installs the servers that the service keeps something in, as far as they are missing.
pub(crate) fn install_stores(repository: &Path) -> anyhow::Result<()> {
    postgres::find_or_install()?;
    debian::find_or_install("redis-server", &["redis-server"])?;
    python::DOCUMENT_STORE.find_or_install(repository)
}

/// Installs what is missing, builds the tools and the binary, and runs all tests. A linting compiler compiles
/// instead of the usual one, and then everything that there is to lint.
pub(crate) fn run_all(
    repository: &Path,
    arguments: &Arguments,
    compiler: Option<&LintingCompiler>,
) -> anyhow::Result<()> {
    let of_compiler = compiler.map(LintingCompiler::cargo_arguments);
    let of_compiler = || of_compiler.iter().flatten();
    let prepared = thread::scope(|scope| {
        // Downloads leave the processors to the compiler.
        let parts = scope.spawn(|| install_missing(repository));
        // Another workspace with another target folder. It has steps that keep one processor busy for
        // minutes, so the two take turns better than they follow each other.
        let tools = scope.spawn(|| {
            guests::build(repository, &guests::Arguments::default())?;
            let mut tests = cargo(&repository.join("guest-tools"), ["test", "--workspace", "--quiet"]);
            run(tests.args(of_compiler()).env("PROPTEST_RNG_SEED", seed_of_properties()))
        });
        // The acceptance tests start the binary; they are no tests of its package, so cargo does not know.
        // Built together with the tests, or the libraries would be built twice, with other features each
        // time.
        let targets: &[&str] = if compiler.is_some() { &["--all-targets"] } else { &["--bins", "--tests"] };
        let host = run(cargo(repository, ["build", "--workspace"]).args(targets).args(of_compiler()));
        let [tools, parts] =
            [tools, parts].map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        host.and(tools).and(parts)
    });
    prepared?;
    let nextest = succeeds(&mut cargo(repository, ["nextest", "--version"]));
    let runner: &[&str] = if nextest { &["nextest", "run", "--workspace"] } else { &["test", "--workspace"] };
    // Two more at a time than there are processors: a test waits for its servers half of its time, and
    // `.config/nextest.toml` holds back those that compute.
    let at_once = thread::available_parallelism().map_or(1, NonZero::get) + 2;
    let mut tests = cargo(repository, runner);
    tests.env("NEXTEST_TEST_THREADS", at_once.to_string()).env("PROPTEST_RNG_SEED", seed_of_properties());
    run(tests.args(of_compiler()).args(&arguments.runner))?;
    if nextest && arguments.runner.is_empty() && valkey::is_there() {
        let mut tests = cargo(repository, runner);
        tests.env("NEXTEST_TEST_THREADS", at_once.to_string()).env("REDIS_SERVER", "valkey-server");
        run(tests.args(of_compiler()).args(ON_VALKEY))?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "proptest reads it from there as well")]
fn seed_of_properties() -> OsString {
    env::var_os("PROPTEST_RNG_SEED").unwrap_or_else(|| PROPTEST_RNG_SEED.into())
}
