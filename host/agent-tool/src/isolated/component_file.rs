//! The component that a command looks at: a file, or the name of one in the tools folder.

use std::fs;
use std::path::{Path, PathBuf};

use agent_core::words::is_component_name;
use anyhow::{Context as _, bail};
use host_setup::component_file::{MOST_SIGNATURE_BYTES, read_bounded};
use tool_host::{Inspection, MOST_COMPONENT_BYTES, PolicyFile};

/// A component, read once.
pub(crate) struct ComponentFile {
    /// The file's name without `.wasm`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    /// What lies beside it as its signature.
    pub(crate) signature: Option<Vec<u8>>,
}

impl ComponentFile {
    /// Reads a file, or the component of that name in the tools folder.
    pub(crate) fn find(place: &Path, tools: &Path) -> anyhow::Result<Self> {
        let in_folder = tools.join(format!("{}.wasm", place.display()));
        let path = if place.exists() || !in_folder.exists() { place.to_owned() } else { in_folder.clone() };
        if !path.exists() {
            bail!(
                "there is no file {}, and no component of that name in {} (TOOLS_DIR)",
                place.display(),
                tools.display()
            );
        }
        Self::read(&path)
    }

    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let metadata = fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
        if !metadata.is_file() {
            bail!("{} is not a file: name the component itself, NAME.wasm", path.display());
        }
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = file.strip_suffix(".wasm").unwrap_or(&file).to_owned();
        // Hosts pass over hidden files: without a refusal here, nothing would be found wrong with one.
        if !is_component_name(&name) || name.starts_with('.') {
            bail!(
                "no host serves {} under its name: rename it, to 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-' \
                 (not '.' first), then .wasm",
                path.display()
            );
        }
        // A part of a larger one would be shown by a digest and a size that are not its own.
        let bytes = read_at_most(path, MOST_COMPONENT_BYTES)?;
        let beside = path.with_file_name(format!("{name}.wasm.sig"));
        let signature =
            if beside.is_file() { Some(read_at_most(&beside, MOST_SIGNATURE_BYTES)?) } else { None };
        // The folder that it lies in is what a command to call it again names.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self { name, path, bytes, signature })
    }

    /// What its bytes say of it.
    pub(crate) fn inspect(&self, policy: &PolicyFile) -> Inspection {
        tool_host::inspect(&self.name, &self.bytes, self.signature.as_deref(), policy)
    }

    pub(crate) fn folder(&self) -> String {
        self.path.parent().map_or_else(|| ".".to_owned(), |folder| folder.display().to_string())
    }

    /// Writes it, and its signature, into a folder of its own.
    pub(super) fn copy_to(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir(folder).with_context(|| format!("making {}", folder.display()))?;
        let file = folder.join(format!("{}.wasm", self.name));
        fs::write(&file, &self.bytes).with_context(|| format!("writing {}", file.display()))?;
        if let Some(signature) = &self.signature {
            let file = folder.join(format!("{}.wasm.sig", self.name));
            fs::write(&file, signature).with_context(|| format!("writing {}", file.display()))?;
        }
        Ok(())
    }
}

fn read_at_most(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let read = read_bounded(path, most).with_context(|| format!("reading {}", path.display()))?;
    Ok(read.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_larger_than_a_component_may_be_is_refused_for_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.wasm");
        let file = fs::File::create(&path).unwrap();
        file.set_len(MOST_COMPONENT_BYTES).unwrap();
        assert_eq!(ComponentFile::read(&path).unwrap().bytes.len() as u64, MOST_COMPONENT_BYTES);
        file.set_len(MOST_COMPONENT_BYTES + 1).unwrap();
        let error = format!("{:#}", ComponentFile::read(&path).err().unwrap());
        assert!(error.contains("large.wasm: it has more than 67108864 bytes"), "{error}");
    }
}
