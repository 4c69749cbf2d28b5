//! Has cargo build crates for wasm32, and reads from its messages which modules that made.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::compiler::{Compiler, TARGET};
use crate::program::{Ended, Progress, Show, run};
use crate::{Error, Result};

/// A core module that cargo built.
#[derive(Debug)]
pub struct Module {
    /// The name of its component, after the cargo target it was built from.
    pub name: String,
    /// Where cargo put it. The next build of another tool may put something else there.
    pub file: PathBuf,
}

/// How crates are built.
pub struct Build<'a> {
    /// Makes a call of cargo in a folder.
    pub cargo: &'a dyn Fn(&Path) -> Command,
    /// Where it is called.
    pub folder: &'a Path,
    /// Where cargo keeps what it has compiled; without it, where it does by itself.
    pub target_folder: Option<&'a Path>,
    /// Paths that are not to stand in what is built, with the word that stands in their place.
    pub hidden_paths: Vec<(PathBuf, &'static str)>,
    /// Whether cargo is to name each crate that it compiles.
    pub names_crates: bool,
    pub compiler: &'a Compiler,
}

impl Build<'_> {
    /// Builds targets of one package, by itself: cargo gives a dependency every feature that any crate *it is
    /// building* asks for, so tools that are built together change each other's bytes, and with them their
    /// digests.
    ///
    /// # Errors
    /// When cargo fails. Its diagnostics went to `progress` line by line.
    pub fn modules_of(
        &self,
        manifest: &Path,
        targets: &[String],
        progress: &dyn Progress,
    ) -> Result<Vec<Module>> {
        let mut cargo = (self.cargo)(self.folder);
        cargo
            .args(["build", "--release", "--target", TARGET, "--manifest-path"])
            .arg(manifest)
            .args(targets)
            .arg("--message-format=json-render-diagnostics")
            .env("CARGO_ENCODED_RUSTFLAGS", flags(&self.hidden_paths));
        if !self.names_crates {
            cargo.arg("--quiet");
        }
        if let Some(target_folder) = self.target_folder {
            cargo.env("CARGO_TARGET_DIR", target_folder);
        }
        self.compiler.equip(&mut cargo);
        let name =
            manifest.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let ended = run(&mut cargo, &format!("compiling {name}"), Show::Lines, progress)?;
        if !ended.succeeded {
            return Err(explain(&ended, manifest));
        }
        let messages = ended.stdout.iter().filter_map(|line| serde_json::from_str(line).ok());
        let mut modules: Vec<_> = messages.filter_map(|message| read_module(&message, manifest)).collect();
        modules.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(modules)
    }
}

/// Why cargo failed, as far as it can be told from what it said; all of it was shown.
fn explain(ended: &Ended, manifest: &Path) -> Error {
    let error = Error::new("cargo could not build the tool").at(manifest);
    if ended.is_without_network() {
        return error
            .why("it needs packages that are not on this machine, and the registry cannot be reached")
            .mend("connect this machine to the network once: what was fetched is kept and is enough from then on")
            .mend("copy the folder `registry` of CARGO_HOME from a machine that has built such a tool");
    }
    if ended.says(&[
        "is not supported by the following package",
        "requires rustc",
        "cannot be built because it requires rustc",
    ]) {
        return error
            .why(ended.shown())
            .mend("bring the compiler up to date: `rustup update`, or the newer packages of your system");
    }
    const SDK: [(&str, &str); 3] = [
        (
            "a tool's name is a lower-case",
            "rename the function that `export!` lists: it is the tool's name, such as `look_up`",
        ),
        (
            "has no description",
            "write a doc comment above the function in `export!` (the model chooses the tool by it)",
        ),
        ("unknown hint", "write one of the hints that the message lists, or take the hint away"),
    ];
    if let Some((_, mend)) = SDK.iter().find(|(said, _)| ended.says(&[*said])) {
        return error
            .why("the SDK refuses what a host would refuse; what and where stands above")
            .mend(*mend);
    }
    error.why("what the compiler says of it stands above").mend("mend that and build again")
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

/// Flags of the compiler: this machine's folders are kept out of panic messages, which others read in their
/// logs, and random numbers of the system, which a tool does not have, are no reason not to compile
/// (`.cargo/config.toml` of `guest-tools/` says the same, which these flags take the place of).
fn flags(hidden_paths: &[(PathBuf, &str)]) -> OsString {
    let mut flags = OsString::from("--cfg\u{1f}getrandom_backend=\"unsupported\"");
    for (path, word) in hidden_paths {
        flags.push("\u{1f}--remap-path-prefix=");
        flags.push(path);
        flags.push("=");
        flags.push(word);
    }
    flags
}
