//! Variant B beside the Node deployment that clients use today: requests, jobs, recovery and memory, in one
//! run.
//!
//! Both have the same provider, which answers at once, the same Redis for requests, and one each, of the same
//! settings, for jobs. They take turns, so that the ratios hold on a noisy machine. What is not the same:
//! ours counts its windows on Redis for all replicas and records every run in SQLite, the peer counts in its
//! own memory and records nothing; the peer works jobs off in a process of its own, ours in the one that
//! serves.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "a benchmark")]

mod agent;
mod aim;
mod callers;
mod cost;
mod cpu;
mod deployments;
mod events;
mod jobs;
#[path = "../measuring/mod.rs"]
mod measuring;
mod memory;
mod recovery;
mod row;

use std::net::SocketAddr;
use std::path::Path;

use callers::Callers;
use cpu::Meter;
use events::{Events, Seen};
use measuring::process::Server;
use measuring::subject::Subject;
use measuring::{machine, provider};
use memory::{Idle, Memory};
use test_servers::Redis;
use tokio::runtime::Runtime;

/// How many connections ask at once, or jobs are under way.
const CONNECTIONS: [usize; 2] = [1, 32];

fn main() {
    println!("machine: {}", machine::describe());
    println!(
        "shared by the service, the peer, Redis, the provider and the load; Redis with appendfsync everysec"
    );
    println!(
        "failures are answers that were not as expected: for a query a 200 with the expected `cached`, for a job that it"
    );
    println!(
        "is accepted and completed; service, redis, load (with the provider): processor time of each per answer, in µs"
    );
    let runtime = Runtime::new().unwrap();
    let provider = provider::start();
    let home = tempfile::tempdir().unwrap();
    let subjects = Subject::all();
    for subject in &subjects {
        // A start that has to compile the tools would be measured as one that holds more memory.
        drop(Server::start(&mut deployments::host(subject, provider, "memory://", home.path())));
    }
    let agents = measure_agents(&runtime, &subjects, provider, &home.path().join("agents"));
    let jobs = measure_jobs(&runtime, &subjects, provider, home.path());
    println!();
    agents.report("requests", "the peer's server");
    jobs.report("jobs", "the peer's server and worker together");
    cost::measure(&runtime, provider, home.path());
    recovery::measure(&runtime);
}

/// Resident memory of all that were measured side by side.
struct Resident {
    ours: Memory,
    peer: Memory,
    baseline: Option<Memory>,
}

impl Resident {
    fn report(self, load: &str, peers: &str) {
        self.ours.report(self.peer, load, peers);
        if let Some(baseline) = self.baseline {
            baseline.report_baseline(load);
        }
    }
}

/// A service of ours, or of the baseline, with the callers that ask it.
struct Deployed {
    name: &'static str,
    server: Server,
    callers: Callers,
    redis: Option<Redis>,
}

impl Deployed {
    fn start(subject: &Subject, provider: SocketAddr, redis: Option<Redis>, home: &Path) -> Self {
        std::fs::create_dir_all(home).unwrap();
        let url = redis.as_ref().map_or_else(|| "memory://".to_owned(), Redis::url);
        let server = Server::start(&mut deployments::host(subject, provider, &url, home));
        Self { name: subject.name, server, callers: Callers::new(), redis }
    }

    fn job<'a>(&'a self, seen: Seen<'a>) -> jobs::Contender<'a> {
        let (store, how) = (if self.redis.is_some() { "Redis" } else { "SQLite" }, seen.name());
        jobs::Contender {
            name: format!("{}, {store}, seen in {how}", self.name),
            address: self.server.address,
            callers: &self.callers,
            seen,
            meter: Meter::of([&self.server.running], self.redis.as_ref()),
        }
    }
}

/// Requests of all on one Redis.
fn measure_agents(runtime: &Runtime, subjects: &[Subject], provider: SocketAddr, home: &Path) -> Resident {
    let redis = deployments::start_redis(runtime);
    let serve = |subject: &Subject| {
        let home = home.join(subject.name);
        std::fs::create_dir_all(&home).unwrap();
        Server::start(&mut deployments::host(subject, provider, &redis.url(), &home))
    };
    let mut servers: Vec<_> = subjects.iter().map(|subject| (subject.name, serve(subject))).collect();
    let peer = Server::start(&mut deployments::peer("server.mjs", provider, &redis.url()));
    servers.insert(1, ("peer (Express)", peer));
    let idle: Vec<_> = servers.iter().map(|(_, server)| Idle::of([&server.running])).collect();
    let callers: Vec<_> = servers.iter().map(|_| Callers::new()).collect();
    let contenders: Vec<_> = servers
        .iter()
        .zip(&callers)
        .map(|(&(name, ref server), callers)| {
            let meter = Meter::of([&server.running], Some(&redis));
            agent::Contender { name, address: server.address, callers, meter }
        })
        .collect();
    agent::measure(provider, &contenders);
    resident(idle)
}

/// Jobs of all, each on a Redis of its own, and of our embedded queue.
fn measure_jobs(runtime: &Runtime, subjects: &[Subject], provider: SocketAddr, home: &Path) -> Resident {
    let on_redis = |subject: &Subject| {
        let redis = deployments::start_redis(runtime);
        Deployed::start(subject, provider, Some(redis), &home.join("jobs").join(subject.name))
    };
    let embedded = |subject: &Subject| {
        Deployed::start(subject, provider, None, &home.join("embedded").join(subject.name))
    };
    let with_redis: Vec<_> = subjects.iter().map(on_redis).collect();
    let embedded: Vec<_> = subjects.iter().map(embedded).collect();
    let peer_redis = deployments::start_redis(runtime);
    let server = Server::start(&mut deployments::peer("server.mjs", provider, &peer_redis.url()));
    let worker = deployments::work(&mut deployments::peer("worker.mjs", provider, &peer_redis.url()));
    let mut idle: Vec<_> = with_redis.iter().map(|it| Idle::of([&it.server.running])).collect();
    idle.insert(1, Idle::of([&server.running, &worker]));
    let (peer_events, peer_callers) = (Events::of(&peer_redis), Callers::new());
    let peer = jobs::Contender {
        name: "peer (BullMQ), Redis, seen in events".to_owned(),
        address: server.address,
        callers: &peer_callers,
        seen: Seen::InEvents(&peer_events),
        meter: Meter::of([&server.running, &worker], Some(&peer_redis)),
    };
    let events: Vec<_> = with_redis.iter().filter_map(|it| it.redis.as_ref()).map(Events::of).collect();
    let in_events = with_redis.iter().zip(&events).map(|(it, events)| it.job(Seen::InEvents(events)));
    let in_answers = with_redis.iter().chain(&embedded).map(|it| it.job(Seen::InAnswer));
    let mut contenders: Vec<_> = in_events.chain(in_answers).collect();
    contenders.insert(1, peer);
    jobs::measure(&contenders, subjects.len() > 1);
    resident(idle)
}

/// Ours come first, then the peer's, then the baseline's.
fn resident(idle: Vec<Idle<'_>>) -> Resident {
    let mut loaded = idle.into_iter().map(Idle::loaded);
    let mut next = || loaded.next();
    Resident { ours: next().unwrap(), peer: next().unwrap(), baseline: next() }
}
