//! docker-registry: the tests publish to one of their own, and install from it.

use std::process::Command;

use anyhow::ensure;

use super::debian;
use crate::run::succeeds;

/// Sees to it that `docker-registry` is there.
pub(super) fn find_or_install() -> anyhow::Result<()> {
    if is_there() {
        return Ok(());
    }
    debian::install(&["docker-registry"], "the tests", "docker-registry")?;
    ensure!(is_there(), "apt-get installed docker-registry, but it cannot be started");
    Ok(())
}

fn is_there() -> bool {
    succeeds(Command::new("docker-registry").arg("--version"))
}
