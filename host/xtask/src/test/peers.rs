//! The Node programs that the service is tested with, and their packages.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use anyhow::ensure;

use super::debian;
use crate::run::{run, succeeds};

/// Oldest Node that runs the peers.
const NODE: u32 = 20;

/// Where the packages of the console's browser are.
pub(super) const CONSOLE: &str = "tests/console";

/// Where they are, each with a lock file of its own.
const FOLDERS: [&str; 5] = ["tests/peers", "tests/clients", "tests/mcp", "tests/openapi", CONSOLE];

/// Sees to it that Node and the packages are there, as their lock files name them.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    FOLDERS.into_iter().try_for_each(|folder| install_packages(&repository.join(folder)))
}

/// Sees to it that Node and the packages of any folder of tests/ are there, as its lock file names them.
pub(crate) fn install_packages(folder: &Path) -> anyhow::Result<()> {
    if !folder.join("package.json").exists() {
        return Ok(());
    }
    let npm_is_there = || succeeds(Command::new("npm").arg("--version"));
    if node_version().is_none() || (!is_installed(folder) && !npm_is_there()) {
        debian::install(&["nodejs", "npm"], "the tests", &format!("Node {NODE} or newer, with npm"))?;
    }
    let version = node_version().unwrap_or_default();
    ensure!(version >= NODE, "the tests need Node {NODE} or newer, and this one is {version}: install it");
    if is_installed(folder) {
        return Ok(());
    }
    eprintln!("xtask: installing the packages of {}", folder.display());
    run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(folder))
}

/// First number of the version of Node.
fn node_version() -> Option<u32> {
    let output = Command::new("node").arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// npm writes down last what it has installed.
fn is_installed(folder: &Path) -> bool {
    let changed = |file: &str| -> Option<SystemTime> { folder.join(file).metadata().ok()?.modified().ok() };
    changed("node_modules/.package-lock.json")
        .is_some_and(|installed| changed("package-lock.json").is_some_and(|locked| installed >= locked))
}
