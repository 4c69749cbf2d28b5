//! A compiler that lints and documents what it compiles.
//!
//! `cargo clippy` and `cargo doc` check every library once more before they look at our crates, because what
//! they make is of no use to a build. So `cargo xtask ci` builds with a program of its own as cargo's
//! `rustc-workspace-wrapper`, which cargo starts for the crates of a workspace only: it has clippy's driver
//! compile, which is rustc with more lints, and then rustdoc read the same crate with the same arguments. A
//! warning of either one fails the build.
//!
//! The program is a copy of this executable, told apart by its name: the build replaces the executable
//! itself.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context as _;

/// The name that the copy has, and is recognized by.
const NAME: &str = "linting-compiler";

/// No warning passes.
const DENIED: &[&str] = &["-D", "warnings"];

/// Options of rustc that take the next argument, and that rustdoc has no use for: how code is generated, and
/// where it goes.
const RUSTC_ONLY: [&str; 2] = ["-C", "--out-dir"];

/// The copy, in a repository's target folder.
pub(crate) struct LintingCompiler {
    path: PathBuf,
}

impl LintingCompiler {
    /// Puts the copy into its place.
    pub(crate) fn install(repository: &Path) -> anyhow::Result<Self> {
        Ok(Self { path: copy_as(NAME, repository)? })
    }

    /// The arguments that have cargo compile with it. They are given to every command that builds, because
    /// what another compiler made is built again. Nothing is kept for a next build: CI begins with an empty
    /// folder. And there are no tables of lines, an eighth of what compiling and linking takes: nobody debugs
    /// there, and a panic names its line without.
    pub(crate) fn cargo_arguments(&self) -> [OsString; 6] {
        let mut wrapper = OsString::from("build.rustc-workspace-wrapper='");
        wrapper.push(&self.path);
        wrapper.push("'");
        let [incremental, debug] = ["profile.dev.incremental=false", "profile.dev.debug=false"];
        ["--config".into(), wrapper, "--config".into(), incremental.into(), "--config".into(), debug.into()]
    }
}

/// Copies this executable into a repository's target folder under another name.
pub(crate) fn copy_as(name: &str, repository: &Path) -> anyhow::Result<PathBuf> {
    let path = repository.join("target").join(name);
    let this = std::env::current_exe().context("finding this executable")?;
    // Removed first: a program that is running cannot be written over.
    if path.exists() {
        fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    fs::copy(&this, &path).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// Whether this process was started under that name.
pub(crate) fn is_called(name: &str) -> bool {
    let program = std::env::args_os().next();
    program.is_some_and(|program| Path::new(&program).file_name() == Some(OsStr::new(name)))
}

/// Whether cargo started this process as a compiler.
pub(crate) fn is_wanted() -> bool {
    is_called(NAME)
}

/// Compiles, lints and documents as the command line says, which is the path of rustc and its arguments.
pub(crate) fn compile() -> anyhow::Result<ExitCode> {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    check_only_if_bench(&mut arguments);
    let of_rustdoc = arguments_of_rustdoc(arguments.get(1..).unwrap_or_default());
    // Said here and not in CLIPPY_ARGS: cargo would see that this variable is not its own, and build
    // everything again.
    let denied = if has(&arguments, "--crate-type") || has(&arguments, "--test") { DENIED } else { &[] };
    let compiled = succeeds(beside_cargo("clippy-driver").args(&arguments).args(denied))?;
    let passed = match of_rustdoc {
        Some(arguments) if compiled => document(&arguments)?,
        _ => compiled,
    };
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Has a bench checked and neither translated nor linked: no test runs it, and `cargo xtask bench` builds its
/// own.
fn check_only_if_bench(arguments: &mut [OsString]) {
    let is_of_bench = |argument: &OsString| {
        let path = Path::new(argument);
        path.extension() == Some(OsStr::new("rs")) && path.iter().any(|part| part == "benches")
    };
    if arguments.iter().any(is_of_bench) {
        for argument in arguments.iter_mut().filter(|argument| *argument == "--emit=dep-info,link") {
            *argument = "--emit=dep-info,metadata".into();
        }
    }
}

/// The arguments with which rustdoc reads what rustc compiles with these; none for tests, for build scripts
/// and for what only asks rustc something.
fn arguments_of_rustdoc(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let has = |wanted: &str| has(arguments, wanted);
    let starts = |wanted: &str| {
        let has_prefix = |argument: &OsString| argument.to_str().is_some_and(|text| text.starts_with(wanted));
        arguments.iter().any(has_prefix)
    };
    if !has("--crate-type") || !starts("--emit=") || has("--test") || has("build_script_build") {
        return None;
    }
    let mut kept = vec![];
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if RUSTC_ONLY.iter().any(|option| argument == option) {
            rest.next();
        } else if !argument.to_str().is_some_and(|text| text.starts_with("--emit=")) {
            kept.push(argument.clone());
        }
    }
    Some(kept)
}

fn has(arguments: &[OsString], wanted: &str) -> bool {
    arguments.iter().any(|argument| argument == wanted)
}

fn document(arguments: &[OsString]) -> anyhow::Result<bool> {
    let folder = std::env::current_exe()?.with_file_name("doc");
    let options = ["--document-private-items", "--out-dir"];
    succeeds(beside_cargo("rustdoc").args(arguments).args(DENIED).args(options).arg(folder))
}

/// A program of the toolchain that builds us.
fn beside_cargo(program: &str) -> Command {
    Command::new(Path::new(env!("CARGO")).with_file_name(program))
}

fn succeeds(command: &mut Command) -> anyhow::Result<bool> {
    let status = command.status().with_context(|| format!("starting {}", command.get_program().display()))?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documented(line: &str) -> Option<String> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let kept = arguments_of_rustdoc(&arguments)?;
        Some(kept.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn rustdoc_reads_libraries_and_programs_as_rustc_does() {
        let line = "--crate-name a src/lib.rs --crate-type lib --emit=dep-info,metadata,link -C debuginfo=1 --warn=x --out-dir t \
                    -L dependency=t --extern b=t/b.rmeta";
        let expected =
            "--crate-name a src/lib.rs --crate-type lib --warn=x -L dependency=t --extern b=t/b.rmeta";
        assert_eq!(documented(line).as_deref(), Some(expected));
    }

    #[test]
    fn only_benches_are_not_linked() {
        let emitted = |source: &str| {
            let line = format!("rustc --crate-name a {source} --emit=dep-info,link --cfg test");
            let mut arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            check_only_if_bench(&mut arguments);
            arguments[4].clone()
        };
        assert_eq!(emitted("tests/benches/http/main.rs"), "--emit=dep-info,metadata");
        assert_eq!(emitted("tests/it/main.rs"), "--emit=dep-info,link");
    }

    #[test]
    fn rustdoc_reads_neither_tests_nor_build_scripts_nor_questions() {
        for line in [
            "--crate-name a src/lib.rs --emit=dep-info,link --test",
            "--crate-name a src/lib.rs --crate-type lib --emit=dep-info,link --test",
            "--crate-name build_script_build build.rs --crate-type bin --emit=dep-info,link",
            "- --crate-name ___ --print=file-names --crate-type bin",
            "-vV",
        ] {
            assert_eq!(documented(line), None, "{line}");
        }
    }
}
