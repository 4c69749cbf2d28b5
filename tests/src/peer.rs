//! The Node deployment that clients use today (`peers/`): its server, its worker and its producer as
//! processes. How what it answers is compared with ours does not belong here.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use test_servers::{Postgres, Redis, within};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::artifacts::repository;
use crate::caller::Caller;
use crate::model::Model;
use crate::process::{Process, Signal};
use crate::token::SECRET;

/// Processes to be started, and the environment they share.
#[derive(Debug, Clone)]
pub struct Peer {
    variables: BTreeMap<&'static str, String>,
    /// Producers that have nothing to do: Node takes longer to start than a command takes.
    producers: Arc<Mutex<Vec<Producer>>>,
}

/// A running `producer.mjs`, which ends with its guard.
#[derive(Debug)]
struct Producer {
    _process: Child,
    input: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// A running server. What a [`Caller`] can do can be done to it directly. Dropping it kills it.
pub struct PeerServer {
    process: Process,
    caller: Caller,
    address: SocketAddr,
}

/// A running worker. Dropping it kills it.
pub struct PeerWorker {
    process: Process,
}

impl Peer {
    /// In production, on that Redis, with a database that is not there.
    pub fn on(redis: &Redis) -> Self {
        let variables = BTreeMap::from([
            ("REDIS_URL", redis.url()),
            ("DATABASE_URL", "postgres://nobody@127.0.0.1:1/nothing".to_owned()),
            ("NODE_ENV", "production".to_owned()),
            ("JWT_SECRET", SECRET.to_owned()),
            ("PORT", "0".to_owned()),
        ]);
        Self { variables, producers: Arc::default() }
    }

    /// Asks this model, which from now on [expects](Model::expects_a_peer) it.
    #[must_use]
    pub fn model(self, model: &Model) -> Self {
        model.expects_a_peer();
        self.env("LLM_MODEL", &model.name())
            .env("LLM_API_KEY", model.key())
            .env("LLM_BASE_URL", &model.base_url())
    }

    /// Uses this database.
    #[must_use]
    pub fn postgres(self, postgres: &Postgres) -> Self {
        self.env("DATABASE_URL", &postgres.url())
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &'static str, value: &str) -> Self {
        self.variables.insert(name, value.to_owned());
        self.producers = Arc::default();
        self
    }

    /// Starts `server.mjs` and waits until it listens.
    pub async fn serve(&self) -> PeerServer {
        self.listen("server.mjs").await
    }

    /// Starts Bull Board (`board.mjs`) and waits until it listens.
    pub async fn board(&self) -> PeerServer {
        folder("@bull-board/express");
        self.listen("board.mjs").await
    }

    async fn listen(&self, program: &str) -> PeerServer {
        let process = self.start(program);
        let port = process.log().entry(&format!("the port of {program}"), |line| line["port"].is_u64()).await;
        let port = port["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
        let address = (Ipv4Addr::LOCALHOST, port).into();
        PeerServer { process, caller: Caller::new(address), address }
    }

    /// Starts `worker.mjs` and waits until it takes jobs.
    pub async fn work(&self) -> PeerWorker {
        let process = self.start("worker.mjs");
        process.log().entry("the reference worker to be ready", |line| line["event"] == "ready").await;
        PeerWorker { process }
    }

    /// Adds that many equal jobs through BullMQ's own producer: their ids.
    pub async fn add(&self, query: &str, user: &str, count: usize) -> Vec<String> {
        self.add_with(query, user, count, &json!({})).await
    }

    /// Adds a job within a trace, as BullMQ's telemetry does: its id.
    pub async fn add_in_trace(&self, query: &str, user: &str, traceparent: &str) -> String {
        let metadata = json!({ "traceparent": traceparent }).to_string();
        let options = json!({ "telemetry": { "metadata": metadata } });
        self.add_with(query, user, 1, &options).await.remove(0)
    }

    /// Adds jobs with these options of BullMQ's: their ids.
    pub async fn add_with(&self, query: &str, user: &str, count: usize, options: &Value) -> Vec<String> {
        let added = self.produce(&["add", query, user, &count.to_string(), &options.to_string()]).await;
        added.iter().map(|job| job["jobId"].as_str().expect("the id of a job").to_owned()).collect()
    }

    /// Makes a job scheduler.
    pub async fn schedule(&self, id: &str, repeat: &Value, query: &str, user: &str) {
        self.produce(&["schedule", id, &repeat.to_string(), query, user]).await;
    }

    /// Adds a job that waits for its children: `{data, opts, children}`.
    pub async fn add_flow(&self, tree: &Value) {
        self.produce(&["flow", &tree.to_string()]).await;
    }

    /// Limits the whole queue: `{concurrency, rate: [max, duration]}`.
    pub async fn limit(&self, limits: &Value) {
        self.produce(&["limit", &limits.to_string()]).await;
    }

    /// Gives a job other data.
    pub async fn edit(&self, id: &str, query: &str, user: &str) {
        self.produce(&["edit", id, query, user]).await;
    }

    /// Puts a job that has ended in that state back to the queue.
    pub async fn retry(&self, id: &str, state: &str) {
        self.produce(&["retry", id, state]).await;
    }

    /// Waits, as BullMQ's own producer would, until a job has ended: `{jobId, returnvalue}` or
    /// `{jobId, failedReason}`.
    pub async fn wait(&self, id: &str) -> Value {
        self.produce(&["wait", id]).await.remove(0)
    }

    /// A job as BullMQ reads it: `{jobId, state, job}`.
    pub async fn show(&self, id: &str) -> Value {
        self.produce(&["show", id]).await.remove(0)
    }

    /// How many jobs there are in each state, as BullMQ counts them.
    pub async fn counts(&self) -> Value {
        self.produce(&["counts"]).await.remove(0)["counts"].take()
    }

    /// Has `producer.mjs` do something: what it printed.
    async fn produce(&self, arguments: &[&str]) -> Vec<Value> {
        let idle = self.producers.lock().pop();
        let mut producer = idle.unwrap_or_else(|| Producer::start(&mut self.command("producer.mjs")));
        let printed = producer.produce(arguments).await;
        self.producers.lock().push(producer);
        printed
    }

    fn start(&self, program: &str) -> Process {
        Process::spawn(&mut self.command(program))
    }

    fn command(&self, program: &str) -> Command {
        let folder = folder("bullmq");
        let mut command = Command::new("node");
        command
            .arg(folder.join(program))
            .env_clear()
            // Node stands in other places on other machines.
            .env("PATH", search_path())
            .envs(&self.variables)
            .current_dir(folder);
        command
    }
}

impl Producer {
    fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = piped.spawn().expect("node can be started");
        let (input, output) = (process.stdin.take().expect("a pipe"), process.stdout.take().expect("a pipe"));
        Self { _process: process, input, answers: BufReader::new(output).lines() }
    }

    async fn produce(&mut self, arguments: &[&str]) -> Vec<Value> {
        let line = json!(arguments).to_string() + "\n";
        self.input.write_all(line.as_bytes()).await.expect("the producer reads all of it");
        let answer = within("the producer to answer", self.answers.next_line()).await.expect("lines of text");
        let answer = answer.unwrap_or_else(|| panic!("producer.mjs {arguments:?} ended: its error is above"));
        serde_json::from_str(&answer).expect("a list of what it printed")
    }
}

/// The folder of the peers. The package they need has to be there.
pub(crate) fn folder(package: &str) -> PathBuf {
    let folder = repository().join("tests/peers");
    assert!(
        folder.join("node_modules").join(package).is_dir(),
        "there is no package {package} in {}/node_modules: run `npm ci` there (`cargo xtask test` does)",
        folder.display()
    );
    let node = std::process::Command::new("node").arg("--version").output();
    assert!(
        node.is_ok_and(|output| output.status.success()),
        "there is no `node`: install Node 20 or newer (`cargo xtask test` says how)"
    );
    folder
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is no service, and it starts what the user has installed"
)]
pub(crate) fn search_path() -> String {
    std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned())
}

impl PeerServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it as an orchestrator does.
    pub async fn stop(mut self) {
        self.process.signal(Signal::TERM);
        self.process.ended().await;
    }
}

impl Deref for PeerServer {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl PeerWorker {
    /// Waits until it has completed that job.
    pub async fn completes(&self, id: &str) {
        let completed = |line: &Value| line["event"] == "completed" && line["jobId"] == id;
        self.process
            .log()
            .entry(&format!("job {id} to be completed by the reference worker"), completed)
            .await;
    }

    /// Ends it without a word to anybody.
    pub fn kill(self) {
        drop(self);
    }
}
