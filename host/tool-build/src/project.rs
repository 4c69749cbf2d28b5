//! A folder with a tool's sources: its language and name, and the component that is built from it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::component::{Made, Outside, read_outside};
use crate::files::{read_manifest, read_toml};
use crate::languages::Language;
use crate::{Error, Progress, Result, docs, languages::javascript, languages::python, languages::rust};

/// A folder with a tool's sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Absolute.
    pub folder: PathBuf,
    /// The name of its component, as its manifest has it.
    pub name: String,
    pub language: Language,
}

/// What a build takes from where it runs.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Where cargo keeps the sources of dependencies (`CARGO_HOME`), so that this path does not stand in
    /// components.
    pub cargo_home: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Name of the component; the file is the name and `.wasm`.
    pub name: String,
    /// The component.
    pub bytes: Vec<u8>,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// What it imports and exports.
    pub outside: Outside,
    pub took: Duration,
    /// The toolchain that made the component.
    pub toolchain: &'static str,
    /// How long that took of it.
    pub toolchain_took: Duration,
}

impl Project {
    /// Finds out what a folder has.
    ///
    /// # Errors
    /// When it is no tool's folder, or its manifest cannot be read.
    pub fn open(folder: &Path) -> Result<Self> {
        let folder =
            folder.canonicalize().map_err(|error| Error::file("opening the folder", folder, &error))?;
        let has = |file: &str| folder.join(file).is_file();
        let (language, name) = if has("Cargo.toml") {
            (Language::Rust, rust::read_name(&folder)?)
        } else if has("pyproject.toml") {
            let file = folder.join("pyproject.toml");
            let name = read_toml(&file)?["project"]["name"].as_str().map(str::to_owned);
            (Language::Python, name.ok_or_else(|| no_name(&file, "[project] with name = \"…\""))?)
        } else if has("package.json") {
            let file = folder.join("package.json");
            let manifest = read_manifest(&file)?.unwrap_or_default();
            let manifest: serde_json::Value = serde_json::from_str(&manifest).map_err(|error| {
                Error::new("the manifest is no JSON").at(&file).why(error).mend("mend the line that is named")
            })?;
            let name = manifest["name"].as_str().map(str::to_owned);
            (Language::JavaScript, name.ok_or_else(|| no_name(&file, "\"name\": \"…\""))?)
        } else {
            return Err(Error::new("this is not a tool's folder")
                .at(&folder)
                .why("it has no Cargo.toml, pyproject.toml or package.json")
                .mend("name the folder of a tool: agent-tool build FOLDER")
                .mend("make one: agent-tool new my-tool --lang rust"));
        };
        if !is_served(&name) {
            return Err(Error::new(format!("`{}` cannot be the name of a component", name.escape_default()))
                .at(&folder)
                .why("the component's file is named by it")
                .mend("give the package a name of lower-case letters, digits and hyphens"));
        }
        Ok(Self { folder, name, language })
    }

    /// Builds the component, when nobody else builds in the folder.
    ///
    /// # Errors
    /// When something is missing, the sources are wrong, or what comes out is no tool.
    pub fn build(&self, surroundings: &Surroundings, progress: &dyn Progress) -> Result<Built> {
        let _lock = lock(&self.folder, progress);
        let start = Instant::now();
        let Made { mut bytes, took: toolchain_took } = match self.language {
            Language::Rust => rust::build(&self.folder, surroundings.cargo_home.as_deref(), progress)?,
            Language::Python => python::build(&self.folder, progress)?,
            Language::JavaScript => javascript::build(&self.folder, progress)?,
        };
        let outside = read_outside(&bytes)?;
        if outside.is_typed() {
            bytes = docs::add(bytes, &self.folder, progress);
        } else if !outside.is_tool() {
            return Err(Error::new("what was built exports no tool").at(&self.folder).why(format!(
                "a host calls `agent:tool/tool`, or functions of its own, and this exports {}",
                if outside.exports.is_empty() { "nothing".to_owned() } else { outside.exports.join(", ") }
            ))
            .mend("in Rust: export functions with `agent_tool_sdk::export! { … }`; elsewhere: export agent:tool/tool from the world"));
        }
        let digest = format!("sha256:{:x}", Sha256::digest(&bytes));
        let toolchain = match self.language {
            Language::Rust => "cargo",
            Language::Python => "componentize-py",
            Language::JavaScript => "componentize-js",
        };
        let (name, took) = (self.name.clone(), start.elapsed());
        Ok(Built { name, bytes, digest, outside, took, toolchain, toolchain_took })
    }

    /// Whether a change of this path, which lies in the folder, is a change of the sources. Below a folder of
    /// the project that is each file that no build makes: sources may include any (`include_str!`).
    #[must_use]
    pub fn is_source(&self, path: &Path) -> bool {
        const MADE: [&str; 7] =
            ["target", ".venv", "node_modules", "__pycache__", ".build", ".git", "Cargo.lock"];
        let Ok(inside) = path.strip_prefix(&self.folder) else { return false };
        let mut names = inside.components().filter_map(|part| part.as_os_str().to_str());
        let is_made =
            names.any(|name| MADE.contains(&name) || name.starts_with(['.', '#']) || name.ends_with('~'));
        let is_below = inside.components().nth(1).is_some();
        let extension = inside.extension().and_then(|extension| extension.to_str());
        let is_of_source = match extension {
            Some("rs" | "toml" | "wit" | "py" | "js" | "mjs" | "ts" | "json") => true,
            Some("wasm" | "sig") => false,
            Some(_) | None => is_below,
        };
        !is_made
            && is_of_source
            && inside.file_name().is_none_or(|name| {
                name != "package-lock.json" && name != "cases.toml" && name != "policy.toml"
            })
    }
}

/// Keeps other builds out of a folder until it is dropped: two of them would install and write the same files
/// at once. Where folders cannot be locked, nobody is kept out.
fn lock(folder: &Path, progress: &dyn Progress) -> Option<File> {
    let opened = File::open(folder).ok()?;
    if matches!(opened.try_lock(), Err(TryLockError::WouldBlock)) {
        progress.step("another build of this folder goes on: waiting for its end");
        opened.lock().ok()?;
    }
    Some(opened)
}

/// Whether hosts serve a component of this name: they refuse other characters, and pass over hidden files.
fn is_served(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_plain)
}

fn no_name(file: &Path, line: &str) -> Error {
    Error::new("the manifest names no package")
        .at(file)
        .mend(format!("add {line}: the component is named after it"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use super::*;

    struct Told(Sender<String>);

    impl Progress for Told {
        fn step(&self, text: &str) {
            self.0.send(text.to_owned()).unwrap();
        }
    }

    #[test]
    fn a_second_build_of_a_folder_waits_for_the_first_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, said) = channel();
        let first = lock(folder.path(), &Told(sender.clone()));
        thread::scope(|scope| {
            scope.spawn(|| {
                let _second = lock(folder.path(), &Told(sender.clone()));
                sender.send("built".to_owned()).unwrap();
            });
            assert!(said.recv().unwrap().starts_with("another build of this folder goes on"));
            drop(first);
            assert_eq!(said.recv().unwrap(), "built");
        });
    }

    #[test]
    fn a_project_whose_component_no_host_would_serve_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            fs::write(folder.path().join("pyproject.toml"), format!("[project]\nname = '{name}'\n")).unwrap();
            Project::open(folder.path())
        };
        for name in ["order-lookup", "Order_2.0", &"x".repeat(64)] {
            assert_eq!(open(name).unwrap().name, name);
        }
        for name in ["My Tool", "Über", ".hidden", "..", "../climber", "", &"x".repeat(65)] {
            let refused = open(name).unwrap_err().to_string();
            assert!(refused.contains("cannot be the name of a component"), "{name}: {refused}");
        }
    }

    #[test]
    fn what_a_build_makes_is_no_source() {
        let project = Project { folder: "/a b".into(), name: "x".into(), language: Language::Rust };
        for source in [
            "src/lib.rs",
            "sdk/src/http.rs",
            "Cargo.toml",
            "tools.py",
            "tools.ts",
            "wit/world.wit",
            "src/prompt.md",
            "data/cities.csv",
            "data/LICENCE",
        ] {
            assert!(project.is_source(&Path::new("/a b").join(source)), "{source}");
        }
        for other in [
            "target/debug/x.rs",
            ".venv/a.py",
            "node_modules/a/b.js",
            "x.wasm",
            "Cargo.lock",
            "src/.lib.rs.swp",
            "src/lib.rs~",
            "package-lock.json",
            "cases.toml",
            "README.md",
            "src/#lib.rs#",
            "out/x.wasm",
            "target/debug/data.csv",
        ] {
            assert!(!project.is_source(&Path::new("/a b").join(other)), "{other}");
        }
        assert!(!project.is_source(Path::new("/elsewhere/src/lib.rs")));
    }
}
