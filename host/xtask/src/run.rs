//! Runs other programs, and says which one failed.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// cargo in a folder. It is the one that runs us, so that all use the same toolchain.
pub(crate) fn cargo<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(folder).args(arguments);
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
