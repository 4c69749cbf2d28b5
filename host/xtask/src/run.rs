//! Runs other programs, and says which one failed.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// What `cargo run` tells the program it runs about that program's own package.
const OF_OUR_PACKAGE: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// cargo in a folder. It is the one that runs us, so that all use the same toolchain.
///
/// Without what we were told of our own package: build scripts that read these variables (ring's does) would
/// run again, and half of the libraries be built again, whenever a plain `cargo build` and an xtask take
/// turns.
pub(crate) fn cargo<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(folder).args(arguments);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| OF_OUR_PACKAGE.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command to its end, its output shown as it comes.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    eprintln!("xtask: {}", shown(command));
    let status = command.status().with_context(|| format!("starting {}", shown(command)))?;
    ensure!(status.success(), "{} failed ({status})", shown(command));
    Ok(())
}

/// Whether a command can be run and succeeds, its output hidden.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
