//! Where cargo and `cargo xtask guests` have put what the tests start and load.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().expect("the repository that this was built in")
}

/// The binary under test: beside the folder that this test's own program is in, or what `BENCH_BINARY` names.
/// cargo knows no dependency of one package's tests on another package's binary, so it has to be built first.
#[expect(clippy::disallowed_methods, reason = "a setting of the benches, like BENCH_BASELINE")]
pub fn agent_host() -> PathBuf {
    if let Some(named) = env::var_os("BENCH_BINARY") {
        return named.into();
    }
    built("agent-host")
}

/// The author's program, beside it.
pub fn agent_tool() -> PathBuf {
    built("agent-tool")
}

fn built(name: &str) -> PathBuf {
    let binary = profile_folder().join(name);
    assert!(
        binary.is_file(),
        "there is no {}: run `cargo build -p {name}` first (`cargo xtask test` does)",
        binary.display()
    );
    binary
}

/// A component that `cargo xtask guests` has built.
pub(crate) fn built_component(folder: &str, name: &str) -> Vec<u8> {
    let path = repository().join("target").join(folder).join(format!("{name}.wasm"));
    fs::read(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; run `cargo xtask guests` first (`cargo xtask test` does)", path.display())
    })
}

/// Compiled components, shared by all services of all runs: compiling is paid for once.
pub(crate) fn shared_compile_cache() -> PathBuf {
    profile_folder().join("../tmp/acceptance-compiled")
}

/// `target/debug` or its like.
fn profile_folder() -> PathBuf {
    let test = env::current_exe().expect("the path of this test's program");
    let folder = test.parent().expect("a program is in a folder");
    // `target/debug/deps` for tests.
    let folder =
        if folder.ends_with("deps") { folder.parent().expect("deps is in a folder") } else { folder };
    folder.to_owned()
}
