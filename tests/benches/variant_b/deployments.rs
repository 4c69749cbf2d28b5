//! What is compared: the release binary, and the Node deployment of `tests/peers/` as a server and a worker,
//! both in production, with the same secret, the same provider and one trusted proxy before them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use acceptance::{SECRET, repository};
use test_servers::Redis;
use tokio::runtime::Runtime;

use crate::measuring::process::Running;
use crate::measuring::subject::Subject;

/// A Redis of its own, which flushes its append-only file every second, as Redis does unless it is told
/// otherwise. Tests want theirs to flush every write; that would make this a bench of the disk.
pub(crate) fn start_redis(runtime: &Runtime) -> Redis {
    let redis = runtime.block_on(Redis::start());
    let mut connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    redis::cmd("CONFIG").arg(&["SET", "appendfsync", "everysec"]).exec(&mut connection).unwrap();
    redis
}

/// A binary of ours, on any free port, with its records (and with `memory://` its queue) in a SQLite file in
/// `home`.
pub(crate) fn host(subject: &Subject, provider: SocketAddr, redis_url: &str, home: &Path) -> Command {
    let mut command = subject.serve_variant_b(provider, redis_url, home);
    command.env("TRUST_PROXY", "1");
    command
}

/// A program of the peer's: `server.mjs` or `worker.mjs`.
pub(crate) fn peer(program: &str, provider: SocketAddr, redis_url: &str) -> Command {
    let folder = repository().join("tests/peers");
    assert!(folder.join("node_modules/bullmq").is_dir(), "run `npm ci` in {} first", folder.display());
    let mut command = Command::new("node");
    command
        .arg(folder.join(program))
        .current_dir(folder)
        .env_remove("NODE_OPTIONS")
        // The deployment connects only when its health is asked for.
        .env("DATABASE_URL", "postgres://nobody@127.0.0.1:1/nothing")
        .env("NODE_ENV", "production")
        .env("PORT", "0")
        .env("JWT_SECRET", SECRET)
        .env("REDIS_URL", redis_url)
        .env("LLM_API_KEY", "bench")
        .env("LLM_MODEL", "openai/bench")
        .env("LLM_BASE_URL", format!("http://{provider}"))
        .env("TRUST_PROXY", "1");
    command
}

/// Starts the peer's worker, and waits until it takes jobs.
pub(crate) fn work(command: &mut Command) -> Running {
    Running::start(command, |line| (line["event"] == "ready").then_some(())).0
}
