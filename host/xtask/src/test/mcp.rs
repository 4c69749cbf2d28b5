//! The official clients of the Model Context Protocol that the service is tested with: the TypeScript SDK and
//! the inspector in tests/mcp/, as its lock file names them, and the Python SDK.

use std::path::Path;

use super::peers;
use super::python::Environment;

/// Pinned: it decides which versions of the protocol are spoken. `tests/it/mcp` looks for it there.
const SDK: Environment =
    Environment { place: "target/test-servers/mcp", packages: &[("mcp", "2.3.0")], modules: &["mcp"] };

/// Sees to it that all of them are there.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    peers::install_packages(&repository.join("tests/mcp"))?;
    SDK.find_or_install(repository)
}
