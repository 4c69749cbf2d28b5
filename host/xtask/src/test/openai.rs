//! The official Python SDK of OpenAI, which `tests/it/openai_clients` uses as users do, in a virtual environment below target/.
//! The one for Node is among the packages of tests/clients, which `peers.rs` installs.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use super::debian;
use crate::run::{run, succeeds};

/// Pinned: its readers refuse what they do not expect.
const VERSION: &str = "3.54.0";

/// Where it goes, seen from the root of the repository. The tests look for it there.
const PLACE: &str = "target/test-servers/openai";

/// Sees to it that the SDK's pinned version is there.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    let place = repository.join(PLACE);
    if is_there(&place) {
        return Ok(());
    }
    eprintln!(
        "xtask: the tests need the Python package openai {VERSION}; installing it from PyPI into {PLACE}"
    );
    if !succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"])) {
        debian::install(
            &["python3", "python3-venv"],
            "the tests",
            "python3 (3.10 or newer) with venv and pip",
        )?;
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
    let package = format!("openai=={VERSION}");
    run(Command::new(place.join("bin/python3")).args(["-m", "pip", "install", "--quiet", &package]))?;
    ensure!(is_there(&place), "pip installed {package}, but it cannot be imported");
    Ok(())
}

/// Asks its own Python, because what a virtual environment was made with may be gone.
fn is_there(place: &Path) -> bool {
    let asks = format!("import openai; assert openai.__version__ == '{VERSION}'");
    succeeds(Command::new(place.join("bin/python3")).args(["-c", &asks]))
}
