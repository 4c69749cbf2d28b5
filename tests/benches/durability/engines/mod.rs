//! What is compared. Each engine is started as its own documentation says, takes a run by one request and
//! gives the answer to a second one that waits for it.

mod bullmq;
mod dbos;
mod langgraph;
mod ours;
mod restate;
mod temporal;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use acceptance::repository;
use serde_json::Value;

use crate::measuring::process::Running;
use crate::measuring::request::{get, post};
use crate::processes::{self, resident_mib, tree};
use crate::site::{AppendOnly, Site, Stores};
use crate::table::Memory;

/// Every commit is flushed, without a setting that says so.
const AS_IT_SHIPS: &str = "every commit, as it ships";

pub(crate) trait Engine: Sync {
    fn name(&self) -> String;

    /// What is flushed, and whether it ships so.
    fn strictness(&self) -> String;

    /// Why it cannot be measured on this machine.
    fn absent(&self) -> Option<String>;

    /// Which servers it keeps its runs in.
    fn stores(&self) -> Stores {
        Stores::default()
    }

    /// Starts it, or starts it again: what it left is in the site's home and stores.
    fn start(&self, site: &Site) -> Deployment;

    /// The request that submits a run.
    fn submit(&self, run: usize) -> Vec<u8>;

    /// The request for the answer of a run, of which the engine has said `submitted`.
    fn read(&self, run: usize, submitted: &Value) -> Vec<u8>;
}

/// An engine that has been started and takes runs.
pub(crate) struct Deployment {
    /// Where runs are submitted and answers read.
    pub(crate) address: SocketAddr,
    /// What journals, where that is a process of its own.
    server: Option<Running>,
    /// What has the agent's code.
    service: Vec<Running>,
}

impl Deployment {
    /// Of the engine, without the servers of its stores.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.server.iter().chain(&self.service).flat_map(|running| tree(running.0.id())).collect()
    }

    pub(crate) fn memory(&self, site: &Site) -> Memory {
        let of = |running: &Running| resident_mib(&tree(running.0.id()));
        Memory {
            server: self.server.as_ref().map_or(0.0, of),
            service: self.service.iter().map(of).sum(),
            stores: resident_mib(&site.processes()),
        }
    }

    /// Ends all of it at once, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        let all = || self.server.iter().chain(&self.service);
        all().for_each(|running| processes::kill(running.0.id()));
        self.server.iter_mut().chain(&mut self.service).for_each(Running::kill);
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The engines whose name has `BENCH_ENGINE` in it; all, if that is not set.
pub(crate) fn wanted() -> Vec<Box<dyn Engine>> {
    #[expect(clippy::disallowed_methods, reason = "a bench has no configuration")]
    let wanted = std::env::var("BENCH_ENGINE").unwrap_or_default();
    let mut all = all();
    all.retain(|engine| engine.name().contains(&wanted));
    all
}

fn all() -> Vec<Box<dyn Engine>> {
    let redis = [AppendOnly::EverySecond, AppendOnly::Always];
    let mut engines: Vec<Box<dyn Engine>> = vec![
        Box::new(ours::Ours::embedded(None)),
        Box::new(ours::Ours::embedded(Some(32))),
        Box::new(ours::Ours::on_postgres()),
    ];
    engines.extend(redis.map(|redis| Box::new(ours::Ours::on_redis(redis)) as _));
    engines.push(Box::new(restate::Restate));
    engines.push(Box::new(dbos::Dbos));
    engines.extend([false, true].map(|has_log| Box::new(temporal::Temporal { has_log }) as _));
    engines.push(Box::new(langgraph::LangGraph));
    engines.extend(redis.map(|redis| Box::new(bullmq::BullMq(redis)) as _));
    engines
}

/// How a row says when Redis flushes.
fn redis_strictness(append_only: AppendOnly) -> String {
    match append_only {
        AppendOnly::EverySecond => "Redis every second, as it is usual",
        AppendOnly::Always => "every commit: Redis with `appendfsync always`",
    }
    .to_owned()
}

/// Where the peers' scripts are, with the packages of Node beside them.
fn scripts() -> PathBuf {
    repository().join("tests/peers/durability")
}

/// Where `cargo xtask bench durability` installs the packages of Python.
fn python(program: &str) -> PathBuf {
    repository().join("target/durability-python/bin").join(program)
}

/// Why a peer cannot be started, if what it needs is not there.
fn absent(needed: &Path) -> Option<String> {
    let says = || format!("there is no {}: `cargo xtask bench durability` installs it", needed.display());
    (!needed.exists()).then(says)
}

/// A script of Node with what every peer is told.
fn node(script: &str, site: &Site, port: usize) -> Command {
    let mut command = Command::new("node");
    command.arg(scripts().join(script)).env_remove("NODE_OPTIONS").env("NODE_ENV", "production");
    told(&mut command, site).env("PORT", site.ports[port].to_string());
    command
}

fn told<'a>(command: &'a mut Command, site: &Site) -> &'a mut Command {
    command
        .current_dir(scripts())
        .env("LLM_BASE_URL", format!("http://{}", site.provider))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
}

/// Starts a script that says in a line of JSON that it is there.
fn script(command: &mut Command) -> Running {
    Running::start(command, |line| line.is_object().then_some(())).0
}

/// Starts a server that says nothing, and waits until it listens at these addresses.
fn server(command: &mut Command, addresses: &[SocketAddr]) -> Running {
    Running::listening(command.stderr(Stdio::null()), addresses)
}
