//! Chromium, in which the tests use the console as a person does, and the packages of tests/console/ that
//! drive it.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use super::{debian, peers};
use crate::run::succeeds;

/// Sees to it that the browser is there, with a font, and what drives it.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    peers::install_packages(&repository.join("tests/console"))?;
    if is_there() {
        return Ok(());
    }
    debian::install(&["chromium", "fonts-liberation"], "the tests", "chromium")?;
    ensure!(is_there(), "apt-get installed chromium, but it cannot be started");
    Ok(())
}

fn is_there() -> bool {
    succeeds(Command::new("chromium").arg("--version"))
}
