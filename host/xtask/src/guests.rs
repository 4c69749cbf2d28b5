//! `cargo xtask guests`: every tool of `guest-tools/`, built from source into a component.
//!
//! [`crates`] says which crates are tools. The crate `tool-build` has cargo make a core module of each, one
//! tool at a time, with whichever compiler this machine has or can get, makes components of them, and refuses
//! those that want more than the contract gives; [`ledger`] knows what was written.

mod crates;
mod ledger;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tool_build::languages::rust::{Build, Compiler, Install, Module};
use tool_build::{Need, Placed, Progress};

use crate::run::cargo;
use ledger::{FOLDERS, GRANTED, Gone, Ledger, MISBEHAVING, SHIPPED};

pub(crate) use ledger::{GRANTED as GRANTED_TOOLS, SHIPPED as SHIPPED_TOOLS};

/// The crate whose tools misbehave.
const MISBEHAVING_CRATE: &str = "misbehaving";

/// What a crate has whose tools do what an operator has to grant: lines that grant it, as an example.
const EXAMPLE_OF_POLICY: &str = "policy.toml";

#[derive(Default, clap::Args)]
pub(crate) struct Arguments {
    /// Build with this compiler only, instead of with whichever is there.
    #[arg(long)]
    compiler: Option<Choice>,
    /// Build only tools of this kind.
    #[arg(long)]
    only: Option<Kind>,
}

impl Arguments {
    /// Tools of one kind, with whichever compiler is there.
    pub(crate) fn only(kind: Kind) -> Self {
        Self { compiler: None, only: Some(kind) }
    }
}

/// What has to be done before a tool serves. Each kind has a folder of its own.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Nothing: these are served as they are.
    Shipped,
    /// An operator has to grant what it needs.
    Granted,
    /// It misbehaves on purpose, for the tests of the sandbox.
    Misbehaving,
}

impl Kind {
    fn of(tool: &crates::Tool) -> Self {
        match tool.folder.as_str() {
            MISBEHAVING_CRATE => Self::Misbehaving,
            _ if tool.manifest.with_file_name(EXAMPLE_OF_POLICY).is_file() => Self::Granted,
            _ => Self::Shipped,
        }
    }

    /// Its folder within the target folder, and what its components may want beyond the contract.
    fn place(self) -> (&'static str, Need) {
        match self {
            Self::Shipped => (SHIPPED, Need::NoGrant),
            Self::Granted => (GRANTED, Need::Grant),
            Self::Misbehaving => (MISBEHAVING, Need::Any),
        }
    }
}

/// What the command line may insist on.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Choice {
    /// The default compiler, with the target that rustup adds to it.
    Rustup,
    /// Debian's compiler, which builds the standard library too.
    Debian,
}

/// Steps and diagnostics go to the standard error.
struct Shown;

impl Progress for Shown {
    fn step(&self, text: &str) {
        eprintln!("guests: {text}");
    }

    fn line(&self, text: &str) {
        eprintln!("{text}");
    }
}

/// Builds every tool, removes what no crate makes any more, and says what it passes over. Files whose content
/// would be the same are left alone, so that a running host sees no change.
pub(crate) fn build(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let workspace = repository.join("guest-tools").canonicalize().context("finding guest-tools/")?;
    let target = repository.join("target");
    let choice = arguments.compiler.map(|choice| match choice {
        Choice::Rustup => tool_build::languages::rust::Choice::Rustup,
        Choice::Debian => tool_build::languages::rust::Choice::Debian,
    });
    let compiler = tool_build::languages::rust::find(choice, Install::Packages, &workspace, &Shown)?;
    println!("guests: building with {compiler}");
    let (mut tools, passed_over) = crates::survey(&workspace)?;
    if let Some(kind) = arguments.only {
        tools.retain(|tool| Kind::of(tool) == kind);
    }
    let target_folder = workspace.join("target");
    let build = new_build(&workspace, &target_folder, &compiler);
    let mut written = Ledger::default();
    for (index, tool) in tools.iter().enumerate() {
        println!("guests: tool {} of {}: {}", index + 1, tools.len(), tool.folder);
        for module in modules_of(&build, tool)? {
            write_component(&target, tool, &module, &mut written)?;
        }
    }
    if arguments.only.is_some() {
        // What the other kinds wrote stays as it is, and in the list.
        return written.extend(&target);
    }
    for crates::PassedOver { folder, reason } in passed_over {
        println!("guests: passed over   guest-tools/{folder}: {reason}");
    }
    tidy(&target, &written)
}

/// How crates of a workspace are built: with the cargo that runs us, and with the flags that `agent-tool`
/// has, or each of the two would compile again what the other one has compiled in the same folder.
fn new_build<'a>(workspace: &'a Path, target_folder: &'a Path, compiler: &'a Compiler) -> Build<'a> {
    Build {
        cargo: &|folder: &Path| cargo(folder, [""; 0]),
        folder: workspace,
        target_folder: Some(target_folder),
        hidden_paths: cargo_home().map(|home| (home, "cargo")).into_iter().collect(),
        names_crates: false,
        compiler,
    }
}

/// Builds one tool.
fn modules_of(build: &Build<'_>, tool: &crates::Tool) -> anyhow::Result<Vec<Module>> {
    build
        .modules_of(&tool.manifest, &tool.targets, &Shown)
        .with_context(|| format!("the tool in guest-tools/{} does not build", tool.folder))
}

/// Where cargo keeps the sources of dependencies.
fn cargo_home() -> Option<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "cargo's own variable, which is no part of the host's config"
    )]
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| Some(std::env::home_dir()?.join(".cargo")))
}

/// Makes a component of a module and puts it in its place.
fn write_component(
    target: &Path,
    tool: &crates::Tool,
    module: &Module,
    written: &mut Ledger,
) -> anyhow::Result<()> {
    let (folder, need) = Kind::of(tool).place();
    let path = format!("{folder}/{}.wasm", module.name);
    anyhow::ensure!(
        !written.has(&path),
        "two crates make {path}: rename one of them (guest-tools/{} is the second)",
        tool.folder
    );
    let bytes = tool_build::encode(&module.file, need)
        .with_context(|| format!("making a component of {}", module.name))?;
    // Others read it in their logs. cargo gives the compiler paths within the workspace.
    let here = target.parent().unwrap_or(target).as_os_str().as_encoded_bytes();
    anyhow::ensure!(
        !bytes.windows(here.len()).any(|part| part == here),
        "{path} has the path of this folder in it"
    );
    let news = match tool_build::place(&bytes, &target.join(&path))? {
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
