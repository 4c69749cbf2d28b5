//! What the files in host/deploy/ are checked with: promtool and systemd-analyze of Debian, and the Python
//! package kubernetes-validate, which has Kubernetes' schemas in it and a reader of YAML beside it, in a
//! virtual environment below target/.

use std::path::Path;

use super::debian;
use super::python::Environment;

/// Pinned: it decides which versions of Kubernetes are known. `tests/it/deployment` looks for it there.
const VALIDATOR: Environment = Environment {
    place: "target/test-servers/kubernetes-validate",
    packages: &[("kubernetes-validate", "1.37.0")],
    modules: &["yaml"],
};

/// Sees to it that all of them are there.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    for (program, package) in [("promtool", "prometheus"), ("systemd-analyze", "systemd")] {
        debian::find_or_install(program, &[package])?;
    }
    VALIDATOR.find_or_install(repository)
}
