//! `cargo xtask guests`: every tool of `guest-tools/`, built from source into a component.
//!
//! cargo makes a core module of each tool ([`modules`]) with whichever compiler this machine has or can get
//! ([`compiler`]); [`component`] makes components of them, and refuses those that want more than the contract
//! gives.

mod compiler;
mod component;
mod modules;

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use component::Placed;

/// The package whose tools misbehave on purpose. They are kept apart from the shipped ones, so that no host
/// serves them by accident.
const MISBEHAVING: &str = "misbehaving";

#[derive(Default, clap::Args)]
pub(crate) struct Arguments {
    /// Build with this compiler only, instead of with whichever is there.
    #[arg(long)]
    compiler: Option<compiler::Choice>,
}

/// Builds every tool. Files whose content would be the same are left alone, so that a running host sees no
/// change.
pub(crate) fn build(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let workspace = repository.join("guest-tools").canonicalize().context("finding guest-tools/")?;
    let compiler = compiler::find(arguments.compiler)?;
    println!("guests: building with {compiler}");
    let mut modules = modules::build(&workspace, &compiler)?;
    modules.sort_by_key(|module| place_of(repository, module));
    for module in modules {
        let target = place_of(repository, &module);
        let bytes = component::encode(&module.file)
            .with_context(|| format!("making a component of {}", module.name))?;
        let size = bytes.len() as f64 / 1024.0;
        let news = match component::place(&bytes, &target)? {
            Placed::New => "written",
            Placed::Same => "unchanged",
        };
        let shown = target.strip_prefix(repository).unwrap_or(&target).display();
        println!("guests: {size:>7.1} KiB  {news:<9}  {shown}");
    }
    Ok(())
}

fn place_of(repository: &Path, module: &modules::Module) -> PathBuf {
    let folder = if module.package == MISBEHAVING { "tools-misbehaving" } else { "tools" };
    repository.join("target").join(folder).join(format!("{}.wasm", module.name))
}
