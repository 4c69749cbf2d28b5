//! The release binary as it is deployed, and the same without one part of it at a time, as its settings
//! allow.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::callers::Callers;
use crate::deployments;
use crate::measuring::process::{Running, Server};
use crate::measuring::subject::{Subject, widen_rate_limits};

/// Where files lie in memory, so that a flush costs nothing.
const IN_MEMORY: &str = "/dev/shm";

/// Everything: windows and cache on Redis, records in SQLite on disk, a line in the log for each request.
pub(crate) const WHOLE: &str = "everything";

/// A running service.
pub(crate) struct Deployment {
    pub(crate) name: &'static str,
    pub(crate) server: Server,
    pub(crate) callers: Callers,
    _home: TempDir,
}

/// What a deployment has, as little or as much as is asked for.
#[derive(Clone, Copy)]
struct Parts<'a> {
    redis_url: &'a str,
    in_memory: bool,
    logs: bool,
    threads: Threads,
}

#[derive(Clone, Copy)]
enum Threads {
    /// One for each processor, each with a runtime of its own.
    Own,
    /// The threads of the runtime that all work is done on.
    Shared,
    /// The one thread of that runtime.
    One,
}

/// Variant B with everything, and once without each part. Says which cannot be had here.
pub(crate) fn start_all(ours: &Subject, provider: SocketAddr, redis_url: &str) -> Vec<Deployment> {
    let whole = Parts { redis_url, in_memory: false, logs: true, threads: Threads::Own };
    let has_memory = Path::new(IN_MEMORY).is_dir();
    let mut wanted = vec![
        (WHOLE, whole),
        ("without Redis", Parts { redis_url: "memory://", ..whole }),
        ("without the log", Parts { logs: false, ..whole }),
        ("on the runtime of all other work", Parts { threads: Threads::Shared, ..whole }),
        ("the same with one worker thread", Parts { threads: Threads::One, ..whole }),
    ];
    if has_memory {
        let bare = Parts { redis_url: "memory://", in_memory: true, logs: false, ..whole };
        wanted.push(("with SQLite's file in memory", Parts { in_memory: true, ..whole }));
        wanted.push(("without Redis, flushes and the log", bare));
        let shared = Parts { threads: Threads::Shared, ..bare };
        wanted.push(("without these, on the runtime of all other work", shared));
    } else {
        println!("there is no {IN_MEMORY}: what a flush costs is not measured");
    }
    wanted.into_iter().map(|(name, parts)| variant_b(ours, name, provider, parts)).collect()
}

fn variant_b(subject: &Subject, name: &'static str, provider: SocketAddr, parts: Parts<'_>) -> Deployment {
    let home = if parts.in_memory { tempfile::tempdir_in(IN_MEMORY) } else { tempfile::tempdir() };
    let home = home.unwrap();
    let mut command = deployments::host(subject, provider, parts.redis_url, home.path());
    if !matches!(parts.threads, Threads::Own) {
        command.env("SERVING_THREADS", "0");
    }
    if matches!(parts.threads, Threads::One) {
        // tokio reads it.
        command.env("TOKIO_WORKER_THREADS", "1");
    }
    start(name, command, home, parts.logs)
}

/// `/agent/invoke`, which knows no users, windows or cache: with a store of runs, or with none, where records
/// and journals are dropped. So the difference between both is what the store of runs costs.
pub(crate) fn variant_a(
    subject: &Subject,
    name: &'static str,
    provider: SocketAddr,
    has_store: bool,
) -> Deployment {
    let home = tempfile::tempdir().unwrap();
    let mut command = deployments::host(subject, provider, "memory://", home.path());
    command.env("SERVICE_VARIANT", "a");
    for unused in ["JWT_SECRET", "REDIS_URL"] {
        command.env_remove(unused);
    }
    if !has_store {
        command.env_remove("DATABASE_URL");
    }
    start(name, command, home, true)
}

/// Variant B with everything; its jobs lie on Redis, or in SQLite on disk.
pub(crate) fn with_queue(
    subject: &Subject,
    name: &'static str,
    provider: SocketAddr,
    redis_url: &str,
) -> Deployment {
    let parts = Parts { redis_url, in_memory: false, logs: true, threads: Threads::Own };
    variant_b(subject, name, provider, parts)
}

fn start(name: &'static str, mut command: Command, home: TempDir, logs: bool) -> Deployment {
    widen_rate_limits(&mut command);
    let server = if logs { Server::start(&mut command) } else { serve_silently(&mut command) };
    Deployment { name, server, callers: Callers::new(), _home: home }
}

/// A service whose log does not say where it listens.
fn serve_silently(command: &mut Command) -> Server {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    command.env("LOG_LEVEL", "error").env("PORT", address.port().to_string());
    Server { running: Running::listening(command, &[address]), address }
}
