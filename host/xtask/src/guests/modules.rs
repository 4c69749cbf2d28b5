//! Has cargo build the guest workspace, and reads from its messages which modules that made.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::compiler::{Compiler, TARGET};

/// A core module that cargo built.
pub(super) struct Module {
    /// The name of its component, after the cargo target it was built from.
    pub(super) name: String,
    /// The package it belongs to.
    pub(super) package: String,
    /// Where cargo put it.
    pub(super) file: PathBuf,
}

/// Examples that are components. Others may be meant for this machine.
const EXAMPLES: &str = "describe-*";

/// Builds every library and example of `workspace` that is a `cdylib`; those are the tools.
pub(super) fn build(workspace: &Path, compiler: &Compiler) -> anyhow::Result<Vec<Module>> {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(workspace)
        .args([
            "build",
            "--quiet",
            "--release",
            "--workspace",
            "--lib",
            "--example",
            EXAMPLES,
            "--target",
            TARGET,
        ])
        .arg("--message-format=json-render-diagnostics")
        .env("CARGO_TARGET_DIR", workspace.join("target"))
        .env("CARGO_ENCODED_RUSTFLAGS", hide_paths(workspace))
        .stdout(Stdio::piped());
    compiler.equip(&mut cargo);

    let mut running = cargo.spawn().context("starting cargo")?;
    let messages = running.stdout.take().context("reading from cargo")?;
    let mut modules = Vec::new();
    for message in BufReader::new(messages).lines() {
        modules.extend(read_module(&serde_json::from_str(&message?)?));
    }
    ensure!(running.wait()?.success(), "the tools in {} do not build", workspace.display());
    Ok(modules)
}

/// Reads a message of cargo's: is it about a module?
fn read_module(message: &Value) -> Option<Module> {
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    let file = message["filenames"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .find(|name| name.ends_with(".wasm"))?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    Some(Module {
        name: message["target"]["name"].as_str()?.replace('_', "-"),
        package: manifest.parent()?.file_name()?.to_str()?.to_owned(),
        file: file.into(),
    })
}

/// Flags that keep this machine's folders out of panic messages, which others read in their logs.
fn hide_paths(workspace: &Path) -> OsString {
    let mut flags = OsString::from("--remap-path-prefix=");
    flags.push(workspace);
    flags.push("=guest-tools");
    if let Some(home) = cargo_home() {
        flags.push("\u{1f}--remap-path-prefix=");
        flags.push(home);
        flags.push("=cargo");
    }
    flags
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
