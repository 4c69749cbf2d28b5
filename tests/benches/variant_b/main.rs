//! Variant B beside the Node deployment that clients use today: requests, jobs, recovery and memory, in one run.
//!
//! Both have the same provider, which answers at once, the same Redis for requests, and one each, of the same
//! settings, for jobs. They take turns, so that the ratios hold on a noisy machine. What is not the same: ours
//! counts its windows on Redis for all replicas and records every run in SQLite, the peer counts in its own
//! memory and records nothing; the peer works jobs off in a process of its own, ours in the one that serves.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark"
)]

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
use deployments::Server;
use events::Events;
use jobs::Seen;
use measuring::{machine, provider};
use memory::{Idle, Memory};
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
    // A start that has to compile the tools would be measured as one that holds more memory.
    drop(deployments::serve(&mut deployments::host(provider, "memory://", home.path())));
    let (agents, served) = measure_agents(&runtime, provider, &home.path().join("agents"));
    let (jobs, worked) = measure_jobs(&runtime, provider, home.path());
    println!();
    agents.report(served, "requests", "the peer's server");
    jobs.report(worked, "jobs", "the peer's server and worker together");
    cost::measure(&runtime, provider, home.path());
    recovery::measure(&runtime);
}

/// Requests of both on one Redis. Answers the memory of ours and of the peer.
fn measure_agents(runtime: &Runtime, provider: SocketAddr, home: &Path) -> (Memory, Memory) {
    std::fs::create_dir(home).unwrap();
    let redis = deployments::start_redis(runtime);
    let ours = deployments::serve(&mut deployments::host(provider, &redis.url(), home));
    let peer = deployments::serve(&mut deployments::peer("server.mjs", provider, &redis.url()));
    let idle = (Idle::of([&ours.running]), Idle::of([&peer.running]));
    let callers = [Callers::new(), Callers::new()];
    let contender = |name, server: &Server, callers| {
        let meter = Meter::of([&server.running], Some(&redis));
        agent::Contender { name, address: server.address, callers, meter }
    };
    agent::measure(
        provider,
        &[contender("agent-host", &ours, &callers[0]), contender("peer (Express)", &peer, &callers[1])],
    );
    (idle.0.loaded(), idle.1.loaded())
}

/// Jobs of both, each on a Redis of its own, and of our embedded queue. Answers the memory of ours and of the peer.
fn measure_jobs(runtime: &Runtime, provider: SocketAddr, home: &Path) -> (Memory, Memory) {
    let [with_redis, embedded] = ["jobs", "embedded"].map(|name| home.join(name));
    for folder in [&with_redis, &embedded] {
        std::fs::create_dir(folder).unwrap();
    }
    let [our_redis, peer_redis] = [(); 2].map(|()| deployments::start_redis(runtime));
    let ours = deployments::serve(&mut deployments::host(provider, &our_redis.url(), &with_redis));
    let embedded = deployments::serve(&mut deployments::host(provider, "memory://", &embedded));
    let server = deployments::serve(&mut deployments::peer("server.mjs", provider, &peer_redis.url()));
    let worker = deployments::work(&mut deployments::peer("worker.mjs", provider, &peer_redis.url()));
    let idle = (Idle::of([&ours.running]), Idle::of([&server.running, &worker]));
    let [our_events, peer_events] = [&our_redis, &peer_redis].map(Events::of);
    let callers = [(); 3].map(|()| Callers::new());
    let contender = |name, server: &Server, callers, seen, meter| jobs::Contender {
        name,
        address: server.address,
        callers,
        seen,
        meter,
    };
    let on_redis = || Meter::of([&ours.running], Some(&our_redis));
    jobs::measure(&[
        contender(
            "agent-host, Redis, seen in events",
            &ours,
            &callers[0],
            Seen::InEvents(&our_events),
            on_redis(),
        ),
        contender(
            "peer (BullMQ), Redis, seen in events",
            &server,
            &callers[1],
            Seen::InEvents(&peer_events),
            Meter::of([&server.running, &worker], Some(&peer_redis)),
        ),
        contender("agent-host, Redis, seen in GET ?wait=", &ours, &callers[0], Seen::InAnswer, on_redis()),
        contender(
            "agent-host, SQLite, seen in GET ?wait=",
            &embedded,
            &callers[2],
            Seen::InAnswer,
            Meter::of([&embedded.running], None),
        ),
    ]);
    (idle.0.loaded(), idle.1.loaded())
}
