//! Targets under libFuzzer, one after another: each begins with its corpus, and what reached code that the
//! corpus does not reach is added to it, as long as that stays small.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use crate::table::Target;
use crate::{corpus, executions};

/// Longest input, in bytes, as that of mutated ones.
const MOST_BYTES: usize = 64 << 10;

/// How long one input may take, and how much memory all of them.
const MOST_SECONDS: u32 = 10;
const MOST_MEBIBYTES: u32 = 2_048;

/// Longest entry that is added to a corpus, and how many bytes its file may have then.
const ENTRY_BYTES: usize = 400;
const CORPUS_BYTES: u64 = 6 << 10;

/// Below this, libFuzzer says how many inputs it has executed.
const EXECUTED: &str = "stat::number_of_executed_units:";

/// Fuzzes a target for so many seconds with a build of `coverage.rs`, and gives the number of executions.
/// `work` is a folder for what libFuzzer keeps.
pub fn fuzz(target: &Target, program: &Path, work: &Path, seconds: u64) -> anyhow::Result<u64> {
    let folder = work.join(target.name);
    let (found, known) = (folder.join("found"), folder.join("known"));
    for folder in [&found, &known] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    for entry in corpus::read(target.name)? {
        fs::write(known.join(name(&entry)), entry)?;
    }
    let link = folder.join(format!("fuzz-{}", target.name));
    // silent-ok: the link of the last run.
    drop(fs::remove_file(&link));
    symlink(program, &link)?;
    let options = [
        format!("-max_total_time={seconds}"),
        format!("-max_len={MOST_BYTES}"),
        format!("-timeout={MOST_SECONDS}"),
        format!("-rss_limit_mb={MOST_MEBIBYTES}"),
        "-print_final_stats=1".to_owned(),
        format!("-artifact_prefix={}/", folder.display()),
    ];
    let said = run(Command::new(&link).args(options).args([&found, &known]))?;
    let executed = said.lines().find_map(|line| line.strip_prefix(EXECUTED)?.trim().parse().ok());
    let executed = executed.with_context(|| format!("libFuzzer says no number of executions: {said}"))?;
    keep(target, &link, &folder)?;
    executions::add(executions::Kind::Guided, [(target.name, executed)])?;
    Ok(executed)
}

/// Adds the shortest of what was found and reaches more than the corpus.
fn keep(target: &Target, link: &Path, folder: &Path) -> anyhow::Result<()> {
    let merged = folder.join("merged");
    // silent-ok: the folder of the last run.
    drop(fs::remove_dir_all(&merged));
    fs::create_dir_all(&merged)?;
    for entry in corpus::read(target.name)? {
        fs::write(merged.join(name(&entry)), entry)?;
    }
    run(Command::new(link).arg("-merge=1").args([&merged, &folder.join("found")]))?;
    let known = corpus::read(target.name)?;
    let files = fs::read_dir(&merged)?.map(|file| Ok(fs::read(file?.path())?));
    let mut new = files.collect::<anyhow::Result<Vec<_>>>()?;
    new.retain(|entry| entry.len() <= ENTRY_BYTES && !known.contains(entry));
    new.sort_by_key(Vec::len);
    let mut bytes = fs::metadata(corpus::file(target.name))?.len();
    new.retain(|entry| {
        bytes += corpus::written(entry).len() as u64;
        bytes <= CORPUS_BYTES
    });
    Ok(corpus::add(target.name, &new)?)
}

fn name(entry: &[u8]) -> PathBuf {
    format!("{:x}", Sha256::digest(entry)).into()
}

/// Runs libFuzzer, and gives what it says, the last lines of it where it failed.
fn run(command: &mut Command) -> anyhow::Result<String> {
    let ended = command.stdout(Stdio::null()).output().context("starting libFuzzer")?;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    if !ended.status.success() {
        let lines: Vec<_> = said.lines().collect();
        let last = lines.len().saturating_sub(60);
        bail!("an input breaks a promise:\n{}", lines.get(last..).unwrap_or_default().join("\n"));
    }
    Ok(said)
}
