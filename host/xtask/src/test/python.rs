//! Pinned Python packages, each in a virtual environment of its own below target/.

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

/// A server that speaks MongoDB's protocol, which the crate `test-servers` starts. Pinned: it is young, and
/// the tests hold what this one does.
pub(super) const DOCUMENT_STORE: Environment = Environment {
    place: "target/test-servers/secantusdb",
    packages: &[("SecantusDB", "0.7.0b3")],
    modules: &[],
};

/// What else the tests use, each apart: they want libraries of different ages. Pinned: readers refuse what
/// they do not expect, and other versions ask for other things.
const OTHERS: [Environment; 5] = [
    // The official SDK of OpenAI, and LangChain's client on it: `tests/it/openai_clients`.
    Environment {
        place: "target/test-servers/openai",
        packages: &[("openai", "3.54.0"), ("langchain-openai", "1.7.3")],
        modules: &["openai", "langchain_openai"],
    },
    Environment {
        place: "target/test-servers/instructor",
        packages: &[("instructor", "1.17.0"), ("openai", "3.3.0")],
        modules: &["instructor"],
    },
    // The SDK of the Model Context Protocol, which decides which versions are spoken: `tests/it/mcp`.
    Environment { place: "target/test-servers/mcp", packages: &[("mcp", "2.3.0")], modules: &["mcp"] },
    // A fuzzer and a generator that read the OpenAPI document: `tests/it/openapi_clients`.
    Environment {
        place: "target/test-servers/openapi",
        packages: &[("schemathesis", "4.32.5"), ("openapi-python-client", "0.29.1"), ("mypy", "2.4.1")],
        modules: &["schemathesis", "openapi_python_client", "mypy"],
    },
    // Has Kubernetes' schemas in it, and a reader of YAML beside it: `tests/it/deployment`.
    Environment {
        place: "target/test-servers/kubernetes-validate",
        packages: &[("kubernetes-validate", "1.37.0")],
        modules: &["yaml"],
    },
];

/// Sees to it that all of these are there.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    OTHERS.iter().try_for_each(|environment| environment.find_or_install(repository))
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
