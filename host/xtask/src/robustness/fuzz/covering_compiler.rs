//! A compiler that has our crates count which code is reached, for libFuzzer.
//!
//! Counting is a pass of LLVM that stable rustc knows as well (`-C passes`): a nightly one is needed for
//! sanitizers only, which find nothing in code without `unsafe`. Cargo starts this program for the crates of
//! the workspace, as its `rustc-workspace-wrapper`, so that no library is built once more.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context as _;

use crate::ci::linting_compiler::{copy_as, is_called};

/// The name that the copy of this executable has, and is recognized by.
const NAME: &str = "covering-compiler";

/// What is counted: blocks that were reached, and comparisons that failed. Overflows and assertions of a
/// debug build are found, too.
const COUNTED: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "-Coverflow-checks",
];

/// The arguments that have cargo compile with it.
pub(crate) fn cargo_arguments(repository: &Path) -> anyhow::Result<[OsString; 2]> {
    let mut wrapper = OsString::from("build.rustc-workspace-wrapper='");
    wrapper.push(copy_as(NAME, repository)?);
    wrapper.push("'");
    Ok(["--config".into(), wrapper])
}

/// Whether cargo started this process as that compiler.
pub(crate) fn is_wanted() -> bool {
    is_called(NAME)
}

/// Compiles as the command line says, which is the path of rustc and its arguments.
pub(crate) fn compile() -> anyhow::Result<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (rustc, rest) = arguments.split_first().context("the path of rustc")?;
    let status = Command::new(rustc).args(rest).args(counted(rest)).status().context("starting rustc")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is added to a compilation: nothing to that of a build script, which is run without libFuzzer, and to
/// questions.
fn counted(arguments: &[OsString]) -> &'static [&'static str] {
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    if has("build_script_build") || has("proc-macro") || !has("--crate-type") || has("___") {
        &[]
    } else {
        &COUNTED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_crates_are_counted_and_build_scripts_and_questions_are_not() {
        let is_counted = |line: &str| {
            let arguments: Vec<_> = line.split(' ').map(OsString::from).collect();
            !counted(&arguments).is_empty()
        };
        assert!(is_counted(
            "--crate-name json_schema --edition=2024 host/lib.rs --crate-type lib --emit=link"
        ));
        assert!(is_counted("--crate-name fuzz_coverage coverage.rs --crate-type bin --emit=link"));
        for line in [
            "--crate-name build_script_build build.rs --crate-type bin --emit=link",
            "--crate-name macros lib.rs --crate-type proc-macro --emit=link",
            "- --crate-name ___ --print=file-names --crate-type bin",
            "-vV",
        ] {
            assert!(!is_counted(line), "{line}");
        }
    }
}
