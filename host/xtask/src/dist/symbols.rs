//! Takes the symbols and the debug information out of a binary, into a file beside it that backtraces, gdb
//! and perf find again.
//!
//! cargo's own settings cannot do that on Linux: `strip` throws it away, and what `split-debuginfo` writes is
//! of no use without the part that `strip` takes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::run::{run, succeeds};

/// What became of a binary.
pub(super) enum Split {
    /// The binary's debug information is in this file, and the binary names that file (`.gnu_debuglink`).
    Into(PathBuf),
    /// Nothing: no tool for it is here.
    NoObjcopy,
}

/// Splits a binary in two: itself stripped, and a file of its name with `.debug` at the end, which has the
/// names of functions, files and lines. Without that file beside it a backtrace has addresses only.
pub(super) fn split(binary: &Path) -> anyhow::Result<Split> {
    let Some(objcopy) = find_objcopy() else { return Ok(Split::NoObjcopy) };
    let folder = binary.parent().context("a binary is in a folder")?;
    let name = binary.file_name().context("a binary has a name")?;
    let with = |ending: &str| {
        let mut name = name.to_owned();
        name.push(ending);
        name
    };
    let (debug, aside) = (with(".debug"), with(".stripped"));
    let mut link = OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    let objcopy = || {
        let mut command = Command::new(&objcopy);
        // The link is a file's name without a folder: debuggers look beside the binary.
        command.current_dir(folder);
        command
    };
    run(objcopy().arg("--only-keep-debug").args([name, &debug]))?;
    run(objcopy().arg("--strip-all").arg(link).args([name, &aside]))?;
    // Renamed, not written over: cargo keeps the same file under another name, and links it here again.
    fs::rename(folder.join(&aside), binary).with_context(|| format!("writing {}", binary.display()))?;
    Ok(Split::Into(folder.join(debug)))
}

/// The one of binutils, which come with every C compiler, or the one of rustup's toolchains.
fn find_objcopy() -> Option<PathBuf> {
    let answers = |objcopy: &PathBuf| succeeds(Command::new(objcopy).arg("--version"));
    [PathBuf::from("objcopy")].into_iter().chain(objcopy_of_rustup()).find(answers)
}

fn objcopy_of_rustup() -> Option<PathBuf> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output().ok()?;
    let libraries = String::from_utf8(output.stdout).ok()?;
    Some(Path::new(libraries.trim()).parent()?.join("bin/rust-objcopy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtrace_has_names_and_lines_with_the_debug_file_and_only_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let code = "#[inline(never)] fn dig() { panic!(\"on purpose\") }\nfn main() {\n    dig();\n}\n";
        fs::write(path("main.rs"), code).unwrap();
        let mut rustc = Command::new("rustc");
        rustc.current_dir(folder.path()).args(["-Cdebuginfo=line-tables-only", "main.rs", "-o", "app"]);
        assert!(rustc.status().unwrap().success());
        fs::hard_link(path("app"), path("cargo's")).unwrap();
        let whole = fs::metadata(path("app")).unwrap().len();
        let backtrace = || {
            let output = Command::new(path("app")).env("RUST_BACKTRACE", "1").output().unwrap();
            String::from_utf8(output.stderr).unwrap()
        };

        let Split::Into(debug) = split(&path("app")).unwrap() else { panic!("no objcopy") };
        assert_eq!(debug, path("app.debug"));
        assert!(fs::metadata(path("app")).unwrap().len() < whole / 2, "most of it was symbols");
        assert_eq!(fs::metadata(path("cargo's")).unwrap().len(), whole, "cargo's own file is as it was");
        let has_both = |text: &str| text.contains("main::dig") && text.contains("main.rs:3");
        assert!(has_both(&backtrace()), "{}", backtrace());
        fs::remove_file(debug).unwrap();
        let without = backtrace();
        assert!(!without.contains("main::dig") && !without.contains("main.rs:3"), "{without}");
        assert!(without.contains("main.rs:1"), "the panic itself says where it was: {without}");
    }
}
