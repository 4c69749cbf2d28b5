//! A Redis server of our own, or a Valkey server where there is one. With `REDIS_SERVER=valkey-server` every
//! test that wants Redis gets a Valkey.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::address::free_address;
use crate::child::Server;
use crate::command::ask;
use crate::monitor::Monitor;
use crate::waiting::eventually;

/// The program that serves as Redis.
#[expect(clippy::disallowed_methods, reason = "a setting of the tests, like nextest's own")]
pub(crate) fn redis_program() -> String {
    env::var("REDIS_SERVER").unwrap_or_else(|_unset| "redis-server".to_owned())
}

/// A server, running or stopped. Dropping it stops it for good.
#[derive(Debug)]
pub struct Redis {
    program: String,
    home: TempDir,
    address: SocketAddr,
    options: Vec<String>,
    server: Option<Server>,
}

impl Redis {
    /// An empty Valkey. Nothing, and a word about it, when no `valkey-server` is in `PATH`: not every
    /// distribution has one.
    #[expect(clippy::print_stderr, reason = "whoever reads the tests' output should know")]
    pub async fn start_valkey() -> Option<Self> {
        let version = Command::new("valkey-server").arg("--version").stdin(Stdio::null()).output();
        if !version.is_ok_and(|output| output.status.success()) {
            eprintln!("not tested: there is no valkey-server in PATH");
            return None;
        }
        Some(Self::start_program("valkey-server".to_owned(), &[]).await)
    }

    /// A replica of another one, when it has all that the other has.
    pub async fn start_replica_of(master: &Self) -> Self {
        let port = master.address.port().to_string();
        // The master would wait for more replicas.
        ask(master.address, &["CONFIG", "SET", "repl-diskless-sync-delay", "0"]).await;
        let replica = Self::start_with(&["--replicaof", "127.0.0.1", &port]).await;
        eventually("a replica to be in step", async || {
            let info = ask(replica.address, &["INFO", "replication"]).await;
            info.contains("master_link_status:up").then_some(())
        })
        .await;
        replica
    }

    /// Serves an empty store that flushes every write to its append-only file.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts the server with other settings: `--name`, value.
    pub async fn start_with(options: &[&str]) -> Self {
        Self::start_program(redis_program(), options).await
    }

    async fn start_program(program: String, options: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("a folder for the server");
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut this = Self { program, home, address: free_address(), options, server: None };
        this.resume().await;
        this
    }

    /// The process of the server, while it runs.
    pub fn process(&self) -> Option<u32> {
        self.server.as_ref().map(Server::id)
    }

    /// For `REDIS_URL`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The answer to a command: a status, a number, a text; an error begins with `-`.
    pub async fn ask(&self, words: &[&str]) -> String {
        ask(self.address, words).await
    }

    /// Listens to what clients ask of it from now on.
    pub async fn monitor(&self) -> Monitor {
        Monitor::of(self.address).await
    }

    /// Stops the server. Its data stays.
    pub async fn pause(&mut self) {
        self.server = None;
        eventually("Redis to be gone", async || {
            TcpStream::connect(self.address).await.is_err().then_some(())
        })
        .await;
    }

    /// Serves, at the same address as ever.
    pub async fn resume(&mut self) {
        let log = fs::File::create(self.home.path().join("log")).expect("a file for the server's log");
        let child = Command::new(&self.program)
            .args(["--bind", "127.0.0.1", "--port", &self.address.port().to_string()])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no"])
            .arg("--dir")
            .arg(self.home.path())
            // What is named twice is what it was named last.
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "{} cannot be started ({error}): install it (apt-get install redis-server)",
                    self.program
                )
            });
        self.server = Some(Server::new(child, Signal::KILL));
        eventually("Redis to be ready", async || self.is_ready().then_some(())).await;
    }

    /// Lets it hold its connections and answer nothing, until [`Self::thaw`].
    pub fn freeze(&self) {
        if let Some(server) = &self.server {
            server.freeze();
        }
    }

    /// Lets it go on after [`Self::freeze`].
    pub fn thaw(&self) {
        if let Some(server) = &self.server {
            server.thaw();
        }
    }

    fn is_ready(&mut self) -> bool {
        let log = fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
        let ended = self.server.as_mut().is_none_or(Server::has_ended);
        assert!(!ended, "Redis did not start:\n{log}");
        log.contains("Ready to accept connections")
    }
}
