//! `cargo xtask dist`: what is shipped, built the way it is shipped. The Dockerfile runs it.

mod bundle;
pub(crate) mod packages;
mod sbom;
mod symbols;
mod trial;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::guests;
use crate::run::{cargo, run};
use symbols::Split;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Make no packages, which takes Python and npm.
    #[arg(long)]
    pub(crate) no_packages: bool,
    /// The commit and its date, as `git log -1 --format='%h %cs'` prints them, where there is no history to
    /// ask. Empty is none.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

/// Tells a build what `--version` is to say.
const VERSION_VARIABLE: &str = "AGENT_HOST_VERSION";

/// The binaries that are shipped, and the folders that they are built into. The author's program is on
/// nobody's way to an answer: an ordinary release build does, in a fraction of the time.
const BINARIES: [(&str, &str); 2] = [("target/shipped", "agent-host"), ("target/release", "agent-tool")];

/// Builds the tools into `target/tools` and the binaries, takes their debug information out into files beside
/// them, says how large everything is, and puts what is released into a folder and three packages below
/// `target/dist`.
pub(crate) fn build(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    guests::build(repository, &guests::Arguments::default())?;
    let named = arguments.commit.clone().filter(|commit| !commit.trim().is_empty());
    let commit = named.or_else(|| commit(repository));
    if commit.is_none() {
        println!("dist: there is no history here: `--version` will not say the commit (--commit does)");
    }
    for (folder, package) in BINARIES {
        let profile = folder.trim_start_matches("target/");
        let mut build = cargo(repository, ["build", "--profile", profile, "--locked", "--package", package]);
        if let Some(commit) = &commit {
            build.env(VERSION_VARIABLE, version(commit));
        }
        run(&mut build)?;
        take_symbols_out(repository, &format!("{folder}/{package}"))?;
    }
    println!("dist: the tools are in target/tools");
    let [binary, tool] = BINARIES.map(|(folder, name)| repository.join(folder).join(name));
    let bundle = bundle::write(repository, env!("CARGO_PKG_VERSION"))?;
    println!("dist: all of it, with sbom.cdx.json and SHA256SUMS, is in {}", bundle.display());
    if arguments.no_packages {
        return Ok(());
    }
    let folder = repository.join("target/dist");
    pack(repository, &packages::Arguments { binary, tool, folder, fast: false, try_out: true })
}

fn take_symbols_out(repository: &Path, name: &str) -> anyhow::Result<()> {
    let binary = repository.join(name);
    let whole = size_of(&binary)?;
    match symbols::split(&binary)? {
        Split::Into(debug) => {
            println!("dist: {:>7.1} MiB  {name} (was {whole:.1})", size_of(&binary)?);
            println!(
                "dist: {:>7.1} MiB  {name}.debug: names and lines for backtraces, when it lies beside the binary",
                size_of(&debug)?
            );
        }
        Split::NoObjcopy => println!(
            "dist: {whole:>7.1} MiB  {name}, most of it symbols: there is no objcopy here to take it out (Debian: \
             apt-get install binutils)"
        ),
    }
    Ok(())
}

/// Packs the binaries with the tools, and tries the packages if that is asked for.
pub(crate) fn pack(repository: &Path, arguments: &packages::Arguments) -> anyhow::Result<()> {
    let packages = packages::write(repository, arguments)?;
    for package in &packages {
        println!("packages: {:>7.1} MiB  {}", size_of(package)?, package.display());
    }
    if arguments.try_out {
        trial::try_out(&packages, &std::path::absolute(&arguments.folder)?, arguments.fast)
    } else {
        Ok(())
    }
}

/// What `--version` says behind the name of a program.
fn version(commit: &str) -> String {
    format!("{} ({})", env!("CARGO_PKG_VERSION"), commit.trim())
}

/// The commit that is built, short, and its date. Absent where there is no history, as in an unpacked
/// archive.
fn commit(repository: &Path) -> Option<String> {
    let mut git = Command::new("git");
    let output = git.args(["log", "-1", "--format=%h %cs"]).current_dir(repository).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// In MiB.
fn size_of(file: &Path) -> anyhow::Result<f64> {
    let metadata = fs::metadata(file).with_context(|| format!("reading {}", file.display()))?;
    Ok(metadata.len() as f64 / 1024.0 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_says_its_version_commit_and_date() {
        let repository = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(arguments);
            git.env("GIT_COMMITTER_DATE", "2026-11-24T12:00:00Z").current_dir(repository.path());
            assert!(git.output().unwrap().status.success(), "{arguments:?}");
        };
        assert_eq!(commit(repository.path()), None, "there is no history");
        git(&["init", "--quiet"]);
        git(&["commit", "--quiet", "--allow-empty", "--message", "One"]);
        let commit = commit(repository.path()).unwrap();
        let (hash, date) = commit.split_once(' ').unwrap();
        assert!(hash.len() >= 7 && hash.chars().all(|c| c.is_ascii_hexdigit()), "{commit}");
        assert_eq!(date, "2026-11-24");
        assert_eq!(version(&commit), format!("{} ({hash} 2026-11-24)", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn the_binaries_read_what_dist_sets() {
        let setup = fs::read_to_string(crate::repository().join("host/host-setup/src/program.rs")).unwrap();
        assert!(setup.contains(&format!("option_env!(\"{VERSION_VARIABLE}\")")));
    }
}
