//! What the tests of `agent-tool build` need that is large: componentize-js and esbuild, as the template of a
//! new tool pins them, in a folder below target/. componentize-py they install themselves.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::python;
use crate::run::run;

/// Where they go, seen from the root of the repository.
const PLACE: &str = "target/test-servers/componentize-js";

/// Sees to it that the packages are there.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    python::find_or_install_venv()?;
    let place = repository.join(PLACE);
    let template = repository.join("host/tool-build/templates/js/package.json");
    let manifest = fs::read_to_string(&template).context("reading the template of a tool in JavaScript")?;
    let manifest = manifest.replace("{{name}}", "toolchain").replace("{{features}}", "");
    let present = place.join("package.json");
    let installed = place.join("node_modules/.package-lock.json").exists();
    if installed && fs::read_to_string(&present).is_ok_and(|present| present == manifest) {
        return Ok(());
    }
    eprintln!("xtask: installing componentize-js and esbuild into {PLACE}");
    fs::create_dir_all(&place)?;
    fs::write(&present, manifest)?;
    run(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(&place))
}
