//! A server that speaks MongoDB's protocol: the Python package SecantusDB, in a virtual environment below
//! target/. The crate `test-servers` looks for it there.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use super::debian;
use crate::run::{run, succeeds};

/// Pinned: it is young, and the tests hold what this one does.
const VERSION: &str = "0.7.0b3";

/// Where it goes, seen from the root of the repository.
const PLACE: &str = "target/test-servers/secantusdb";

/// Sees to it that the server's pinned version is there.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    let place = repository.join(PLACE);
    if is_there(&place) {
        return Ok(());
    }
    eprintln!("xtask: the tests need SecantusDB {VERSION}; installing it from PyPI into {PLACE}");
    if !succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"])) {
        debian::install(
            &["python3", "python3-venv"],
            "the tests",
            "python3 (3.10 or newer) with venv and pip",
        )?;
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
    let package = format!("SecantusDB=={VERSION}");
    run(Command::new(place.join("bin/python3")).args(["-m", "pip", "install", "--quiet", &package]))?;
    ensure!(is_there(&place), "pip installed {package}, but it cannot be started");
    Ok(())
}

/// Asks its own Python, because what a virtual environment was made with may be gone.
fn is_there(place: &Path) -> bool {
    let asks = format!("import importlib.metadata as m; assert m.version('SecantusDB') == '{VERSION}'");
    succeeds(Command::new(place.join("bin/python3")).args(["-c", &asks]))
}
