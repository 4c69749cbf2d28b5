//! What the guest workspace has: the crates that are tools, and the folders that are none, with the reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::run::cargo;

/// A crate type that becomes a component.
const COMPONENT: &str = "cdylib";
/// A crate with at least one target that becomes a component.
pub(super) struct Tool {
    /// The name of its folder.
    pub(super) folder: String,
    /// `Cargo.toml` of the crate.
    pub(super) manifest: PathBuf,
    /// What to build of it, as cargo's arguments.
    pub(super) targets: Vec<String>,
}

/// A folder that no component is made of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PassedOver {
    /// Name of the folder.
    pub(super) folder: String,
    /// Why, and what to do if it was meant as a tool.
    pub(super) reason: String,
}

/// Lists the crates of a workspace.
pub(super) fn survey(workspace: &Path) -> anyhow::Result<(Vec<Tool>, Vec<PassedOver>)> {
    let packages = read_packages(workspace)?;
    let used: BTreeSet<&str> = packages
        .iter()
        .flat_map(|package| package["dependencies"].as_array().into_iter().flatten())
        .filter_map(|dependency| dependency["path"].as_str())
        .collect();
    let (mut tools, mut passed_over) = (Vec::new(), Vec::new());
    for package in &packages {
        let manifest = package["manifest_path"].as_str().context("a package without a manifest")?;
        let manifest = PathBuf::from(manifest);
        let home = manifest.parent().unwrap_or(workspace);
        let folder = name_of(home);
        let targets = read_targets(package);
        let is_library_of_others = home.to_str().is_some_and(|home| used.contains(home));
        if !targets.is_empty() {
            tools.push(Tool { folder, manifest, targets });
        } else if !is_library_of_others {
            let reason = format!(
                "its Cargo.toml has no [lib] with crate-type = [\"{COMPONENT}\"], so nothing of it becomes a component"
            );
            passed_over.push(PassedOver { folder, reason });
        }
    }
    let members: BTreeSet<PathBuf> = packages
        .iter()
        .filter_map(|package| Some(Path::new(package["manifest_path"].as_str()?).parent()?.to_owned()))
        .collect();
    passed_over.extend(find_strangers(workspace, &members)?);
    tools.sort_by(|a, b| a.folder.cmp(&b.folder));
    passed_over.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok((tools, passed_over))
}

/// The packages of the workspace, as `cargo metadata` has them.
fn read_packages(workspace: &Path) -> anyhow::Result<Vec<Value>> {
    let output = cargo(workspace, ["metadata", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo")?;
    ensure!(output.status.success(), "the workspace in {} cannot be read", workspace.display());
    let mut metadata: Value = serde_json::from_slice(&output.stdout).context("reading cargo metadata")?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => anyhow::bail!("cargo metadata lists no packages"),
    }
}

/// cargo's arguments for the targets of a package that become components.
fn read_targets(package: &Value) -> Vec<String> {
    let has = |target: &Value, list: &str, word: &str| {
        target[list].as_array().is_some_and(|words| words.iter().any(|found| found == word))
    };
    let mut arguments = Vec::new();
    for target in package["targets"].as_array().into_iter().flatten() {
        let name = target["name"].as_str().unwrap_or_default();
        if !has(target, "crate_types", COMPONENT) {
            continue;
        }
        if has(target, "kind", "example") {
            arguments.extend(["--example".to_owned(), name.to_owned()]);
        } else {
            arguments.push("--lib".to_owned());
        }
    }
    arguments
}

/// Folders with a manifest that cargo does not count among the members.
fn find_strangers(workspace: &Path, members: &BTreeSet<PathBuf>) -> anyhow::Result<Vec<PassedOver>> {
    let mut strangers = Vec::new();
    for entry in fs::read_dir(workspace).with_context(|| format!("reading {}", workspace.display()))? {
        let folder = entry?.path();
        if folder.join("Cargo.toml").is_file() && !members.contains(&folder) {
            let reason =
                "it is no member of the workspace: see `members` and `exclude` in guest-tools/Cargo.toml";
            strangers.push(PassedOver { folder: name_of(&folder), reason: reason.to_owned() });
        }
    }
    Ok(strangers)
}

fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_crate(workspace: &Path, name: &str, rest: &str) {
        let folder = workspace.join(name);
        fs::create_dir_all(folder.join("src")).unwrap();
        let manifest =
            format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{rest}");
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        fs::write(folder.join("src/lib.rs"), "").unwrap();
    }

    #[test]
    fn every_folder_is_a_tool_or_is_passed_over_with_a_reason() {
        let home = tempfile::tempdir().unwrap();
        // As cargo names it.
        let workspace = home.path().canonicalize().unwrap();
        fs::write(workspace.join("Cargo.toml"), "[workspace]\nresolver = \"3\"\nmembers = [\"[a-n]*\"]\n")
            .unwrap();
        write_crate(
            &workspace,
            "greeter",
            "[lib]\ncrate-type = [\"cdylib\"]\n[dependencies]\nkit = { path = \"../kit\" }\n",
        );
        write_crate(&workspace, "kit", "");
        write_crate(&workspace, "forgetful", "");
        write_crate(&workspace, "outsider", "[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n");
        let (tools, passed_over) = survey(&workspace).unwrap();
        let tools: Vec<_> = tools.iter().map(|tool| (tool.folder.as_str(), tool.targets.join(" "))).collect();
        assert_eq!(tools, [("greeter", "--lib".to_owned())]);
        let [forgetful, outsider] = &passed_over[..] else { panic!("{passed_over:?}") };
        assert_eq!(forgetful.folder, "forgetful");
        assert!(forgetful.reason.contains("crate-type = [\"cdylib\"]"), "{}", forgetful.reason);
        assert_eq!(outsider.folder, "outsider");
        assert!(outsider.reason.contains("no member"), "{}", outsider.reason);
    }
}
