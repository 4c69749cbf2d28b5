//! Packages of Debian, for those who may install them.

use std::process::Command;

use anyhow::bail;

use crate::run::{run, succeeds};

/// Installs packages, or fails and says that `who` needs `what`, and how to come by it.
pub(super) fn install(packages: &[&str], who: &str, what: &str) -> anyhow::Result<()> {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let has_apt = succeeds(Command::new("apt-get").arg("--version"));
    let names = packages.join(" ");
    if !(is_root && has_apt) {
        bail!("{who} need {what}: install it, on Debian with `apt-get install {names}`");
    }
    eprintln!("xtask: {who} need {what}; installing {names} with apt-get");
    let apt = |arguments: &[&str]| {
        run(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
}
