//! What the files in deploy/ are checked with: promtool and systemd-analyze of Debian, and the Python package
//! kubernetes-validate, which has Kubernetes' schemas in it and a reader of YAML beside it, in a virtual environment below
//! target/.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use super::debian;
use crate::run::{run, succeeds};

/// Pinned: it decides which versions of Kubernetes are known.
const VERSION: &str = "1.37.0";

/// Where it goes, seen from the root of the repository. `tests/it/deployment` looks for it there.
const PLACE: &str = "target/test-servers/kubernetes-validate";

/// Sees to it that all of them are there.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    for (program, package) in [("promtool", "prometheus"), ("systemd-analyze", "systemd")] {
        if !succeeds(Command::new(program).arg("--version")) {
            debian::install(&[package], "the tests", program)?;
        }
    }
    let place = repository.join(PLACE);
    if is_there(&place) {
        return Ok(());
    }
    eprintln!("xtask: the tests need kubernetes-validate {VERSION}; installing it from PyPI into {PLACE}");
    if !succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"])) {
        debian::install(
            &["python3", "python3-venv"],
            "the tests",
            "python3 (3.10 or newer) with venv and pip",
        )?;
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
    let package = format!("kubernetes-validate=={VERSION}");
    run(Command::new(place.join("bin/python3")).args(["-m", "pip", "install", "--quiet", &package]))?;
    ensure!(is_there(&place), "pip installed {package}, but it cannot be imported");
    Ok(())
}

/// Asks its own Python, because what a virtual environment was made with may be gone.
fn is_there(place: &Path) -> bool {
    let asks = format!(
        "import importlib.metadata as m, yaml; assert m.version('kubernetes-validate') == '{VERSION}'"
    );
    succeeds(Command::new(place.join("bin/python3")).args(["-c", &asks]))
}
