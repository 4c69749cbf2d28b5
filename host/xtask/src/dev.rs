//! `cargo xtask dev`: from a fresh clone to a service that answers.
//!
//! Only what is served is built before that: the binary, and beside it the tools that need no grant. The tools that
//! need one follow at low priority while the service is up.

mod reminder;

use std::env;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::Context as _;

use crate::guests::{self, GRANTED_TOOLS, Kind};
use crate::run::{cargo, run};
use reminder::Reminder;

/// The key that `agent-host dev` makes and signs tools with.
const KEY_FILE: &str = "target/dev-tools.key.pem";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Build for release: slower to build, nearly as fast as what is shipped.
    #[arg(long)]
    release: bool,
}

impl Arguments {
    fn profile(&self) -> &'static str {
        if self.release { "release" } else { "dev" }
    }

    fn binary(&self, repository: &Path) -> PathBuf {
        let folder = if self.release { "release" } else { "debug" };
        repository.join("target").join(folder).join("agent-host")
    }
}

/// Builds the tools and the service, and becomes the service.
pub(crate) fn serve(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let began = Instant::now();
    eprintln!(
        "xtask: phase 1 of 2: the service, and beside it the tools that it serves. The first time that compiles some \
         450 libraries, a database, a WebAssembly compiler and TLS among them; later it takes seconds"
    );
    build(repository, arguments)?;
    eprintln!("xtask: phase 1 took {} s", began.elapsed().as_secs());
    eprintln!(
        "xtask: phase 2 of 2: starting it. Tools that need a grant are built meanwhile, at low priority"
    );
    let binary = arguments.binary(repository);
    build_granted_meanwhile(&binary)?;
    // Not started but become, so that signals reach it and nothing stands between it and the terminal.
    let error = Command::new(binary).arg("dev").current_dir(repository).exec();
    Err(error).context("starting agent-host")
}

/// Builds what is served. The tools are another workspace with another target folder, so neither waits for the other.
fn build(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    thread::scope(|scope| {
        let tools = scope.spawn(|| {
            let began = Instant::now();
            guests::build(repository, &guests::Arguments::only(Kind::Shipped))?;
            eprintln!("xtask: the tools took {} s", began.elapsed().as_secs());
            anyhow::Ok(())
        });
        let began = Instant::now();
        let reminder = Reminder::start("compiling the service");
        // The features of the whole workspace, so that `cargo xtask test` need not build the libraries again.
        let host = run(&mut cargo(
            repository,
            ["build", "--workspace", "--bin", "agent-host", "--profile", arguments.profile()],
        ));
        drop(reminder);
        eprintln!("xtask: the service took {} s", began.elapsed().as_secs());
        let tools = tools.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        host.and(tools)
    })
}

/// Starts a process that builds the tools that need a grant, with what the service leaves of the processors.
fn build_granted_meanwhile(binary: &Path) -> anyhow::Result<()> {
    let ourselves = env::current_exe().context("finding this program")?;
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(ourselves).arg("dev-granted").arg(binary);
    command.spawn().context("starting nice")?;
    Ok(())
}

/// Builds the tools that need a grant and has the service's binary sign them, as it does itself at its next start, so
/// that a policy can name their signer at once.
pub(crate) fn build_granted(repository: &Path, binary: &Path) -> anyhow::Result<()> {
    guests::build(repository, &guests::Arguments::only(Kind::Granted))?;
    let key = repository.join(KEY_FILE);
    let folder = repository.join("target").join(GRANTED_TOOLS);
    let files = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let paths = files.filter_map(|file| Some(file.ok()?.path()));
    let components: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "wasm")).collect();
    if components.is_empty() || !key.is_file() {
        return Ok(());
    }
    eprintln!("xtask: the tools in target/{GRANTED_TOOLS} are there. A policy grants them what they need by");
    run(Command::new(binary).args(["tools", "sign", "--key"]).arg(key).args(components))
}
