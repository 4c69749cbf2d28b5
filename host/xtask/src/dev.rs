//! `cargo xtask dev`: from a fresh clone to a service that answers.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::guests;
use crate::run::{cargo, run};

/// Where the key is kept that tools are signed with.
const KEY_FILE: &str = "target/dev-tools.key.pem";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Build for release: slower to build, nearly as fast as what is shipped.
    #[arg(long)]
    release: bool,
}

/// Builds the tools and the service, and becomes the service.
pub(crate) fn serve(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    eprintln!("xtask: step 1 of 3: the tools, as WebAssembly components");
    guests::build(repository, &guests::Arguments::default())?;
    eprintln!(
        "xtask: step 2 of 3: the service. The first time that compiles some 450 libraries, a database, a WebAssembly \
         compiler and TLS among them, and takes minutes on many cores and half an hour on two; later it takes seconds"
    );
    let profile = if arguments.release { "release" } else { "dev" };
    // The features of the whole workspace, so that `cargo xtask test` need not build the libraries again.
    run(&mut cargo(repository, ["build", "--workspace", "--bins", "--profile", profile]))?;
    let binaries = repository.join("target").join(if arguments.release { "release" } else { "debug" });
    sign_tools(repository, &binaries.join("agent-tool"))?;
    eprintln!("xtask: step 3 of 3: starting it");
    // Not started but become, so that signals reach it and nothing stands between it and the terminal.
    let error = Command::new(binaries.join("agent-host")).arg("dev").current_dir(repository).exec();
    Err(error).context("starting agent-host")
}

/// Signs what was built with a key of this checkout, made at the first start, so that a policy that names the key goes on
/// to hold when a tool is built anew. Says what a policy names it by, and which tools only a policy lets serve.
fn sign_tools(repository: &Path, agent_tool: &Path) -> anyhow::Result<()> {
    let agent_tool = |arguments: &[&str]| {
        let mut command = Command::new(agent_tool);
        command.current_dir(repository).args(arguments);
        command
    };
    let [tools, granted] = ["target/tools", "target/tools-granted"]
        .map(|folder| components_of(&repository.join(folder)).with_context(|| format!("reading {folder}")));
    let (tools, granted) = (tools?, granted?);
    eprintln!(
        "xtask: signing the tools. Those of target/tools-granted serve once target/tools.policy.toml grants them what they \
         need, under their names ({}) and this signer:",
        granted.iter().filter_map(|file| file.file_stem()?.to_str()).collect::<Vec<_>>().join(", ")
    );
    run(&mut agent_tool(&["key", KEY_FILE]))?;
    run(agent_tool(&["sign", "--key", KEY_FILE]).args(tools).args(granted).stdout(Stdio::null()))
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
