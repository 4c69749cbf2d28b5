//! `agent-tool dev`: watches a tool's sources, builds at every change, and swaps the component into the tools
//! folder of a host that runs. A build that fails changes nothing there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use host_setup::output::{json_line, print};
use host_setup::program::Exit;
use host_setup::settings::{ProcessEnv, Tools};
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tool_build::{Built, Placed, Progress as _, Project};
use tool_host::Precompiler;
use tool_policy::signature::SigningKey;

use crate::build::{Terminal, as_json, size, surroundings};
use crate::sign;

/// How long to wait for more changes after the first: an editor writes aside and renames, a formatter
/// follows.
const SETTLE: Duration = Duration::from_millis(20);

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
            Err(error) => {
                Terminal.step(&format!("{error:#}"));
                Terminal.step("the tools folder was left as it is; watching for the next change");
            }
        }
        sources.follow_new_folders()?;
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
        if let Some(key) = self.key {
            sign::write(key, self.into, &built.name, &built.bytes)?;
        }
        let placed = tool_build::place(&built.bytes, &target)?;
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
    watched: BTreeSet<PathBuf>,
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
        let mut sources = Self { project: project.clone(), watcher, watched: BTreeSet::new(), changes };
        sources.follow_new_folders()?;
        Ok(sources)
    }

    fn follow_new_folders(&mut self) -> anyhow::Result<()> {
        let mut found = vec![self.project.folder.clone()];
        while let Some(folder) = found.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
                // As if a source lay in it.
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && self.project.is_source(&entry.path().join("source.rs")) {
                    found.push(entry.path());
                }
            }
            if !self.watched.contains(&folder) && self.watched.len() < MOST_FOLDERS {
                self.watcher
                    .watch(&folder, RecursiveMode::NonRecursive)
                    .with_context(|| format!("watching {}", folder.display()))?;
                self.watched.insert(folder);
            }
        }
        Ok(())
    }

    /// Waits for a change, and until no more follow. Returns when the first one was noticed.
    fn next_change(&self) -> anyhow::Result<Instant> {
        let first = self.changes.recv().context("the watch has ended")?;
        while self.changes.recv_timeout(SETTLE).is_ok() {}
        Ok(first)
    }
}

/// Tells of changes of sources; reading them is none, and neither is what a build makes.
fn tell(project: &Project, event: notify::Result<Event>, changes: &Sender<Instant>) {
    let is_change = match event {
        Ok(event) => !is_only_reading(event.kind) && event.paths.iter().any(|path| project.is_source(path)),
        // Changes may have been missed.
        Err(_) => true,
    };
    if is_change {
        let _ = changes.send(Instant::now());
    }
}

fn is_only_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}
