//! The same where the process that is killed and the one that goes on with its job are of different versions,
//! on one queue: during an upgrade both are there.
//!
//! A version refuses to start on a database that a newer one has migrated, so an old one that is to go on
//! with a job is started first, and serves while the new one migrates. It is stopped (SIGSTOP) as long as the
//! job has to be the new one's. When the old one is the next that dies, the next kill is made on other
//! stores. Settings need no care: a version does not read what it does not know.

use std::path::PathBuf;
use std::time::Duration;

use acceptance::{Builder, Service, Signal, within};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::kill::{Hit, SETTLING, Submitted, follow, settle, strike};
use super::lane::{begin, heir};
use super::plan::{PlannedKill, Versions};
use super::scene::Scene;
use super::stores::Stores;

/// The binary of another version, and where it keeps the tools that it has compiled, apart from ours.
#[derive(Debug)]
pub(crate) struct OldBinary {
    program: PathBuf,
    compiled: TempDir,
}

impl OldBinary {
    /// That file.
    pub(crate) fn at(program: impl Into<PathBuf>) -> Self {
        let compiled = tempfile::tempdir().expect("a folder for compiled tools");
        Self { program: program.into(), compiled }
    }

    fn run(&self, service: Builder) -> Builder {
        service.program(&self.program).env("TOOLS_CACHE_DIR", self.compiled.path())
    }
}

/// Makes these kills, all of one store.
pub(super) async fn run(kills: Vec<PlannedKill>, scene: &Scene, old: &OldBinary) -> Vec<Hit> {
    let mut hits = Vec::new();
    for kills in kills.split_inclusive(|kill| kill.versions == Versions::OldThenNew) {
        hits.extend(on_one_queue(kills, scene, old).await);
    }
    hits
}

/// Until the old one has been killed.
async fn on_one_queue(kills: &[PlannedKill], scene: &Scene, old: &OldBinary) -> Vec<Hit> {
    let Some(last) = kills.last() else { return Vec::new() };
    let stores = Stores::start(last.store).await;
    let mut service = begin(old.run(scene.around(stores.service()))).await;
    let mut submitted = Vec::new();
    for kill in kills.iter().cloned() {
        let one;
        if kill.versions == Versions::NewThenOld {
            one = new_dies(kill, scene, &stores, &service).await;
        } else {
            (one, service) = old_dies(kill, scene, &stores, service).await;
        }
        submitted.push(one);
    }
    if last.versions == Versions::NewThenOld {
        // What the old one has ended is read by the new one as well.
        let new = begin(scene.around(stores.service())).await;
        service.stop().await;
        service = new;
    }
    settle(submitted, service, scene, &stores).await
}

/// The new one joins the old one, which works on no job until the new one is dead.
async fn new_dies(kill: PlannedKill, scene: &Scene, stores: &Stores, old: &Service) -> Submitted {
    let new = begin(scene.around(stores.service())).await;
    within("the old one to be stopped", hold(old, stores)).await;
    let orphan = strike(kill, scene, stores, new).await;
    let begun = Instant::now();
    old.signal(Signal::CONT);
    follow(orphan, scene, old, begun).await
}

/// The new one is started when the old one is dead, which it may replace at the same address.
async fn old_dies(kill: PlannedKill, scene: &Scene, stores: &Stores, old: Service) -> (Submitted, Service) {
    let next = heir(&kill, scene.around(stores.service()), &old);
    let orphan = strike(kill, scene, stores, old).await;
    let begun = Instant::now();
    let new = begin(next).await;
    (follow(orphan, scene, &new, begun).await, new)
}

/// Stops a process at a moment in which it is not about to write: it would keep its locks, and all others
/// from writing.
async fn hold(service: &Service, stores: &Stores) {
    const PAUSE: Duration = Duration::from_millis(20);
    loop {
        service.signal(Signal::STOP);
        sleep(SETTLING).await;
        if stores.can_be_written().await {
            return;
        }
        service.signal(Signal::CONT);
        sleep(PAUSE).await;
    }
}
