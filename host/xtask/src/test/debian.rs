//! Packages of Debian, for those who may install them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::run::{run, succeeds};

/// Sees to it that a program of these packages can be started.
pub(super) fn find_or_install(program: &str, packages: &[&str]) -> anyhow::Result<()> {
    let is_there = || succeeds(Command::new(program).arg("--version"));
    if is_there() {
        return Ok(());
    }
    install(packages, "the tests", program)?;
    ensure!(is_there(), "apt-get installed {program}, but it cannot be started");
    Ok(())
}

/// Installs packages, or fails and says that `who` needs `what`, and how to come by it.
pub(super) fn install(packages: &[&str], who: &str, what: &str) -> anyhow::Result<()> {
    let names = packages.join(" ");
    if !may_install() {
        bail!("{who} need {what}: install it, on Debian with `apt-get install {names}`");
    }
    eprintln!("xtask: {who} need {what}; installing {names} with apt-get");
    apt(&[], &["update"])?;
    apt(&[], &[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

/// Installs packages that this release of Debian may only have in its backports. The machine's list of
/// sources stays as it is: ours is named for these commands alone. It is written into `folder`.
pub(super) fn install_from_backports(packages: &[&str], folder: &Path) -> anyhow::Result<()> {
    ensure!(may_install(), "only root may install it, with apt-get");
    let archive = Archive::of_this_machine()?;
    // Ours takes the place of /etc/apt/sources.list, which may be where the release itself stands: what is
    // needed with them.
    let releases = [&*archive.release, &format!("{}-backports", archive.release)];
    let list = archive.write_list("deb", &releases, folder)?;
    let ours = [option("Dir::Etc::sourcelist", &list), "-oAPT::Get::List-Cleanup=0".to_owned()];
    eprintln!("xtask: installing {} with apt-get, from backports", packages.join(" "));
    apt(&ours, &["update"])?;
    apt(&ours, &[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

/// Downloads the source of a package as another release of Debian has it, and returns its archive in
/// `folder`. apt checks that it is what Debian has signed. Nothing of the machine's own lists changes.
pub(super) fn download_source(package: &str, release: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    let lists = folder.join("lists");
    fs::create_dir_all(lists.join("partial")).context("making a folder for apt's lists")?;
    let list = Archive::of_this_machine()?.write_list("deb-src", &[release], folder)?;
    let ours = [
        option("Dir::Etc::sourcelist", &list),
        option("Dir::Etc::sourceparts", Path::new("/dev/null")),
        option("Dir::State::lists", &lists),
    ];
    apt(&ours, &["update"])?;
    let mut download = apt_get(&ours, &["--download-only", "source", package]);
    run(download.current_dir(folder))?;
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_archive = |path: &PathBuf| path.to_string_lossy().contains(".orig.tar.");
    files.find(is_archive).with_context(|| format!("apt-get downloaded no source of {package}"))
}

/// Where this machine has Debian's packages from.
struct Archive {
    address: String,
    release: String,
}

impl Archive {
    fn of_this_machine() -> anyhow::Result<Self> {
        if let Some(archive) = Self::in_lists()? {
            return Ok(archive);
        }
        // Images come without apt's lists.
        apt(&[], &["update"])?;
        Self::in_lists()?.context("apt-get knows no archive of Debian")
    }

    /// As apt's lists have it, if they were downloaded.
    fn in_lists() -> anyhow::Result<Option<Self>> {
        let which = ["Created-By: Packages", "Origin: Debian", "Component: main"];
        let output = Command::new("apt-get")
            .args(["indextargets", "--format", "$(REPO_URI) $(CODENAME)"])
            .args(which)
            .output()
            .context("starting apt-get")?;
        let text = String::from_utf8_lossy(&output.stdout);
        // Updates and backports have a word more.
        let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
        let main = pairs.find(|(_, release)| !release.contains('-'));
        Ok(main.map(|(address, release)| Self { address: address.to_owned(), release: release.to_owned() }))
    }

    /// Writes a list of sources, a line for each release.
    fn write_list(&self, kind: &str, releases: &[&str], folder: &Path) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let list = folder.join("sources.list");
        let lines = releases.iter().map(|release| format!("{kind} {} {release} main\n", self.address));
        fs::write(&list, lines.collect::<String>()).with_context(|| format!("writing {}", list.display()))?;
        Ok(list)
    }
}

fn may_install() -> bool {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    is_root && succeeds(Command::new("apt-get").arg("--version"))
}

fn option(name: &str, path: &Path) -> String {
    format!("-o{name}={}", path.display())
}

fn apt(options: &[String], arguments: &[&str]) -> anyhow::Result<()> {
    run(&mut apt_get(options, arguments))
}

fn apt_get(options: &[String], arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(options).args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}
