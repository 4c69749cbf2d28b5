//! The Python clients of OpenAI that `tests/it/openai_clients` uses as users do: the official SDK,
//! LangChain's and Instructor. Those for Node are the packages of tests/clients, which `peers.rs` installs.

use std::path::Path;

use super::python::Environment;

/// Pinned: their readers refuse what they do not expect.
const CLIENTS: Environment = Environment {
    place: "target/test-servers/openai",
    packages: &[("openai", "3.54.0"), ("langchain-openai", "1.7.3")],
    modules: &["openai", "langchain_openai"],
};

/// Apart, because it wants older libraries than the SDK of today has.
const INSTRUCTOR: Environment = Environment {
    place: "target/test-servers/instructor",
    packages: &[("instructor", "1.17.0"), ("openai", "3.3.0")],
    modules: &["instructor"],
};

/// Sees to it that all of them are there.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    CLIENTS.find_or_install(repository)?;
    INSTRUCTOR.find_or_install(repository)
}
