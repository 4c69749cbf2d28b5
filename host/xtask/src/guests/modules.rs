//! Has cargo build the guest crates, and reads from its messages which modules that made.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::compiler::{Compiler, TARGET};
use super::crates::Tool;
use crate::run::cargo;

/// A core module that cargo built.
pub(super) struct Module {
    /// The name of its component, after the cargo target it was built from.
    pub(super) name: String,
    /// Where cargo put it. The next build of another tool may put something else there.
    pub(super) file: PathBuf,
}

/// How crates are built.
pub(super) struct Build<'a> {
    /// The workspace they are members of.
    pub(super) workspace: &'a Path,
    /// Where cargo keeps what it has compiled: shared by all, so that what several tools depend on is compiled once.
    pub(super) target_folder: &'a Path,
    /// With what.
    pub(super) compiler: &'a Compiler,
}

impl Build<'_> {
    /// Builds one tool, by itself: cargo gives a dependency every feature that any crate *it is building* asks for, so
    /// tools that are built together change each other's bytes, and with them their digests.
    pub(super) fn modules_of(&self, tool: &Tool) -> anyhow::Result<Vec<Module>> {
        let arguments = ["build", "--quiet", "--release", "--target", TARGET, "--manifest-path"];
        let mut cargo = cargo(self.workspace, arguments);
        cargo
            .arg(&tool.manifest)
            .args(&tool.targets)
            .arg("--message-format=json-render-diagnostics")
            .env("CARGO_TARGET_DIR", self.target_folder)
            .env("CARGO_ENCODED_RUSTFLAGS", flags(self.workspace))
            .stdout(Stdio::piped());
        self.compiler.equip(&mut cargo);

        let mut running = cargo.spawn().context("starting cargo")?;
        let messages = running.stdout.take().context("reading from cargo")?;
        let mut modules = Vec::new();
        for message in BufReader::new(messages).lines() {
            modules.extend(read_module(&serde_json::from_str(&message?)?, &tool.manifest));
        }
        ensure!(running.wait()?.success(), "the tool in guest-tools/{} does not build", tool.folder);
        modules.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(modules)
    }
}

/// Reads a message of cargo's: is it about a module of that package? A tool may depend on another one.
fn read_module(message: &Value, manifest: &Path) -> Option<Module> {
    if message["reason"] != "compiler-artifact" || Path::new(message["manifest_path"].as_str()?) != manifest {
        return None;
    }
    let file = message["filenames"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .find(|name| name.ends_with(".wasm"))?;
    Some(Module { name: message["target"]["name"].as_str()?.replace('_', "-"), file: file.into() })
}

/// Flags of the compiler: this machine's folders are kept out of panic messages, which others read in their logs, and
/// random numbers of the system, which a tool does not have, are no reason not to compile (`.cargo/config.toml` of
/// `guest-tools/` says the same, which these flags take the place of).
fn flags(workspace: &Path) -> OsString {
    let mut flags = OsString::from("--cfg\u{1f}getrandom_backend=\"unsupported\"\u{1f}--remap-path-prefix=");
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{compiler, crates};
    use super::*;

    /// A workspace in which the tool `one` uses the crate `shared`, whose word depends on a feature.
    fn write_workspace(workspace: &Path) {
        let manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"[a-z]*\"]\n\
                        [profile.release]\nlto = true\ncodegen-units = 1\npanic = \"abort\"\nstrip = true\n";
        fs::write(workspace.join("Cargo.toml"), manifest).unwrap();
        let shared = "#![no_std]\npub static WORD: &[u8] = if cfg!(feature = \"loud\") { b\"LOUD\" } else { b\"quiet\" };\n";
        write_crate(workspace, "shared", "[features]\nloud = []\n", shared);
        write_tool(workspace, "one", "");
    }

    fn write_tool(workspace: &Path, name: &str, features: &str) {
        let rest = format!(
            "[lib]\ncrate-type = [\"cdylib\"]\n[dependencies]\nshared = {{ path = \"../shared\", features = [{features}] }}\n"
        );
        let code =
            "#[unsafe(no_mangle)]\npub extern \"C\" fn word() -> *const u8 { shared::WORD.as_ptr() }\n";
        write_crate(workspace, name, &rest, code);
    }

    fn write_crate(workspace: &Path, name: &str, rest: &str, code: &str) {
        let folder = workspace.join(name);
        fs::create_dir_all(folder.join("src")).unwrap();
        let manifest =
            format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{rest}");
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        fs::write(folder.join("src/lib.rs"), code).unwrap();
    }

    #[test]
    fn a_tool_has_the_same_bytes_whatever_its_neighbours_ask_of_what_they_share() {
        let home = tempfile::tempdir().unwrap();
        let workspace = home.path().canonicalize().unwrap();
        write_workspace(&workspace);
        let compiler = compiler::find(None).unwrap();
        // Kept for the next time: with some compilers the standard library is in it.
        let target_folder = crate::repository().join("target/tmp/xtask-guests");
        let build = Build { workspace: &workspace, target_folder: &target_folder, compiler: &compiler };
        let bytes = || {
            let (tools, _) = crates::survey(&workspace).unwrap();
            let modules = tools.iter().flat_map(|tool| {
                build
                    .modules_of(tool)
                    .unwrap()
                    .into_iter()
                    .map(|module| (module.name, fs::read(module.file).unwrap()))
            });
            modules.collect::<std::collections::BTreeMap<_, _>>()
        };
        let holds = |module: &[u8], word: &[u8]| module.windows(word.len()).any(|window| window == word);

        let alone = bytes();
        assert!(alone.len() == 1 && holds(&alone["one"], b"quiet"));
        write_tool(&workspace, "two", "\"loud\"");
        let beside = bytes();
        assert!(holds(&beside["two"], b"LOUD"), "the feature makes a difference");
        assert_eq!(beside["one"], alone["one"]);
    }
}
