//! The folder that is released: binaries, debug information, tools, documents, the files of host/deploy/, the
//! bill of materials, and the checksums of all of them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::{BINARIES, sbom};

/// Where bundles go, seen from the root of the repository.
const PLACE: &str = "target/dist";

/// Folders and files of the repository that are in every bundle beside the binaries and the tools, at the
/// same places: what documents link to is among them.
const BESIDE: [&str; 12] = [
    ".env.example",
    "CHANGELOG.md",
    "Dockerfile",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "guest-tools/README.md",
    "host/ARCHITECTURE.md",
    "host/deploy",
    "host/docs",
    "tests/README.md",
    "wit",
];

/// Writes the bundle for this version and target anew, and returns where it is.
pub(super) fn write(repository: &Path, version: &str) -> anyhow::Result<PathBuf> {
    let folder = repository.join(PLACE).join(format!("agent-host-{version}-{}", sbom::host()?));
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(&folder)?;
    let mut binaries = Vec::new();
    for (built_in, name) in BINARIES {
        let built = repository.join(built_in);
        copy(&built.join(name), &folder.join(name))?;
        binaries.push((name.to_owned(), digest(&folder.join(name))?));
        let debug = format!("{name}.debug");
        // Without objcopy there is no debug file.
        if built.join(&debug).exists() {
            copy(&built.join(&debug), &folder.join(debug))?;
        }
    }
    for name in BESIDE {
        let to = folder.join(name);
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        copy(&repository.join(name), &to)?;
    }
    copy_tools(repository, &folder.join("tools"))?;
    let digests = |files: Vec<PathBuf>| {
        files
            .into_iter()
            .map(|file| Ok((file.clone(), digest(&folder.join(file))?)))
            .collect::<anyhow::Result<Vec<_>>>()
    };
    let tools: Vec<_> = digests(files_below(&folder, Path::new("tools"))?)?
        .into_iter()
        .map(|(file, digest)| (file.file_name().unwrap_or_default().to_string_lossy().into_owned(), digest))
        .collect();
    let materials = sbom::describe(repository, &binaries, &tools)?;
    fs::write(folder.join("sbom.cdx.json"), serde_json::to_string_pretty(&materials)? + "\n")?;
    let sums = digests(files_below(&folder, Path::new(""))?)?;
    fs::write(folder.join("SHA256SUMS"), listing(&sums))?;
    Ok(folder)
}

/// As `sha256sum --check` reads it.
fn listing(sums: &[(PathBuf, String)]) -> String {
    let mut text = String::new();
    for (file, digest) in sums {
        // silent-ok: nothing fails that writes into a string.
        let _ = writeln!(text, "{digest}  {}", file.display());
    }
    text
}

/// Every file below a folder of the bundle, by name, seen from the bundle.
fn files_below(bundle: &Path, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(bundle.join(folder))? {
        let entry = entry?;
        let name = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            files.extend(files_below(bundle, &name)?);
        } else {
            files.push(name);
        }
    }
    files.sort();
    Ok(files)
}

/// Copies a file, or a folder with all that is in it.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let why = || format!("copying {} to {}", from.display(), to.display());
    if !from.is_dir() {
        return fs::copy(from, to).map(drop).with_context(why);
    }
    fs::create_dir_all(to).with_context(why)?;
    for entry in fs::read_dir(from).with_context(why)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Copies the components of `target/tools`. What else is there belongs to this checkout: `cargo xtask dev`
/// leaves signatures by a key of its own beside them.
pub(super) fn copy_tools(repository: &Path, to: &Path) -> anyhow::Result<()> {
    let from = repository.join("target/tools");
    fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    for entry in fs::read_dir(&from).with_context(|| format!("reading {}", from.display()))? {
        let file = entry?.path();
        if let Some(name) = file.file_name().filter(|_| file.extension().is_some_and(|it| it == "wasm")) {
            copy(&file, &to.join(name))?;
        }
    }
    Ok(())
}

fn digest(file: &Path) -> anyhow::Result<String> {
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    Ok(format!("{:x}", Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_checksums_are_those_that_sha256sum_checks_and_a_changed_file_is_found() {
        let bundle = tempfile::tempdir().unwrap();
        let path = |name: &str| bundle.path().join(name);
        fs::create_dir(path("tools")).unwrap();
        fs::write(path("agent-host"), "the binary").unwrap();
        fs::write(path("tools/a.wasm"), "a tool").unwrap();
        let files = files_below(bundle.path(), Path::new("")).unwrap();
        assert_eq!(files, [Path::new("agent-host"), Path::new("tools/a.wasm")]);
        let sums: Vec<_> = files
            .into_iter()
            .map(|file| (file.clone(), digest(&bundle.path().join(file)).unwrap()))
            .collect();
        fs::write(path("SHA256SUMS"), listing(&sums)).unwrap();
        let check = || {
            let mut command = Command::new("sha256sum");
            command.args(["--check", "--strict", "--quiet", "SHA256SUMS"]).current_dir(bundle.path());
            crate::run::succeeds(&mut command)
        };
        assert!(check());
        fs::write(path("tools/a.wasm"), "another tool").unwrap();
        assert!(!check());
    }

    /// The unit's own commands are typed in the folder that is released.
    #[test]
    fn what_the_unit_installs_is_in_the_bundle() {
        let repository = crate::repository();
        let unit = fs::read_to_string(repository.join("host/deploy/systemd/agent-host.service")).unwrap();
        let words = unit.lines().filter(|line| line.contains(" install ")).flat_map(str::split_whitespace);
        let files: Vec<_> = words.filter(|word| word.starts_with("host/deploy/")).collect();
        assert_eq!(files.len(), 2, "{files:?}");
        for file in files.into_iter().chain(BESIDE) {
            assert!(repository.join(file).exists(), "{file}");
        }
    }

    #[test]
    fn links_of_documents_lead_to_what_is_in_the_bundle() {
        let repository = crate::repository();
        let files = |name: &str| {
            let is_folder = repository.join(name).is_dir();
            if is_folder { files_below(&repository, Path::new(name)).unwrap() } else { vec![name.into()] }
        };
        let mut followed = 0;
        let is_page = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "md");
        for page in BESIDE.into_iter().flat_map(files).filter(is_page) {
            let text = fs::read_to_string(repository.join(&page)).unwrap();
            let targets = text.split("](").skip(1).filter_map(|link| link.split([')', '#']).next());
            for target in targets.filter(|target| !target.is_empty() && !target.contains("://")) {
                let mut path = page.parent().unwrap().to_owned();
                for part in target.split('/') {
                    if part == ".." {
                        path.pop();
                    } else {
                        path.push(part);
                    }
                }
                followed += 1;
                assert!(BESIDE.iter().any(|name| path.starts_with(name)), "{page:?} leads to {path:?}");
            }
        }
        assert!(followed > 200, "links are found: {followed}");
    }

    #[test]
    fn of_the_tools_only_components_are_copied() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir_all(path("target/tools")).unwrap();
        for name in ["a.wasm", "a.wasm.sig", "b.wasm"] {
            fs::write(path("target/tools").join(name), name).unwrap();
        }
        copy_tools(place.path(), &path("bundle/tools")).unwrap();
        let copied = files_below(&path("bundle"), Path::new("tools")).unwrap();
        assert_eq!(copied, [Path::new("tools/a.wasm"), Path::new("tools/b.wasm")]);
    }

    #[test]
    fn folders_are_copied_with_all_that_is_in_them() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir_all(path("from/inner")).unwrap();
        fs::write(path("from/inner/file"), "text").unwrap();
        copy(&path("from"), &path("to")).unwrap();
        assert_eq!(fs::read_to_string(path("to/inner/file")).unwrap(), "text");
        assert!(copy(&path("nowhere"), &path("to")).unwrap_err().to_string().contains("nowhere"));
    }
}
