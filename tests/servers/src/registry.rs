//! A registry of our own for OCI artifacts: Debian's `docker-registry`, without TLS.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::address::free_address;
use crate::child::Server;
use crate::waiting::eventually;

/// Who may use [`Registry::with_login`], and with which password.
pub const REGISTRY_LOGIN: (&str, &str) = ("publisher", "hunter2");

/// [`REGISTRY_LOGIN`] as `htpasswd -nbB -C 4 publisher hunter2` writes it.
const HTPASSWD: &str = "publisher:$2b$04$abcdefghijklmnopqrstuuV3duMsC0HpUex6N9qapiuOHHWkwRXVm\n";

/// A server, running or stopped. Dropping it stops it for good.
#[derive(Debug)]
pub struct Registry {
    home: TempDir,
    address: SocketAddr,
    server: Option<Server>,
}

impl Registry {
    /// Serves an empty registry to everybody.
    pub async fn start() -> Self {
        Self::configured("").await
    }

    /// Serves an empty registry to [`REGISTRY_LOGIN`] alone, who logs in with every request (Basic).
    pub async fn with_login() -> Self {
        Self::configured("auth:\n  htpasswd:\n    realm: tests\n    path: HOME/htpasswd\n").await
    }

    async fn configured(auth: &str) -> Self {
        let home = tempfile::tempdir().expect("a folder for the server");
        let address = free_address();
        let folder = home.path().to_str().expect("a folder whose name is text");
        let settings = format!(
            "version: 0.1\nlog:\n  accesslog:\n    disabled: true\nstorage:\n  filesystem:\n    rootdirectory: \
             HOME/data\nhttp:\n  addr: {address}\n{auth}"
        );
        fs::write(home.path().join("settings.yml"), settings.replace("HOME", folder)).expect("its settings");
        fs::write(home.path().join("htpasswd"), HTPASSWD).expect("its users");
        let mut this = Self { home, address, server: None };
        this.resume().await;
        this
    }

    /// For references: `host:port`.
    pub fn name(&self) -> String {
        self.address.to_string()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server. Its data stays.
    pub async fn pause(&mut self) {
        self.server = None;
        eventually("the registry to be gone", async || {
            TcpStream::connect(self.address).await.is_err().then_some(())
        })
        .await;
    }

    /// Serves, at the same address as ever.
    pub async fn resume(&mut self) {
        let log = fs::File::create(self.home.path().join("log")).expect("a file for the server's log");
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(self.home.path().join("settings.yml"))
            .env_clear()
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "docker-registry cannot be started ({error}): install it (apt-get install docker-registry)"
                )
            });
        self.server = Some(Server::new(child, Signal::KILL));
        eventually("docker-registry to be ready", async || self.is_ready().then_some(())).await;
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
        assert!(!ended, "docker-registry did not start:\n{log}");
        log.contains("listening on")
    }
}
