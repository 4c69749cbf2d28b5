//! Tools in Rust: a compiler for wasm32 ([`find`]), cargo ([`Build`]), and a project's own build.

mod compiler;
mod modules;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

pub use compiler::{Choice, Compiler, Install, TARGET, find};
pub use modules::{Build, Module};

use crate::component::{Made, Need, encode};
use crate::files::read_toml;
use crate::{Error, Progress, Result};

/// The name of a package, after a look at whether a component can be made of it.
pub(crate) fn read_name(folder: &Path) -> Result<String> {
    let file = folder.join("Cargo.toml");
    let manifest = read_toml(&file)?;
    let Some(name) = manifest["package"]["name"].as_str() else {
        return Err(Error::new("this is not a tool's folder")
            .at(&file)
            .why("its Cargo.toml has no [package] with a name: it is a workspace, or not finished")
            .mend("name the folder of one package: agent-tool build FOLDER"));
    };
    let types = manifest["lib"]["crate-type"].as_array();
    let types: Vec<_> = types.into_iter().flatten().filter_map(serde_json::Value::as_str).collect();
    if !types.contains(&"cdylib") {
        return Err(Error::new(format!("the package `{name}` does not become a component"))
            .at(&file)
            .why(if types.is_empty() {
                "it has no [lib] with crate-type = [\"cdylib\"]".to_owned()
            } else {
                format!("its [lib] has crate-type = {types:?}, and only a cdylib becomes a component")
            })
            .mend("add to Cargo.toml:  [lib]  and below it  crate-type = [\"cdylib\"]"));
    }
    Ok(name.to_owned())
}

/// Builds a project's component.
pub(crate) fn build(folder: &Path, cargo_home: Option<&Path>, progress: &dyn Progress) -> Result<Made> {
    let start = Instant::now();
    if crate::program::ask("cargo", &["--version"], folder).is_none() {
        return Err(Error::new("there is no `cargo` on the PATH")
            .at(folder)
            .why("a tool in Rust is built by it")
            .mend("install Rust: your system's package `rustup`, or as rust-lang.org says"));
    }
    let compiler = find(None, Install::Target, folder, progress)?;
    let build = Build {
        cargo: &|folder: &Path| {
            let mut cargo = Command::new("cargo");
            cargo.current_dir(folder);
            cargo
        },
        folder,
        target_folder: None,
        hidden_paths: cargo_home.into_iter().map(|home| (home.to_owned(), "cargo")).collect(),
        names_crates: true,
        compiler: &compiler,
    };
    let manifest = folder.join("Cargo.toml");
    let modules = build.modules_of(&manifest, &["--lib".to_owned()], progress)?;
    let module = modules.first().ok_or_else(|| {
        Error::new("cargo built no module for wasm32")
            .at(&manifest)
            .mend("check that the package has a [lib] with crate-type = [\"cdylib\"]")
    })?;
    Ok(Made { bytes: encode(&module.file, Need::Any)?, took: start.elapsed() })
}
