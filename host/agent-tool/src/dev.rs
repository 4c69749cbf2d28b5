//! `agent-tool dev`: watches a tool's sources, builds at every change, and swaps the component into the tools
//! folder of a host that runs. A build that fails changes nothing there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use host_setup::output::{json_line, print};
use host_setup::program::{self, Exit};
use host_setup::settings::{ProcessEnv, Tools};
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tool_build::{Built, Placed, Progress as _, Project};
use tool_host::Precompiler;
use tool_policy::signature::SigningKey;

use crate::build::{Terminal, as_json, outdated_signature, size, surroundings};
use crate::sign;

/// How long to wait for more changes after the first: an editor writes aside and renames, a formatter
/// follows.
const SETTLE: Duration = Duration::from_millis(20);

/// How often to look for the project's folder while it is gone: no watch tells when it comes back.
const GONE: Duration = Duration::from_millis(200);

/// Folders of sources that are watched at most.
const MOST_FOLDERS: usize = 500;

/// What to watch, and where to.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder with the tool's sources
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// The tools folder of the host that runs; without it TOOLS_DIR
    into: Option<PathBuf>,
    /// Sign the component with this key, so that a policy that names it as `signer` goes on to hold; made if
    /// it is missing
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let project = Project::open(&arguments.folder)?;
    let config = Tools::from_vars(&ProcessEnv)?;
    let into = arguments.into.clone().unwrap_or(config.folder);
    if !into.is_dir() {
        bail!(
            "there is no tools folder {}: name the one of the host that runs (agent-tool dev FOLDER TOOLS), or set \
             TOOLS_DIR as the host has it",
            std::path::absolute(&into).as_ref().unwrap_or(&into).display()
        );
    }
    let key = arguments.key.as_deref().map(sign::read_or_make).transpose()?;
    if let Some(key) = &key {
        print(&sign::describe(key, json))?;
    }
    let precompiler = config.cache.map(|cache| Precompiler::new(cache, config.fuel_metering)).transpose()?;
    let swap = Swap { into: &into, key: key.as_ref(), precompiler: precompiler.as_ref(), json };
    let mut sources = Sources::watch(&project)?;
    let mut begun = Begun::AtStart(Instant::now());
    loop {
        match swap.build_and_place(&project.folder, begun) {
            Ok(text) => print(&text)?,
            Err(error) if json => program::complain("agent-tool", json, &format_args!("{error:#}")),
            Err(error) => {
                Terminal.step(&format!("{error:#}"));
                Terminal.step("the tools folder was left as it is; watching for the next change");
            }
        }
        begun = Begun::AtEdit(sources.next_change()?);
    }
}

/// The reason for a build, with the moment that its time is counted from.
#[derive(Debug, Clone, Copy)]
enum Begun {
    AtStart(Instant),
    /// A change was noticed.
    AtEdit(Instant),
}

/// Where components go.
struct Swap<'a> {
    into: &'a Path,
    key: Option<&'a SigningKey>,
    /// Compiles into the cache that the host beside this reads; absent where there is none.
    precompiler: Option<&'a Precompiler>,
    /// Whether a program reads what became of each build.
    json: bool,
}

impl Swap<'_> {
    /// Builds what lies in the folder now; its name may have changed too.
    fn build_and_place(&self, folder: &Path, begun: Begun) -> anyhow::Result<String> {
        let built = Project::open(folder)?.build(&surroundings(), &Terminal)?;
        let target = self.into.join(format!("{}.wasm", built.name));
        // Before it is there, so that the host finds it compiled and nobody waits for that.
        if let Some(precompiler) = self.precompiler {
            let refused = |error| anyhow::anyhow!("{}.wasm {error}", built.name);
            precompiler.compile(&built.bytes).map_err(refused)?;
        }
        let placed = match self.key {
            Some(key) => {
                let signature = sign::signature(key, &built.name, &built.bytes);
                tool_build::place_signed(&built.bytes, &signature, &target)?
            }
            None => tool_build::place(&built.bytes, &target)?,
        };
        if let Some(text) = outdated_signature(&target, placed).filter(|_| self.key.is_none()) {
            Terminal.step(&text);
        }
        Ok(if self.json {
            json_line(&as_json(&built, &target, placed))
        } else {
            describe(&built, &target, placed, begun)
        })
    }
}

/// One line about what is there now: how much of the time was the toolchain's, and how much all else.
fn describe(built: &Built, target: &Path, placed: Placed, begun: Begun) -> String {
    let (took, since) = match begun {
        Begun::AtEdit(edited) => (edited.elapsed(), "after the edit"),
        Begun::AtStart(start) => (start.elapsed(), "after the start"),
    };
    let (toolchain, rest) = (built.toolchain_took, took.saturating_sub(built.toolchain_took));
    let took = format!(
        "{:.1} s {since} ({} {:.1} s, all else {:.1} s)",
        took.as_secs_f64(),
        built.toolchain,
        toolchain.as_secs_f64(),
        rest.as_secs_f64()
    );
    let what = match placed {
        Placed::New => "swapped",
        Placed::Same => "unchanged",
    };
    format!("{what}  {}  {}  {}  {took}\n", target.display(), size(built.bytes.len()), built.digest)
}

/// The folders of the sources, watched one by one: what a build makes beside them can be thousands of
/// folders.
struct Sources {
    project: Project,
    watcher: RecommendedWatcher,
    /// False while the project's own folder was not there to be watched.
    has_folder: bool,
    /// True while there are more folders than are watched, which has been said.
    is_beyond: bool,
    changes: Receiver<Instant>,
}

impl Sources {
    fn watch(project: &Project) -> anyhow::Result<Self> {
        let (sender, changes) = channel();
        let of_project = project.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            tell(&of_project, event, &sender);
        })
        .context("watching for changes: does the system have inotify?")?;
        let mut sources =
            Self { project: project.clone(), watcher, has_folder: false, is_beyond: false, changes };
        sources.watch_folders()?;
        Ok(sources)
    }

    /// Watches every folder of sources that is there now, those that are watched already too: the kernel
    /// drops the watch of a folder that is removed, and one that has come in its place has the same path.
    /// Watching a folder twice changes nothing.
    fn watch_folders(&mut self) -> anyhow::Result<()> {
        let mut found = vec![self.project.folder.clone()];
        let mut watched = 0;
        self.has_folder = false;
        let was_beyond = std::mem::take(&mut self.is_beyond);
        while let Some(folder) = found.pop() {
            if watched == MOST_FOLDERS {
                self.is_beyond = true;
                if !was_beyond {
                    Terminal.step(&format!(
                        "only {MOST_FOLDERS} folders are watched: a change in another one, such as {}, \
                         builds nothing",
                        folder.display()
                    ));
                }
                break;
            }
            // Watched before it is listed: a folder that is made in between is told, if it is not listed.
            let added = self.watcher.watch(&folder, RecursiveMode::NonRecursive);
            if added.is_err() && !folder.is_dir() {
                continue;
            }
            added.with_context(|| format!("watching {}", folder.display()))?;
            watched += 1;
            self.has_folder |= folder == self.project.folder;
            for entry in fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && may_hold_sources(&self.project, &entry.path()) {
                    found.push(entry.path());
                }
            }
        }
        Ok(())
    }

    /// Waits for a change, and until no more follow. Returns when the first one was noticed.
    fn next_change(&mut self) -> anyhow::Result<Instant> {
        while !self.has_folder && !self.project.folder.is_dir() {
            match self.changes.recv_timeout(GONE) {
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the watch has ended"),
            }
        }
        let first = match self.has_folder {
            true => self.changes.recv().context("the watch has ended")?,
            // The folder has come back.
            false => Instant::now(),
        };
        self.settle()?;
        Ok(first)
    }

    /// Waits until no more changes follow, and watches the folders that are there then. That is before the
    /// build, so that it reads what came into a new folder before the watch.
    fn settle(&mut self) -> anyhow::Result<()> {
        while self.changes.recv_timeout(SETTLE).is_ok() {}
        self.watch_folders()
    }
}

/// Tells of changes of sources; reading them is none, and neither is what a build makes.
fn tell(project: &Project, event: notify::Result<Event>, changes: &Sender<Instant>) {
    let is_change = match event {
        Ok(event) => {
            let is_of_source =
                |path: &PathBuf| project.is_source(path) || is_of_folder(project, event.kind, path);
            !is_only_reading(event.kind) && event.paths.iter().any(is_of_source)
        }
        // Changes may have been missed.
        Err(_) => true,
    };
    if is_change {
        let _ = changes.send(Instant::now());
    }
}

/// Whether a folder has come that may have sources in it already, or the project's own has gone or come.
fn is_of_folder(project: &Project, kind: EventKind, path: &Path) -> bool {
    let comes_or_goes =
        matches!(kind, EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
    comes_or_goes && (path == project.folder || (path.is_dir() && may_hold_sources(project, path)))
}

fn may_hold_sources(project: &Project, folder: &Path) -> bool {
    // As if one lay in it.
    project.is_source(&folder.join("source.rs"))
}

fn is_only_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

#[cfg(test)]
mod tests {
    use tool_build::Language;

    use super::*;

    /// Longer than the system takes to tell of a change.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Expects that a change is told, and does as `run` does before it builds.
    fn expect_change(sources: &mut Sources, what: &str) {
        assert!(sources.changes.recv_timeout(PATIENCE).is_ok(), "{what} is not told");
        sources.settle().unwrap();
    }

    #[test]
    fn folders_beyond_those_that_are_watched_are_said() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().canonicalize().unwrap();
        for at in 1..MOST_FOLDERS {
            fs::create_dir(folder.join(format!("f{at}"))).unwrap();
        }
        let project = Project { folder: folder.clone(), name: "tool".into(), language: Language::Rust };
        let mut sources = Sources::watch(&project).unwrap();
        assert!(!sources.is_beyond);
        fs::create_dir(folder.join("one-more")).unwrap();
        sources.watch_folders().unwrap();
        assert!(sources.is_beyond);
    }

    /// As `git stash` and `git checkout` do.
    #[test]
    fn a_folder_that_was_removed_and_came_back_is_watched() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().canonicalize().unwrap().join("tool");
        let (source_folder, source) = (folder.join("src"), folder.join("src/lib.rs"));
        fs::create_dir_all(&source_folder).unwrap();
        fs::write(&source, "1").unwrap();
        let project = Project { folder: folder.clone(), name: "tool".into(), language: Language::Rust };
        let mut sources = Sources::watch(&project).unwrap();
        // Gone when it is looked for, and back later.
        fs::remove_dir_all(&source_folder).unwrap();
        expect_change(&mut sources, "a removal");
        fs::create_dir(&source_folder).unwrap();
        expect_change(&mut sources, "a folder that came back");
        fs::write(&source, "2").unwrap();
        expect_change(&mut sources, "a source in it");
        // Gone and back between two looks.
        fs::remove_dir_all(&source_folder).unwrap();
        fs::create_dir(&source_folder).unwrap();
        expect_change(&mut sources, "a removal and a return");
        fs::write(&source, "3").unwrap();
        expect_change(&mut sources, "a source in the folder that came back at once");
        // The project's own folder, which is in no folder that is watched.
        fs::remove_dir_all(&folder).unwrap();
        expect_change(&mut sources, "a removal of all");
        fs::create_dir_all(&source_folder).unwrap();
        sources.next_change().unwrap();
        fs::write(&source, "4").unwrap();
        expect_change(&mut sources, "a source in the project that came back");
    }
}
