//! `cargo xtask dev`: from a fresh clone to a service that answers.
//!
//! Only what is served is built before that: the binary, and beside it the tools that need no grant. The
//! tools that need one follow at low priority while the service is up.

mod reminder;

use std::env;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::Context as _;

use crate::guests::{self, GRANTED_TOOLS, Kind, SHIPPED_TOOLS};
use crate::run::{cargo, run};
use reminder::Reminder;

/// Where the key is kept that tools are signed with, seen from the root of the repository.
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

    fn binaries(&self, repository: &Path) -> PathBuf {
        repository.join("target").join(if self.release { "release" } else { "debug" })
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
    let binaries = arguments.binaries(repository);
    let agent_tool = binaries.join("agent-tool");
    sign(repository, &agent_tool, SHIPPED_TOOLS)?;
    eprintln!("xtask: phase 1 took {} s", began.elapsed().as_secs());
    eprintln!(
        "xtask: phase 2 of 2: starting it. Tools that need a grant are built meanwhile, at low priority"
    );
    build_granted_meanwhile(&agent_tool)?;
    // Not started but become, so that signals reach it and nothing stands between it and the terminal.
    let error = Command::new(binaries.join("agent-host")).arg("dev").current_dir(repository).exec();
    Err(error).context("starting agent-host")
}

/// Builds what is served. The tools are another workspace with another target folder, so neither waits for
/// the other.
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
        let programs = ["build", "--workspace", "--bin", "agent-host", "--bin", "agent-tool", "--profile"];
        let host = run(cargo(repository, programs).arg(arguments.profile()));
        drop(reminder);
        eprintln!("xtask: the service took {} s", began.elapsed().as_secs());
        let tools = tools.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        host.and(tools)
    })
}

/// Starts a process that builds the tools that need a grant, with what the service leaves of the processors.
fn build_granted_meanwhile(agent_tool: &Path) -> anyhow::Result<()> {
    let ourselves = env::current_exe().context("finding this program")?;
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(ourselves).arg("dev-granted").arg(agent_tool);
    command.spawn().context("starting nice")?;
    Ok(())
}

/// Builds and signs the tools that need a grant. Says which they are and what a policy names their signer by.
pub(crate) fn build_granted(repository: &Path, agent_tool: &Path) -> anyhow::Result<()> {
    guests::build(repository, &guests::Arguments::only(Kind::Granted))?;
    let granted = sign(repository, agent_tool, GRANTED_TOOLS)?;
    eprintln!(
        "xtask: the tools in target/{GRANTED_TOOLS} serve once target/tools.policy.toml grants them what they need, \
         under their names ({}) and this signer:",
        granted.iter().filter_map(|file| file.file_stem()?.to_str()).collect::<Vec<_>>().join(", ")
    );
    run(&mut author(repository, agent_tool, &["key", KEY_FILE]))
}

/// Signs the tools of a folder with a key of this checkout, made at the first start, so that a policy that
/// names the key goes on to hold when a tool is built anew. Returns what it signed.
fn sign(repository: &Path, agent_tool: &Path, folder: &str) -> anyhow::Result<Vec<PathBuf>> {
    let components = components_of(&repository.join("target").join(folder))
        .with_context(|| format!("reading target/{folder}"))?;
    run(author(repository, agent_tool, &["key", KEY_FILE]).stdout(Stdio::null()))?;
    let mut sign = author(repository, agent_tool, &["sign", "--key", KEY_FILE]);
    run(sign.args(&components).stdout(Stdio::null()))?;
    Ok(components)
}

/// A command of the author's program, in the repository.
fn author(repository: &Path, agent_tool: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(agent_tool);
    command.current_dir(repository).args(arguments);
    command
}

fn components_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    let mut components: Vec<_> = paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "wasm"))
        .collect();
    components.sort();
    Ok(components)
}
