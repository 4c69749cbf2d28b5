//! PgBouncer: the tests start one of their own. Debian 12 has a version that is refused, which is tested too;
//! the one that is used is built from the source that Debian 13 has, in some ten seconds.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context as _, ensure};

use super::debian;
use crate::run::{run, succeeds};

/// Where the crate `test-servers` looks for one that is newer than the distribution's.
const FOLDER: &str = "target/test-servers/pgbouncer";

/// The first version that keeps its clients' prepared statements apart.
const FIRST_FIT: (u32, u32) = (1, 21);

/// The release of Debian whose source is built: the first with a fit version.
const RELEASE: &str = "trixie";

/// Sees to it that `pgbouncer` is there, and one that is fit. Where the second cannot be had it says so, and
/// so does its test.
pub(super) fn find_or_install(repository: &Path) -> anyhow::Result<()> {
    if version().is_none() {
        debian::install(&["pgbouncer"], "the tests", "PgBouncer")?;
        ensure!(version().is_some(), "apt-get installed pgbouncer, but it cannot be started");
    }
    let folder = repository.join(FOLDER);
    let is_built = succeeds(Command::new(folder.join("pgbouncer")).arg("--version"));
    if is_built || version() >= Some(FIRST_FIT) {
        return Ok(());
    }
    if let Err(problem) = build(&folder) {
        let (major, minor) = FIRST_FIT;
        eprintln!(
            "xtask: PgBouncer {major}.{minor} or newer is not tested: none is installed or can be built: {problem:#}"
        );
    }
    Ok(())
}

fn version() -> Option<(u32, u32)> {
    let output = Command::new("pgbouncer").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().next()?.strip_prefix("PgBouncer ")?.to_owned();
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

fn build(folder: &Path) -> anyhow::Result<()> {
    debian::install(
        &["gcc", "make", "libevent-dev", "libssl-dev", "pkg-config"],
        "the tests",
        "a newer PgBouncer",
    )?;
    let source = folder.join("source");
    if source.exists() {
        // Of a build that was broken off.
        fs::remove_dir_all(&source).context("removing an old source")?;
    }
    fs::create_dir_all(&source).with_context(|| format!("making {}", source.display()))?;
    let archive = debian::download_source("pgbouncer", RELEASE, folder)?;
    let in_source =
        |program: &str, arguments: &[&OsStr]| run(Command::new(program).args(arguments).current_dir(&source));
    let unpack = ["--extract", "--strip-components=1", "--file"].map(OsStr::new);
    in_source("tar", &[&unpack[..], &[archive.as_os_str()]].concat())?;
    let without = ["--quiet", "--without-cares", "--without-pam", "--without-systemd"].map(OsStr::new);
    in_source("./configure", &without)?;
    let at_once = format!("--jobs={}", thread::available_parallelism().map_or(1, usize::from));
    in_source("make", &[OsStr::new(&at_once), OsStr::new("--quiet"), OsStr::new("pgbouncer")])?;
    fs::copy(source.join("pgbouncer"), folder.join("pgbouncer"))
        .context("putting PgBouncer where tests look")?;
    Ok(())
}
