//! What the service does with its processor time, by samples of the release binary under load: hits, misses
//! and jobs, at 32 connections and at one. Shares are of the service's own time; what the provider, Redis and
//! the load take is not in them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark"
)]
// cargo sets `test` for programs without its harness as well: their unit tests are compiled, and called in
// `it` only.
#![allow(
    dead_code,
    unused_imports,
    reason = "unit tests without a harness, and modules that other benches share"
)]

mod areas;
#[path = "../lone/asking.rs"]
mod asking;
#[path = "../variant_b/callers.rs"]
mod callers;
#[path = "../lone/contenders.rs"]
mod contenders;
#[path = "../variant_b/deployments.rs"]
mod deployments;
#[path = "../variant_b/events.rs"]
mod events;
#[path = "../measuring/mod.rs"]
mod measuring;
mod perf;
mod report;
#[path = "../lone/spent.rs"]
mod spent;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use asking::{Asking, Kind};
use contenders::Deployment;
use events::{Events, Seen};
use measuring::subject::Subject;
use measuring::{machine, provider};
use perf::Recording;
use report::Profile;
use spent::Reading;
use tokio::runtime::Runtime;

/// How long each kind is asked before samples are taken, and while they are.
const WARMING: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_secs(5);

const MANY: usize = 32;

fn main() -> ExitCode {
    println!("machine: {}", machine::describe());
    println!("{} s of each, sampled by perf", TURN.as_secs());
    let home = tempfile::tempdir().unwrap();
    for subject in Subject::all() {
        match profile_all(&subject, home.path()) {
            Ok(profiles) => {
                println!("\n{}", subject.name);
                report::print(&profiles);
            }
            Err(why) => {
                eprintln!("bench profile: {why}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn profile_all(subject: &Subject, home: &Path) -> Result<Vec<Profile>, String> {
    let runtime = Runtime::new().unwrap();
    let provider = provider::start();
    let redis = deployments::start_redis(&runtime);
    let on_redis = contenders::with_queue(subject, "Redis", provider, &redis.url());
    let embedded = contenders::with_queue(subject, "SQLite", provider, "memory://");
    let events = Events::of(&redis);
    let wanted = [
        ("hit, 32 connections", &on_redis, Kind::Hit, MANY),
        ("miss, 32 connections", &on_redis, Kind::Miss, MANY),
        ("job on Redis, 32 under way", &on_redis, Kind::Job(Seen::InEvents(&events)), MANY),
        ("embedded job, 32 under way", &embedded, Kind::Job(Seen::InAnswer), MANY),
        ("hit, one connection", &on_redis, Kind::Hit, 1),
        ("miss, one connection", &on_redis, Kind::Miss, 1),
    ];
    let one = |(name, deployment, kind, connections)| profile(name, deployment, kind, connections, home);
    wanted.into_iter().map(one).collect()
}

fn profile(
    name: &'static str,
    deployment: &Deployment,
    kind: Kind<'_>,
    connections: usize,
    home: &Path,
) -> Result<Profile, String> {
    let (server, process) = (&deployment.server, deployment.server.running.0.id());
    let asking = Asking::new(server.address, kind, &deployment.callers);
    asking.prepare();
    asking.run(connections, WARMING);
    let recording = Recording::begin(process, home.join("samples"))?;
    let before = Reading::of(process);
    let turn = asking.run(connections, TURN);
    let spent = Reading::of(process).since(&before);
    let chains = recording.end()?;
    assert_eq!(turn.failures, 0, "{name}: an answer was not as expected");
    Ok(Profile::of(name, &chains, spent.processor(), turn.times.len()))
}
