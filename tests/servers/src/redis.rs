//! A Redis server of our own, or a Valkey server where there is one. With `REDIS_SERVER=valkey-server` every
//! test that wants Redis gets a Valkey.

use std::env;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::command::ask;
use crate::monitor::Monitor;
use crate::server::{Server, is_server};
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
    options: Vec<String>,
    server: Server,
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
        let port = master.address().port().to_string();
        // The master would wait for more replicas.
        ask(master.address(), &["CONFIG", "SET", "repl-diskless-sync-delay", "0"]).await;
        let replica = Self::start_with(&["--replicaof", "127.0.0.1", &port]).await;
        eventually("a replica to be in step", async || {
            let info = ask(replica.address(), &["INFO", "replication"]).await;
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
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut this = Self { program, options, server: Server::new("Redis", "Ready to accept connections") };
        this.resume().await;
        this
    }

    /// For `REDIS_URL`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The answer to a command: a status, a number, a text; an error begins with `-`.
    pub async fn ask(&self, words: &[&str]) -> String {
        ask(self.address(), words).await
    }

    /// Listens to what clients ask of it from now on.
    pub async fn monitor(&self) -> Monitor {
        Monitor::of(self.address()).await
    }

    /// Serves, at the same address as ever.
    pub async fn resume(&mut self) {
        let child = Command::new(&self.program)
            .args(["--bind", "127.0.0.1", "--port", &self.address().port().to_string()])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no"])
            .arg("--dir")
            .arg(self.home())
            // What is named twice is what it was named last.
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(self.new_log())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "{} cannot be started ({error}): install it (apt-get install redis-server)",
                    self.program
                )
            });
        self.is_now(child, Signal::KILL).await;
    }
}

is_server!(Redis);
