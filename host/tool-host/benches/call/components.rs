//! Components that this bench makes of others: versions of one tool, and tools with names of their own.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// The tool of the component `calculator`.
const CALCULATE: &str = "calculate";

/// What `cargo xtask guests` built.
pub(crate) fn component(folder: &str, name: &str) -> Vec<u8> {
    let file = target().join(folder).join(format!("{name}.wasm"));
    fs::read(&file).unwrap_or_else(|_| panic!("{}: run `cargo xtask guests` first", file.display()))
}

/// What `cargo xtask bench call` built of the template for new tools, or why it did not.
pub(crate) fn greeter(language: &str) -> Result<Vec<u8>, String> {
    let file = target().join("bench-tools").join(format!("greeter-{language}.wasm"));
    fs::read(&file).map_err(|_| {
        let why = fs::read_to_string(file.with_extension("missing"));
        why.unwrap_or_else(|_| format!("{} is not there: run `cargo xtask bench call`", file.display()))
    })
}

/// Another version of a component: it does the same and has another digest.
pub(crate) fn version_of(wasm: &[u8], number: u32) -> Vec<u8> {
    // A custom section: its id, its length, the length of its name, the name and what it holds.
    let mut bytes = wasm.to_vec();
    bytes.extend([0, 10, 5]);
    bytes.extend(b"bench");
    bytes.extend(number.to_le_bytes());
    bytes
}

/// The calculator with a name for its tool that no other one has, so that many can serve side by side.
pub(crate) fn named(calculator: &[u8], number: usize) -> Vec<u8> {
    let name = format!("calcul_{number:02}");
    let mut bytes = calculator.to_vec();
    let places: Vec<_> =
        (0..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(CALCULATE.as_bytes())).collect();
    assert!(!places.is_empty() && name.len() == CALCULATE.len(), "the calculator's tool is `{CALCULATE}`");
    for at in places {
        bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
    }
    bytes
}

/// As many such tools, in a folder.
pub(crate) fn put_named(folder: &Path, numbers: std::ops::Range<usize>) {
    let calculator = component("tools", "calculator");
    for number in numbers {
        fs::write(folder.join(format!("calculator-{number:02}.wasm")), named(&calculator, number)).unwrap();
    }
}

/// `sha256:` and the digest, as receipts have it.
pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(bytes))
}

/// Compiled components that are kept from run to run: compiling them is not what is measured.
pub(crate) fn kept_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-call-compiled")
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target")
}
