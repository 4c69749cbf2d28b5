//! `agent-tool sign` and `agent-tool key`: signatures that a policy can trust instead of digests.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use host_setup::output::{json_line, print};
use host_setup::program::Exit;
use serde_json::json;
use tool_build::{create_private_file, replace_file};
use tool_policy::signature::{Signed, SigningKey};

/// What to sign.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Components; the signature of NAME.wasm is written to NAME.wasm.sig beside it
    #[arg(required = true, value_name = "COMPONENT")]
    components: Vec<PathBuf>,
    /// The private key: PKCS#8 in PEM, as `agent-tool key` and `openssl genpkey -algorithm ed25519` write it
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

/// Where to keep a new key.
#[derive(Debug, Args)]
pub(crate) struct KeyArguments {
    /// The file to write; one that is there is read, not replaced
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let key = read(&arguments.key)?;
    for component in &arguments.components {
        let signature = sign(&key, component)?;
        print(&if json {
            json_line(&json!({ "signature": signature }))
        } else {
            format!("{}\n", signature.display())
        })?;
    }
    print(&describe(&key, json))?;
    Ok(Exit::Success)
}

/// What a policy names a key by.
pub(crate) fn describe(key: &SigningKey, json: bool) -> String {
    if json {
        json_line(&json!({ "signer": key.public().to_string() }))
    } else {
        format!("signer = \"{}\"\n", key.public())
    }
}

pub(crate) fn make_key(arguments: &KeyArguments, json: bool) -> anyhow::Result<Exit> {
    let key = read_or_make(&arguments.file)?;
    print(&describe(&key, json))?;
    Ok(Exit::Success)
}

/// Signs a component and says where the signature is.
fn sign(key: &SigningKey, component: &Path) -> anyhow::Result<PathBuf> {
    let name = component.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(name) = name.strip_suffix(".wasm") else {
        bail!("{} is no file of the name NAME.wasm", component.display());
    };
    let bytes = fs::read(component).with_context(|| format!("reading {}", component.display()))?;
    write(key, component.parent().unwrap_or(Path::new("")), name, &bytes)
}

/// What belongs into `<name>.wasm.sig`, beside the component of that name.
pub(crate) fn signature(key: &SigningKey, name: &str, component: &[u8]) -> Vec<u8> {
    key.sign(&Signed { name, component, manifest: &[] })
}

/// Writes the signature of the component of that name into a folder.
fn write(key: &SigningKey, folder: &Path, name: &str, component: &[u8]) -> anyhow::Result<PathBuf> {
    let signature = folder.join(format!("{name}.wasm.sig"));
    let content = self::signature(key, name, component);
    if fs::read(&signature).is_ok_and(|there| there == content) {
        return Ok(signature);
    }
    replace_file(&signature, &content).with_context(|| format!("writing {}", signature.display()))?;
    Ok(signature)
}

pub(crate) fn read(file: &Path) -> anyhow::Result<SigningKey> {
    let pem = fs::read_to_string(file).with_context(|| {
        // `agent-tool key` makes none where something is.
        let is_there = file.symlink_metadata().is_ok();
        let mend = if is_there { "" } else { ": `agent-tool key FILE` makes one" };
        format!("reading the key {}{mend}", file.display())
    })?;
    if pem.trim().is_empty() {
        bail!("the key {} is empty: remove it, and `agent-tool key FILE` makes one", file.display());
    }
    SigningKey::from_pem(&pem).with_context(|| format!("reading the key {}", file.display()))
}

/// The key in a file, or a new one that is written there for its owner alone. A file that is there has all of
/// its key, whenever this is killed.
pub(crate) fn read_or_make(file: &Path) -> anyhow::Result<SigningKey> {
    if file.symlink_metadata().is_ok() {
        return read(file);
    }
    let (key, pem) = SigningKey::generate()?;
    match create_private_file(file, pem.expose().as_bytes()) {
        // Another process made one meanwhile.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read(file),
        created => created.map(|()| key).with_context(|| format!("writing the key {}", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_an_empty_file_is_said_to_be_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        let made = read_or_make(&file).unwrap();
        assert_eq!(read_or_make(&file).unwrap().public().to_string(), made.public().to_string());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::write(&file, "").unwrap();
        let empty = read_or_make(&file).map(|_| ()).unwrap_err().to_string();
        assert!(empty.contains("is empty: remove it"), "{empty}");
        let said = |file: &Path| read(file).map(|_| ()).unwrap_err().to_string();
        assert!(said(&folder.path().join("none.pem")).ends_with("`agent-tool key FILE` makes one"));
        assert!(said(folder.path()).ends_with(&folder.path().display().to_string()));
    }

    #[test]
    fn a_key_that_cannot_be_written_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nowhere/key.pem");
        let failed = read_or_make(&file).map(|_| ()).unwrap_err();
        assert!(format!("{failed:#}").contains("writing the key"), "{failed:#}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
