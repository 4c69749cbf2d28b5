//! Chromium, in which the tests use the console as a person does, and the packages of tests/console/ that
//! drive it.

use std::path::Path;

use super::{debian, peers};

/// Sees to it that the browser is there, with a font, and what drives it.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    peers::install_packages(&repository.join("tests/console"))?;
    debian::find_or_install("chromium", &["chromium", "fonts-liberation"])
}
