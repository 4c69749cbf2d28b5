//! A document store of our own that speaks MongoDB's protocol: SecantusDB, which is a Python package, because
//! MongoDB itself is in no distribution's archive. It shows itself as a replica set of one, as a production
//! server would.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::address::free_address;
use crate::child::Server;
use crate::waiting::eventually;

/// The Python that has the server's package, in the virtual environment that `cargo xtask test` makes.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/test-servers/secantusdb/bin/python3");

/// A server, running or stopped. Dropping it stops it for good.
#[derive(Debug)]
pub struct Mongo {
    home: TempDir,
    address: SocketAddr,
    server: Option<Server>,
}

impl Mongo {
    /// Serves an empty store that flushes every write.
    pub async fn start() -> Self {
        let home = tempfile::tempdir().expect("a folder for the server");
        // Without a file of ours it would take the settings of whichever it finds on the machine.
        fs::write(home.path().join("secantusd.toml"), "").expect("a file for the server's settings");
        let mut this = Self { home, address: free_address(), server: None };
        this.resume().await;
        this
    }

    /// For `MONGODB_URL`. The driver talks to this address only, so another one put in its place, such as a
    /// proxy's, is not left for the one that the server names.
    pub fn url(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills the server. Its data stays.
    pub async fn pause(&mut self) {
        self.server = None;
        eventually("SecantusDB to be gone", async || {
            TcpStream::connect(self.address).await.is_err().then_some(())
        })
        .await;
    }

    /// Serves, at the same address as ever.
    pub async fn resume(&mut self) {
        let log = fs::File::create(self.home.path().join("log")).expect("a file for the server's log");
        let child = Command::new(find_python())
            .args(["-m", "secantus", "--config"])
            .arg(self.home.path().join("secantusd.toml"))
            .args(["--host", "127.0.0.1", "--port", &self.address.port().to_string()])
            .arg("--storage-path")
            .arg(self.home.path().join("data"))
            .args(["--sync-on-commit", "--cache-size", "64M"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("SecantusDB can be started");
        self.server = Some(Server::new(child, Signal::KILL));
        eventually("SecantusDB to be ready", async || self.is_ready().then_some(())).await;
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
        assert!(!ended, "SecantusDB did not start:\n{log}");
        log.contains("listening on")
    }
}

fn find_python() -> PathBuf {
    let python = PathBuf::from(PYTHON);
    assert!(python.exists(), "there is no SecantusDB in target/test-servers: `cargo xtask test` installs it");
    python
}
