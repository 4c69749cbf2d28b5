//! Lays out the pages of `host/docs`, and those beside them that they lead to, as tables for
//! `src/pages/docs/sources.rs` to include: a page that is added is served, and nobody keeps a list of them.
#![allow(clippy::disallowed_methods, reason = "cargo tells a build script everything by its environment")]

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the pages are, seen from the root of the repository.
const PAGES: &str = "host/docs";

/// What else is served with them, because they lead there and it helps without the sources.
const BESIDE: [&str; 10] = [
    "CHANGELOG.md",
    "SECURITY.md",
    "guest-tools/README.md",
    "host/ARCHITECTURE.md",
    "host/deploy/README.md",
    "host/deploy/compose.yaml",
    "host/deploy/runbook.md",
    "wit/README.md",
    "wit/ask/ask.wit",
    "wit/tool.wit",
];

fn main() -> Result<(), Box<dyn Error>> {
    let repository = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    println!("cargo::rerun-if-changed=build.rs");
    let mut files: Vec<_> = BESIDE.map(PathBuf::from).to_vec();
    collect(&repository, Path::new(PAGES), &mut files)?;
    files.sort();
    let (mut texts, mut pictures) = (String::from("&[\n"), String::from("&[\n"));
    for file in files {
        let absolute = repository.join(&file);
        println!("cargo::rerun-if-changed={}", absolute.display());
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("png" | "svg") => writeln!(pictures, "    ({file:?}, include_bytes!({absolute:?})),")?,
            _ => writeln!(texts, "    ({file:?}, include_str!({absolute:?})),")?,
        }
    }
    let to = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(to.join("texts.rs"), texts + "]\n")?;
    fs::write(to.join("pictures.rs"), pictures + "]\n")?;
    Ok(())
}

/// Adds the files below a folder. Cargo looks at the folders too, so that a new file is noticed.
fn collect(repository: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", repository.join(folder).display());
    for entry in fs::read_dir(repository.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(repository, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
