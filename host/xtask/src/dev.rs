//! `cargo xtask dev`: from a fresh clone to a service that answers.

use std::path::Path;

use anyhow::Context as _;
use std::os::unix::process::CommandExt as _;

use crate::guests;
use crate::run::{cargo, run};

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
    eprintln!("xtask: step 3 of 3: starting it");
    let folder = if arguments.release { "release" } else { "debug" };
    let binary = repository.join("target").join(folder).join("agent-host");
    // Not started but become, so that signals reach it and nothing stands between it and the terminal.
    let error = std::process::Command::new(binary).arg("dev").current_dir(repository).exec();
    Err(error).context("starting agent-host")
}
