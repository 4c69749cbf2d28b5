//! Pinned Python packages in a virtual environment of their own below target/.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use super::debian;
use crate::run::{run, succeeds};

/// An environment, and what is in it.
pub(crate) struct Environment {
    /// Where it goes, seen from the root of the repository.
    pub(crate) place: &'static str,
    /// The packages with their versions.
    pub(crate) packages: &'static [(&'static str, &'static str)],
    /// What can be imported when they are there.
    pub(crate) modules: &'static [&'static str],
}

impl Environment {
    /// Sees to it that the pinned versions are there.
    pub(crate) fn find_or_install(&self, repository: &Path) -> anyhow::Result<()> {
        let python = repository.join(self.place).join("bin/python3");
        if self.is_there(&python) {
            return Ok(());
        }
        let pinned = |(name, version): &(&str, &str)| format!("{name}=={version}");
        let packages: Vec<_> = self.packages.iter().map(pinned).collect();
        let named = packages.join(" and ");
        eprintln!("xtask: the tests need {named} of Python; installing from PyPI into {}", self.place);
        find_or_install_venv()?;
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(repository.join(self.place)))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(&packages))?;
        ensure!(self.is_there(&python), "pip installed {named}, but it cannot be used");
        Ok(())
    }

    /// Asks its own Python, because what a virtual environment was made with may be gone.
    fn is_there(&self, python: &Path) -> bool {
        let imports = self.modules.iter().map(|module| format!("import {module}\n"));
        let versions = self
            .packages
            .iter()
            .map(|(name, version)| format!("assert m.version('{name}') == '{version}'\n"));
        let asks: String = imports.chain(versions).collect();
        succeeds(Command::new(python).args(["-c", &format!("import importlib.metadata as m\n{asks}")]))
    }
}

/// Sees to it that virtual environments can be made.
pub(super) fn find_or_install_venv() -> anyhow::Result<()> {
    if succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"])) {
        return Ok(());
    }
    let what = "python3 (3.10 or newer) with venv and pip";
    debian::install(&["python3", "python3-venv"], "the tests", what)
}
