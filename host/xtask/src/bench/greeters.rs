//! The greeting tool of `agent-tool new`, built in every language, for the bench `call` to compare.
//!
//! Below `target/bench-tools/` each language has its project and `greeter-<language>.wasm`. A project is
//! built once and again when the template has changed. A language whose toolchain is not there has
//! `greeter-<language>.missing` with the reason in place of the component, and the bench shows it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use tool_build::{Example, Language, New, Progress, Project, Surroundings};

/// The bench looks for them there.
const FOLDER: &str = "target/bench-tools";

/// The tool and its project.
const NAME: &str = "greeter";

const LANGUAGES: [(Language, &str); 3] =
    [(Language::Rust, "rust"), (Language::JavaScript, "javascript"), (Language::Python, "python")];

/// Steps and diagnostics go to the standard error.
struct Shown;

impl Progress for Shown {
    fn step(&self, text: &str) {
        eprintln!("bench: {text}");
    }
}

/// Builds those that are not there yet. Only the one in Rust has to be: who builds us has what it is built
/// with.
pub(super) fn build(repository: &Path) -> anyhow::Result<()> {
    let folder = repository.join(FOLDER);
    for (language, word) in LANGUAGES {
        let component = folder.join(format!("{NAME}-{word}.wasm"));
        let missing = component.with_extension("missing");
        match build_one(&folder.join(word), language, &component) {
            Ok(()) => remove(&missing)?,
            Err(error) if language == Language::Rust => {
                return Err(error.context("building the greeting tool in Rust"));
            }
            Err(error) => {
                eprintln!("bench: no tool in {language}, its rows are left out: {error:#}");
                remove(&component)?;
                fs::write(&missing, format!("{error:#}"))?;
            }
        }
    }
    Ok(())
}

fn build_one(home: &Path, language: Language, component: &Path) -> anyhow::Result<()> {
    // The template as it is now, beside the project that was built of it.
    let fresh = home.join("new");
    if fresh.exists() {
        fs::remove_dir_all(&fresh).with_context(|| format!("removing {}", fresh.display()))?;
    }
    fs::create_dir_all(&fresh).with_context(|| format!("making {}", fresh.display()))?;
    let template = tool_build::create(&fresh, New { name: NAME, language, example: Example::Greeting })?;
    let files = files_of(&template)?;
    let digest = digest_of(&template, &files)?;
    let stamp = home.join("built-of.sha256");
    if component.is_file() && fs::read_to_string(&stamp).is_ok_and(|built| built == digest) {
        return Ok(());
    }
    eprintln!("bench: building a tool in {language}, once");
    let project = home.join(NAME);
    for file in &files {
        let place = project.join(file);
        fs::create_dir_all(place.parent().unwrap_or(&project))?;
        fs::copy(template.join(file), &place).with_context(|| format!("writing {}", place.display()))?;
    }
    let built = Project::open(&project)?.build(&Surroundings::default(), &Shown)?;
    tool_build::place(&built.bytes, component)?;
    fs::write(&stamp, digest).with_context(|| format!("writing {}", stamp.display()))
}

/// Every file below a folder, as paths within it, in order.
fn files_of(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("listing {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path.strip_prefix(folder)?.to_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

fn digest_of(folder: &Path, files: &[PathBuf]) -> anyhow::Result<String> {
    let mut hasher = Sha256::new();
    for file in files {
        let bytes = fs::read(folder.join(file))?;
        // With its length before it, no part can be read as the end of another.
        for part in [file.to_string_lossy().as_bytes(), &bytes] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
    }
    Ok(format!("{:x}", hasher.finalize()))
}

fn remove(file: &Path) -> anyhow::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", file.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_changed_has_another_digest() {
        let home = tempfile::tempdir().unwrap();
        let new = New { name: NAME, language: Language::Python, example: Example::Greeting };
        let folder = tool_build::create(home.path(), new).unwrap();
        let files = files_of(&folder).unwrap();
        assert!(files.contains(&"agent_tool/http.py".into()), "those of folders too: {files:?}");
        let before = digest_of(&folder, &files).unwrap();
        assert_eq!(digest_of(&folder, &files).unwrap(), before);
        fs::write(folder.join("tools.py"), "changed").unwrap();
        assert_ne!(digest_of(&folder, &files).unwrap(), before);
    }

    #[test]
    fn what_is_not_there_needs_no_removing() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("greeter-python.missing");
        fs::write(&file, "no python3").unwrap();
        remove(&file).unwrap();
        assert!(!file.exists());
        remove(&file).unwrap();
    }
}
