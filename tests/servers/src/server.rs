//! What the servers of tests have in common: a folder, an address, and a process that can be stopped, brought
//! back and frozen.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::address::free_address;
use crate::child::Process;
use crate::waiting::eventually;

/// A server, running or stopped. Its log is the file `log` in its folder. Dropping it stops it for good.
#[derive(Debug)]
pub struct Server {
    name: &'static str,
    ready: &'static str,
    home: TempDir,
    address: SocketAddr,
    process: Option<Process>,
}

/// Has a kind of server do what its `server` does.
macro_rules! is_server {
    ($kind:ty) => {
        impl std::ops::Deref for $kind {
            type Target = Server;

            fn deref(&self) -> &Server {
                &self.server
            }
        }

        impl std::ops::DerefMut for $kind {
            fn deref_mut(&mut self) -> &mut Server {
                &mut self.server
            }
        }
    };
}
pub(crate) use is_server;

impl Server {
    /// One of that name that does not run yet. Its log says `ready` when it serves.
    pub(crate) fn new(name: &'static str, ready: &'static str) -> Self {
        let home = tempfile::tempdir().expect("a folder for the server");
        Self { name, ready, home, address: free_address(), process: None }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Makes the file anew that its log is written to.
    pub(crate) fn new_log(&self) -> File {
        File::create(self.home().join("log")).expect("a file for the server's log")
    }

    /// Is that process from now on, which `last_word` ends. Waits until it serves.
    pub(crate) async fn is_now(&mut self, child: Child, last_word: Signal) {
        self.process = Some(Process::new(child, last_word));
        eventually(&format!("{} to be ready", self.name), async || self.is_ready().then_some(())).await;
    }

    fn is_ready(&mut self) -> bool {
        let log = fs::read_to_string(self.home().join("log")).unwrap_or_default();
        let ended = self.process.as_mut().is_none_or(Process::has_ended);
        assert!(!ended, "{} did not start:\n{log}", self.name);
        log.contains(self.ready)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process that has started all others of the server, while it runs.
    pub fn process(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Stops the server. Its data stays.
    pub async fn pause(&mut self) {
        self.process = None;
        eventually(&format!("{} to be gone", self.name), async || {
            TcpStream::connect(self.address).await.is_err().then_some(())
        })
        .await;
    }

    /// Lets it hold its connections, those of its processes too, and answer nothing, until [`Self::thaw`].
    pub fn freeze(&self) {
        self.process.iter().for_each(Process::freeze);
    }

    /// Lets it go on after [`Self::freeze`].
    pub fn thaw(&self) {
        self.process.iter().for_each(Process::thaw);
    }
}
