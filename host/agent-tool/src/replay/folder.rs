//! The tools folder with another component in the place of one, in a folder that is thrown away.
//!
//! The policy names components by their digest, so what it says of the old one is said of the new one: its
//! digest stands in the copy of the policy where the old one's stood. A signature beside the new component
//! goes along. Secrets that the policy reads from files by a relative path are not found from the copy, and
//! the component then is not loaded.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use host_setup::settings::Tools;
use sha2::{Digest as _, Sha256};
use tool_host::PolicyFile;

/// Puts `file` in the place of the component whose file has the same name. `config` names the copies then,
/// which are made in `scratch`.
pub(super) fn replace(config: &mut Tools, file: &Path, scratch: &Path) -> anyhow::Result<()> {
    let name = file.file_name().unwrap_or_default();
    let replaced = config.folder.join(name);
    if !is_component(name) || !replaced.is_file() {
        let names = component_names(&config.folder)?.join(", ");
        bail!(
            "{} takes the place of no component of {}: give it the file name of the one that it is to replace ({names})",
            file.display(),
            config.folder.display()
        );
    }
    let before = digest(&replaced)?;
    let after = digest(file)?;
    let folder = scratch.join("tools");
    fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    for entry in list(&config.folder)? {
        let is_of_replaced = entry.file_name().is_some_and(|one| one == name || *one == *signature_of(name));
        if entry.is_file() && !is_of_replaced {
            copy(&entry, &folder)?;
        }
    }
    copy(file, &folder)?;
    let signature = file.with_file_name(signature_of(name));
    if signature.is_file() {
        copy(&signature, &folder)?;
    }
    let named = config.policy.path().map_err(anyhow::Error::msg)?;
    let policy = match &config.policy {
        PolicyFile::Beside(_) => named.filter(|path| path.is_file()),
        PolicyFile::At(_) | PolicyFile::None => named,
    };
    config.policy = match policy {
        Some(path) => PolicyFile::At(copy_policy(&path, scratch, (&before, &after))?),
        None => PolicyFile::None,
    };
    config.folder = folder;
    Ok(())
}

fn copy_policy(path: &Path, scratch: &Path, (before, after): (&str, &str)) -> anyhow::Result<PathBuf> {
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let copy = scratch.join("policy.toml");
    fs::write(&copy, text.replace(before, after))
        .with_context(|| format!("{} cannot be written", copy.display()))?;
    Ok(copy)
}

fn signature_of(name: &OsStr) -> std::ffi::OsString {
    let mut signature = name.to_owned();
    signature.push(".sig");
    signature
}

fn is_component(name: &OsStr) -> bool {
    Path::new(name).extension() == Some(OsStr::new("wasm"))
}

fn component_names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names: Vec<_> = list(folder)?
        .iter()
        .filter_map(|path| path.file_name())
        .filter(|name| is_component(name))
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

fn list(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listed = || {
        format!(
            "the tools folder {} cannot be read: set TOOLS_DIR to the one the service has",
            folder.display()
        )
    };
    let entries = fs::read_dir(folder).with_context(listed)?;
    entries.map(|entry| Ok(entry.with_context(listed)?.path())).collect()
}

fn copy(file: &Path, folder: &Path) -> anyhow::Result<()> {
    let to = folder.join(file.file_name().unwrap_or_default());
    fs::copy(file, &to).map(drop).with_context(|| format!("{} cannot be copied", file.display()))
}

fn digest(file: &Path) -> anyhow::Result<String> {
    let bytes = fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    Ok(format!("sha256:{:x}", Sha256::digest(bytes)))
}
