//! The service of another revision, built to work beside ours, in `target/beside/`: a folder for each commit,
//! with its sources (a worktree of git's) and what is built of them. What is there is not built again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::run::{cargo, run};

/// Builds the service of a revision, unoptimized as the tests are built: the binary.
pub(super) fn build(repository: &Path, revision: &str) -> anyhow::Result<PathBuf> {
    let commit = commit_of(repository, revision)?;
    let folder = repository.join("target/beside").join(&commit);
    let (sources, target, done) = (folder.join("sources"), folder.join("target"), folder.join("built"));
    let binary = target.join("debug/agent-host");
    if done.exists() && binary.is_file() {
        return Ok(binary);
    }
    eprintln!("xtask: building {revision} in {}: this takes minutes, once", folder.display());
    if !sources.join("Cargo.toml").is_file() {
        // By force: git still knows a worktree whose folder was removed with target/.
        let add = ["worktree", "add", "--quiet", "--force", "--detach"];
        run(git(repository).args(add).arg(&sources).arg(&commit))?;
    }
    // Without a change of its lock file: it is built of what it was released with.
    let build = ["build", "--locked", "--package", "agent-host", "--bin", "agent-host"];
    run(cargo(&sources, build).arg("--target-dir").arg(&target))?;
    ensure!(binary.is_file(), "{revision} has no agent-host");
    fs::write(&done, "").with_context(|| format!("writing {}", done.display()))?;
    Ok(binary)
}

/// The short name of a commit.
fn commit_of(repository: &Path, revision: &str) -> anyhow::Result<String> {
    let names_commit = format!("{revision}^{{commit}}");
    let parse = ["rev-parse", "--quiet", "--verify", "--short", "--end-of-options", &names_commit];
    let output = git(repository).args(parse).output().context("starting git")?;
    ensure!(output.status.success(), "there is no revision {revision} here");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(repository);
    command
}
