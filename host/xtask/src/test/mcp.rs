//! The official clients of the Model Context Protocol that the service is tested with: the TypeScript SDK and the inspector in
//! tests/mcp/, as its lock file names them, and the Python SDK in a virtual environment below target/.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use super::{debian, peers};
use crate::run::{run, succeeds};

/// Pinned: it decides which versions of the protocol are spoken.
const VERSION: &str = "2.3.0";

/// Where it goes, seen from the root of the repository. `tests/it/mcp` looks for it there.
const PLACE: &str = "target/test-servers/mcp";

/// Sees to it that all of them are there.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    peers::install_packages(&repository.join("tests/mcp"))?;
    let place = repository.join(PLACE);
    if is_there(&place) {
        return Ok(());
    }
    eprintln!("xtask: the tests need the Python package mcp {VERSION}; installing it from PyPI into {PLACE}");
    if !succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"])) {
        let what = "python3 (3.10 or newer) with venv and pip";
        debian::install(&["python3", "python3-venv"], "the tests", what)?;
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
    let package = format!("mcp=={VERSION}");
    run(Command::new(place.join("bin/python3")).args(["-m", "pip", "install", "--quiet", &package]))?;
    ensure!(is_there(&place), "pip installed {package}, but it cannot be imported");
    Ok(())
}

/// Asks its own Python, because what a virtual environment was made with may be gone.
fn is_there(place: &Path) -> bool {
    let asks = format!("import importlib.metadata as m, mcp; assert m.version('mcp') == '{VERSION}'");
    succeeds(Command::new(place.join("bin/python3")).args(["-c", &asks]))
}
