//! Packages of what is shipped: a Python wheel, an npm package and a Debian package.
//!
//! Each holds the same files: the service, the author's program, the licence, and the tools in
//! `share/agent-host/tools` beside the folder that the binaries are installed into, where `agent-host dev`
//! looks for them. They are packed by what every machine that builds them has: tar, ar (which linking needs),
//! and Python. Files of equal content make equal packages.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde_json::json;

use super::bundle::{copy, copy_tools};
use crate::run::{run, succeeds};

/// The licence, in the repository and in the packages whose managers want it under its name.
const LICENSE: &str = "LICENSE";

const WHEEL_SCRIPT: &str = include_str!("wheel.py");

/// What is on the PATH once a package is installed.
pub(super) const PROGRAMS: [&str; 2] = ["agent-host", "agent-tool"];

const SUMMARY: &str = "Serves a tool-using language-model agent over HTTP, with sandboxed WebAssembly tools";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The service to pack: one that `cargo xtask dist` or `cargo build` has made.
    pub(super) binary: PathBuf,
    /// The author's program to pack with it.
    pub(super) tool: PathBuf,
    /// Where the packages are written.
    pub(super) folder: PathBuf,
    /// Compress less, which takes a tenth of the time, and have the tools compiled by the first one that is
    /// tried only.
    #[arg(long)]
    pub(super) fast: bool,
    /// Install each package into a clean place and ask it the README's question.
    #[arg(long = "try")]
    pub(super) try_out: bool,
}

/// What the package managers call the platform that the binary is for.
struct Platform {
    wheel: String,
    npm: &'static str,
    debian: &'static str,
    /// The version of glibc that the binary was linked with, and needs.
    glibc: String,
}

/// Writes the three packages and returns their files.
pub(crate) fn write(repository: &Path, arguments: &Arguments) -> anyhow::Result<Vec<PathBuf>> {
    let platform = Platform::of_this_machine()?;
    let folder = std::path::absolute(&arguments.folder)?;
    let staging = folder.join("staging");
    if staging.exists() {
        fs::remove_dir_all(&staging)?;
    }
    let common = staging.join("common");
    fs::create_dir_all(common.join("bin"))?;
    let packed = PROGRAMS.map(|name| common.join("bin").join(name));
    for (from, to) in [&arguments.binary, &arguments.tool].into_iter().zip(&packed) {
        copy(from, to)?;
    }
    // Where `dist` built the binaries, symbols and debug information are in files of their own.
    if !succeeds(Command::new("strip").arg("--strip-all").args(packed)) {
        println!(
            "packages: there is no strip here (Debian: apt-get install binutils): packed with their debug information"
        );
    }
    copy_tools(repository, &common.join("share/agent-host/tools"))?;
    copy(&repository.join(LICENSE), &staging.join(LICENSE))?;
    let level = if arguments.fast { "1" } else { "9" };
    let packages = [
        wheel(&staging, &common, &folder, &platform, level)?,
        npm(&staging, &common, &folder, &platform, level)?,
        deb(&staging, &common, &folder, &platform, level)?,
    ];
    fs::remove_dir_all(&staging)?;
    Ok(packages.into())
}

/// A wheel without a module of Python: its scripts go to `bin`, its data to the prefix.
fn wheel(
    staging: &Path,
    common: &Path,
    to: &Path,
    platform: &Platform,
    level: &str,
) -> anyhow::Result<PathBuf> {
    let (root, version) = (staging.join("wheel"), version());
    let info = root.join(format!("agent_host-{version}.dist-info"));
    let data = root.join(format!("agent_host-{version}.data"));
    fs::create_dir_all(info.join("licenses"))?;
    copy(&staging.join(LICENSE), &info.join("licenses").join(LICENSE))?;
    copy(&common.join("bin"), &data.join("scripts"))?;
    copy(&common.join("share"), &data.join("data/share"))?;
    let metadata = format!(
        "Metadata-Version: 2.4\nName: agent-host\nVersion: {version}\nSummary: {SUMMARY}\n\
         License-Expression: Apache-2.0\nLicense-File: {LICENSE}\n"
    );
    fs::write(info.join("METADATA"), metadata)?;
    let tag = format!("py3-none-{}", platform.wheel);
    fs::write(
        info.join("WHEEL"),
        format!("Wheel-Version: 1.0\nGenerator: agent-host\nRoot-Is-Purelib: false\nTag: {tag}\n"),
    )?;
    let script = staging.join("wheel.py");
    fs::write(&script, WHEEL_SCRIPT)?;
    let file = to.join(format!("agent_host-{version}-{tag}.whl"));
    run(Command::new("python3").arg(script).arg(&root).arg(&file).arg(level))?;
    Ok(file)
}

/// npm links what `bin` names into its own folder of programs.
fn npm(
    staging: &Path,
    common: &Path,
    to: &Path,
    platform: &Platform,
    level: &str,
) -> anyhow::Result<PathBuf> {
    let root = staging.join("npm");
    copy(common, &root.join("package"))?;
    copy(&staging.join(LICENSE), &root.join("package").join(LICENSE))?;
    let manifest = json!({
        "name": "agent-host",
        "version": version(),
        "description": SUMMARY,
        "license": "Apache-2.0",
        "os": ["linux"],
        "cpu": [platform.npm],
        "libc": ["glibc"],
        "bin": PROGRAMS.map(|name| (name, format!("bin/{name}"))).into_iter().collect::<BTreeMap<_, _>>(),
    });
    fs::write(root.join("package/package.json"), serde_json::to_string_pretty(&manifest)? + "\n")?;
    let file = to.join(format!("agent-host-{}-linux-{}.tgz", version(), platform.npm));
    tar(&root, "package", &file, level)?;
    Ok(file)
}

fn deb(
    staging: &Path,
    common: &Path,
    to: &Path,
    platform: &Platform,
    level: &str,
) -> anyhow::Result<PathBuf> {
    let root = staging.join("deb");
    copy(common, &root.join("data/usr"))?;
    // Debian's name for it (its policy, section 12.5).
    let documents = root.join("data/usr/share/doc/agent-host");
    fs::create_dir_all(&documents)?;
    copy(&staging.join(LICENSE), &documents.join("copyright"))?;
    fs::create_dir_all(root.join("control"))?;
    let Platform { debian, glibc, .. } = platform;
    let control = format!(
        "Package: agent-host\nVersion: {}\nArchitecture: {debian}\nMaintainer: the authors of agent-host\n\
         Depends: libc6 (>= {glibc}), libgcc-s1\nRecommends: ca-certificates\nSection: net\nPriority: optional\n\
         Description: {SUMMARY}\n",
        version()
    );
    fs::write(root.join("control/control"), control)?;
    fs::write(root.join("debian-binary"), "2.0\n")?;
    for part in ["control", "data"] {
        tar(&root.join(part), ".", &root.join(format!("{part}.tar.gz")), level)?;
    }
    let file = to.join(format!("agent-host_{}_{debian}.deb", version()));
    if file.exists() {
        // ar would replace members in place.
        fs::remove_file(&file)?;
    }
    let members = ["debian-binary", "control.tar.gz", "data.tar.gz"];
    run(Command::new("ar").arg("rcD").arg(&file).args(members).current_dir(&root))?;
    Ok(file)
}

/// Everybody's files are root's, and of no date.
fn tar(folder: &Path, what: &str, file: &Path, level: &str) -> anyhow::Result<()> {
    let mut command = Command::new("tar");
    command
        .args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"])
        .arg(format!("--use-compress-program=gzip -n{level}"))
        .arg("--file")
        .arg(file)
        .arg("--directory")
        .arg(folder)
        .arg(what);
    run(&mut command)
}

impl Platform {
    fn of_this_machine() -> anyhow::Result<Self> {
        ensure!(cfg!(all(target_os = "linux", target_env = "gnu")), "packages are made on Linux with glibc");
        let (arch, npm, debian) = match std::env::consts::ARCH {
            "x86_64" => ("x86_64", "x64", "amd64"),
            "aarch64" => ("aarch64", "arm64", "arm64"),
            other => bail!("packages are made for x86_64 and aarch64, and this machine is {other}"),
        };
        let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().context("starting getconf")?;
        let glibc = glibc_version(&String::from_utf8_lossy(&output.stdout))?;
        let wheel = format!("manylinux_{}_{arch}", glibc.replace('.', "_"));
        Ok(Self { wheel, npm, debian, glibc })
    }
}

/// Of what getconf says: `glibc 2.36`.
fn glibc_version(text: &str) -> anyhow::Result<String> {
    let version = text.trim().strip_prefix("glibc ").with_context(|| format!("getconf says {text:?}"))?;
    Ok(version.to_owned())
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
