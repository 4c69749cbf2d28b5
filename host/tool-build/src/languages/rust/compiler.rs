//! Which compiler builds the tools. What is installed is used before anything is fetched.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{Progress, ask};
use crate::{Error, Result};

/// The target tools are built for: no WASI, so nothing to import but the contract.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// How long fetching the target from rustup may take.
const RUSTUP_PATIENCE: Duration = Duration::from_secs(60);
/// How often to look whether it is done.
const RUSTUP_POLL: Duration = Duration::from_millis(50);

/// Where Debian puts its compiler, beside rustup's.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
/// The linker that Debian's compiler looks for, a link into a package of its own.
const DEBIAN_LINKER: &str = "/usr/bin/rust-lld";
/// Debian's packages of a compiler recent enough to build browsers, and of the standard library's source.
const DEBIAN_PACKAGES: &str = "rustc-web rust-web-src";

/// The oldest compiler that the tools build with: the whole repository asks for the same.
const LEAST_VERSION: &str = env!("CARGO_PKG_RUST_VERSION");

/// Which compiler to insist on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The default compiler, with the target that rustup adds to it.
    Rustup,
    /// Debian's compiler, which builds the standard library too.
    Debian,
}

/// What may be installed on the way to a compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Install {
    /// The target, by rustup: a part of a toolchain that is there.
    Target,
    /// The target, and Debian's packages when the command is run by root: for machines that only build.
    Packages,
}

/// A compiler that can build for [`TARGET`].
#[derive(Debug)]
pub enum Compiler {
    /// The default one: it has the target's standard library.
    WithTarget,
    /// One that comes with the source of the standard library, which is built along with the tools.
    FromSource {
        rustc: PathBuf,
        /// A linker for wasm; Debian's compiler comes without.
        linker: PathBuf,
    },
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithTarget => write!(f, "the default compiler and its {TARGET} target"),
            Self::FromSource { rustc, .. } => {
                write!(f, "{} and the standard library's source", rustc.display())
            }
        }
    }
}

/// Finds a compiler or gets one, as seen from `folder`, whose toolchain file counts.
///
/// # Errors
/// Without any: says what stands in each way and what would help.
pub fn find(
    choice: Option<Choice>,
    install: Install,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<Compiler> {
    let ways: [(Choice, Way); 4] = [
        (Choice::Rustup, |place, _| find_target(place)),
        (Choice::Debian, |place, _| find_debian(place)),
        (Choice::Rustup, fetch_target),
        (Choice::Debian, fetch_debian),
    ];
    let mut error = Error::new(format!("there is no Rust compiler for {TARGET} here"))
        .why("tools are built for a target that the compiler on the PATH has no standard library for");
    for (at, (kind, attempt)) in ways.into_iter().enumerate() {
        let is_last_resort = at == ways.len() - 1;
        if choice.is_some_and(|choice| choice != kind) || (is_last_resort && install == Install::Target) {
            continue;
        }
        match attempt(folder, progress) {
            Ok(compiler) => return Ok(compiler),
            Err(obstacle) => error = error.mend(obstacle),
        }
    }
    Err(error)
}

impl Compiler {
    /// Makes cargo use this compiler.
    pub(super) fn equip(&self, cargo: &mut Command) {
        let Self::FromSource { rustc, linker } = self else { return };
        // Only cargo's part in building the standard library is unstable; rustc needs nothing unstable
        // for it.
        cargo
            .arg("-Zbuild-std=std,panic_abort")
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTC", rustc)
            .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
    }
}

/// A way to a compiler, or what stands in it and what would help.
type Way = fn(&Path, &dyn Progress) -> std::result::Result<Compiler, String>;

fn find_target(folder: &Path) -> std::result::Result<Compiler, String> {
    match ask("rustc", &["--print", "sysroot"], folder) {
        Some(sysroot) if Path::new(&sysroot).join("lib/rustlib").join(TARGET).is_dir() => {
            Ok(Compiler::WithTarget)
        }
        _ => Err(format!("the default compiler lacks the target: rustup target add {TARGET}")),
    }
}

fn find_debian(folder: &Path) -> std::result::Result<Compiler, String> {
    let has_source = ask(DEBIAN_RUSTC, &["--print", "sysroot"], folder)
        .is_some_and(|sysroot| Path::new(&sysroot).join("lib/rustlib/src/rust/library/std").is_dir());
    if !has_source {
        return Err(format!(
            "no {DEBIAN_RUSTC} with its library's source: apt-get install {DEBIAN_PACKAGES}"
        ));
    }
    let version = ask(DEBIAN_RUSTC, &["--version"], folder).unwrap_or_default();
    if !is_recent(&version) {
        return Err(format!(
            "{DEBIAN_RUSTC} is older than {LEAST_VERSION}: apt-get update && apt-get install {DEBIAN_PACKAGES}"
        ));
    }
    let linker = find_linker(folder).ok_or_else(|| {
        // Debian's link names the package that it leads to when that is installed.
        let package = fs::read_link(DEBIAN_LINKER).unwrap_or_else(|_| "lld".into());
        format!("no linker for wasm beside Debian's compiler: apt-get install {}", package.display())
    })?;
    Ok(Compiler::FromSource { rustc: DEBIAN_RUSTC.into(), linker })
}

/// Whether `rustc 1.96.0 (…)` is what the tools need.
fn is_recent(version: &str) -> bool {
    let number = |text: &str| -> Option<(u32, u32)> {
        let mut parts = text.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    };
    let found = version.split(' ').nth(1).and_then(number);
    found.is_some_and(|found| Some(found) >= number(LEAST_VERSION))
}

fn fetch_target(folder: &Path, progress: &dyn Progress) -> std::result::Result<Compiler, String> {
    progress.step(&format!("trying `rustup target add {TARGET}`"));
    let mut rustup = Command::new("rustup");
    rustup.current_dir(folder).args(["target", "add", TARGET]).stdout(Stdio::null()).stderr(Stdio::null());
    if succeeds_within(&mut rustup, RUSTUP_PATIENCE) {
        find_target(folder)
    } else {
        Err(format!("`rustup target add {TARGET}` failed; run it to see why"))
    }
}

fn fetch_debian(folder: &Path, progress: &dyn Progress) -> std::result::Result<Compiler, String> {
    let is_debian = Path::new("/etc/debian_version").exists();
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !(is_debian && is_root) {
        return Err(format!("`apt-get install {DEBIAN_PACKAGES}` takes a Debian system and its root user"));
    }
    let install = format!("apt-get update && apt-get install -y {DEBIAN_PACKAGES}");
    progress.step(&format!("running `{install}`"));
    match Command::new("sh").args(["-c", &install]).env("DEBIAN_FRONTEND", "noninteractive").status() {
        Ok(status) if status.success() => find_debian(folder),
        _ => Err(format!("`{install}` failed; its output stands above")),
    }
}

/// A linker for wasm: rustup's toolchains carry one each; Debian has it in a package.
fn find_linker(folder: &Path) -> Option<PathBuf> {
    let of_rustup = ask("rustc", &["--print", "target-libdir"], folder)
        .and_then(|libraries| Some(Path::new(&libraries).parent()?.join("bin/rust-lld")));
    of_rustup.into_iter().chain([DEBIAN_LINKER.into()]).find(|linker| linker.exists())
}

/// Runs a command for no longer than `patience`.
fn succeeds_within(command: &mut Command, patience: Duration) -> bool {
    let Ok(mut running) = command.spawn() else { return false };
    let start = Instant::now();
    while start.elapsed() < patience {
        if let Ok(Some(status)) = running.try_wait() {
            return status.success();
        }
        thread::park_timeout(RUSTUP_POLL);
    }
    let _ = running.kill();
    let _ = running.wait();
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_that_are_too_old_are_told_apart() {
        assert!(is_recent("rustc 1.96.0 (abc 2026-05-01) (built from a source tarball)"));
        assert!(is_recent(&format!("rustc {LEAST_VERSION}.0")) && is_recent("rustc 2.0.0"));
        for old in ["rustc 1.85.0 (4d91de4e4 2025-02-17)", "rustc 0.99.0", "rustc", "", "rustc x.y"] {
            assert!(!is_recent(old), "{old}");
        }
    }
}
