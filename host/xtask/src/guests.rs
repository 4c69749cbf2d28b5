//! `cargo xtask guests`: every tool of `guest-tools/`, built from source into a component.
//!
//! [`crates`] says which crates are tools. cargo makes a core module of each, one tool at a time ([`modules`]), with
//! whichever compiler this machine has or can get ([`compiler`]); [`component`] makes components of them, and refuses
//! those that want more than the contract gives; [`ledger`] knows what was written.

mod compiler;
mod component;
mod crates;
mod ledger;
mod modules;

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use component::{Need, Placed};
use ledger::{FOLDERS, GRANTED, Gone, Ledger, MISBEHAVING, SHIPPED};

/// The crate whose tools misbehave.
const MISBEHAVING_CRATE: &str = "misbehaving";

/// What a crate has whose tools do what an operator has to grant: lines that grant it, as an example.
const EXAMPLE_OF_POLICY: &str = "policy.toml";

#[derive(Default, clap::Args)]
pub(crate) struct Arguments {
    /// Build with this compiler only, instead of with whichever is there.
    #[arg(long)]
    compiler: Option<compiler::Choice>,
}

/// Builds every tool, removes what no crate makes any more, and says what it passes over. Files whose content would be
/// the same are left alone, so that a running host sees no change.
pub(crate) fn build(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let workspace = repository.join("guest-tools").canonicalize().context("finding guest-tools/")?;
    let target = repository.join("target");
    let compiler = compiler::find(arguments.compiler)?;
    println!("guests: building with {compiler}");
    let (tools, passed_over) = crates::survey(&workspace)?;
    let build = modules::Build {
        workspace: &workspace,
        target_folder: &workspace.join("target"),
        compiler: &compiler,
    };
    let mut written = Ledger::default();
    for tool in &tools {
        for module in build.modules_of(tool)? {
            write_component(&target, tool, &module, &mut written)?;
        }
    }
    for crates::PassedOver { folder, reason } in passed_over {
        println!("guests: passed over   guest-tools/{folder}: {reason}");
    }
    tidy(&target, &written)
}

/// Makes a component of a module and puts it in its place.
fn write_component(
    target: &Path,
    tool: &crates::Tool,
    module: &modules::Module,
    written: &mut Ledger,
) -> anyhow::Result<()> {
    let (folder, need) = match tool.folder.as_str() {
        MISBEHAVING_CRATE => (MISBEHAVING, Need::Any),
        _ if tool.manifest.with_file_name(EXAMPLE_OF_POLICY).is_file() => (GRANTED, Need::Grant),
        _ => (SHIPPED, Need::NoGrant),
    };
    let path = format!("{folder}/{}.wasm", module.name);
    anyhow::ensure!(
        !written.has(&path),
        "two crates make {path}: rename one of them (guest-tools/{} is the second)",
        tool.folder
    );
    let bytes = component::encode(&module.file, need)
        .with_context(|| format!("making a component of {}", module.name))?;
    let news = match component::place(&bytes, &target.join(&path))? {
        Placed::New => "written",
        Placed::Same => "unchanged",
    };
    println!("guests: {:>7.1} KiB  {news:<9}  target/{path}", bytes.len() as f64 / 1024.0);
    written.add(path, &bytes);
    Ok(())
}

/// Removes what earlier builds wrote and this one did not, and names what nobody here wrote.
fn tidy(target: &Path, written: &Ledger) -> anyhow::Result<()> {
    let earlier = Ledger::read(target);
    let gone = written.replace(&earlier, target)?;
    for gone in &gone {
        match gone {
            Gone::Removed(path) => {
                println!("guests: removed       target/{path}: no crate makes it any more")
            }
            Gone::Changed(path) => println!(
                "guests: left alone    target/{path}: no crate makes it any more, but it was changed since it was built"
            ),
        }
    }
    for folder in FOLDERS {
        for name in list_components(&target.join(folder)) {
            let path = format!("{folder}/{name}");
            if !written.has(&path) && !gone.contains(&Gone::Changed(path.clone())) {
                println!("guests: left alone    target/{path}: no crate of guest-tools/ makes it");
            }
        }
    }
    Ok(())
}

/// The components in a folder, by name.
fn list_components(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".wasm")).collect();
    names.sort();
    names
}
