//! The Python clients of OpenAI that `tests/it/openai_clients` uses as users do, the official SDK and LangChain's, in a virtual
//! environment below target/. Those for Node are the packages of tests/clients, which `peers.rs` installs.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use super::debian;
use crate::run::{run, succeeds};

/// Pinned: their readers refuse what they do not expect.
const PACKAGES: [(&str, &str); 2] = [("openai", "3.54.0"), ("langchain-openai", "1.7.3")];

/// Where it goes, seen from the root of the repository. The tests look for it there.
const PLACE: &str = "target/test-servers/openai";

/// Sees to it that the pinned versions are there.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    let place = repository.join(PLACE);
    if is_there(&place) {
        return Ok(());
    }
    let packages = PACKAGES.map(|(name, version)| format!("{name}=={version}"));
    eprintln!("xtask: the tests need {} of PyPI; installing them into {PLACE}", packages.join(" and "));
    if !succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"])) {
        debian::install(
            &["python3", "python3-venv"],
            "the tests",
            "python3 (3.10 or newer) with venv and pip",
        )?;
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
    run(Command::new(place.join("bin/python3")).args(["-m", "pip", "install", "--quiet"]).args(&packages))?;
    ensure!(is_there(&place), "pip installed {}, but they cannot be imported", packages.join(" and "));
    Ok(())
}

/// Asks its own Python, because what a virtual environment was made with may be gone.
fn is_there(place: &Path) -> bool {
    let asks = PACKAGES.map(|(name, version)| format!("assert m.version('{name}') == '{version}'; "));
    let asks = format!("import importlib.metadata as m, openai, langchain_openai; {}", asks.concat());
    succeeds(Command::new(place.join("bin/python3")).args(["-c", &asks]))
}
