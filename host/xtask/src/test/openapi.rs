//! What is made from the service's OpenAPI document in `tests/it/openapi_clients`: generators of clients and
//! a fuzzer. Those for Node are the packages of tests/openapi/.

use std::path::Path;

use super::peers;
use super::python::Environment;

/// Pinned: another version of the fuzzer sends other requests, and another generator has other names.
const PYTHON: Environment = Environment {
    place: "target/test-servers/openapi",
    packages: &[("schemathesis", "4.32.5"), ("openapi-python-client", "0.29.1"), ("mypy", "2.4.1")],
    modules: &["schemathesis", "openapi_python_client", "mypy"],
};

/// Sees to it that all of them are there.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    peers::install_packages(&repository.join("tests/openapi"))?;
    PYTHON.find_or_install(repository)
}
