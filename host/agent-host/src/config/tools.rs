//! Where the tools are, and what one call of a tool may use up.

use std::path::PathBuf;
use std::time::Duration;

use super::problem::Problems;
use super::reader::{self, Reader, Reported};
use super::variables::{
    TOOL_COMPONENT_CONCURRENCY, TOOL_FUEL_METERING, TOOL_MEMORY_BYTES, TOOL_OUTPUT_BYTES, TOOL_TIMEOUT_MS,
    TOOLS_CACHE_DIR, TOOLS_DIR, TOOLS_POLICY,
};
use super::vars::Vars;

/// Where the tools are, and what one call of a tool may use up.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The folder of components (`TOOLS_DIR`).
    pub folder: PathBuf,
    /// The file that grants things to tools (`TOOLS_POLICY`).
    pub policy: PathBuf,
    /// The folder for compiled components (`TOOLS_CACHE_DIR`). Absent when neither it nor the platform's own
    /// variables name one: then every start compiles.
    pub cache: Option<PathBuf>,
    /// How long one call may take (`TOOL_TIMEOUT_MS`).
    pub timeout: Duration,
    /// How much memory one call may use (`TOOL_MEMORY_BYTES`).
    pub memory_bytes: usize,
    /// How much one call may return (`TOOL_OUTPUT_BYTES`).
    pub output_bytes: usize,
    /// How many calls of one component may run at once (`TOOL_COMPONENT_CONCURRENCY`).
    pub component_concurrency: u32,
    /// Whether instructions are counted (`TOOL_FUEL_METERING`).
    pub fuel_metering: bool,
}

impl Tools {
    /// Reads nothing but what concerns tools, for commands that work without a model.
    pub fn from_vars(vars: &impl Vars) -> Result<Self, Problems> {
        reader::collect(vars, Self::read)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let folder = reader.value(&TOOLS_DIR, |text| Some(PathBuf::from(text)));
        let policy = reader.path(&TOOLS_POLICY);
        let cache = reader.path(&TOOLS_CACHE_DIR);
        let timeout = reader.duration(&TOOL_TIMEOUT_MS);
        let memory_bytes = reader.number(&TOOL_MEMORY_BYTES);
        let output_bytes = reader.number(&TOOL_OUTPUT_BYTES);
        let component_concurrency = reader.number(&TOOL_COMPONENT_CONCURRENCY);
        let fuel_metering = reader.switch(&TOOL_FUEL_METERING);
        let platform_cache = platform_cache(reader);
        let folder = folder?;
        Ok(Self {
            policy: policy?.unwrap_or_else(|| folder.join("policy.toml")),
            folder,
            cache: cache?.or(platform_cache),
            timeout: timeout?,
            memory_bytes: memory_bytes?,
            output_bytes: output_bytes?,
            component_concurrency: component_concurrency?,
            fuel_metering: fuel_metering?,
        })
    }
}

/// Where the platform wants caches to be (XDG base directory specification).
fn platform_cache(reader: &Reader<'_>) -> Option<PathBuf> {
    let caches = reader.ambient_folder("XDG_CACHE_HOME");
    let home = reader.ambient_folder("HOME");
    caches.or_else(|| Some(home?.join(".cache"))).map(|caches| caches.join("agent-host"))
}
