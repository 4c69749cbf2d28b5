//! The Python clients of OpenAI that `tests/it/openai_clients` uses as users do, the official SDK and
//! LangChain's. Those for Node are the packages of tests/clients, which `peers.rs` installs.

use super::python::Environment;

/// Pinned: their readers refuse what they do not expect.
pub(super) const CLIENTS: Environment = Environment {
    place: "target/test-servers/openai",
    packages: &[("openai", "3.54.0"), ("langchain-openai", "1.7.3")],
    modules: &["openai", "langchain_openai"],
};
