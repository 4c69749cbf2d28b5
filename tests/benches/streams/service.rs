//! The release binary, with the shipped tools and its usual log.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::measuring::process::{Running, Server};
use crate::measuring::subject::{Subject, widen_rate_limits};

pub(crate) struct Service {
    /// Whose binary it is.
    pub(crate) name: &'static str,
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
}

impl Service {
    /// Without users and without a database: streams as such.
    pub(crate) fn variant_a(subject: &Subject, provider: SocketAddr) -> Self {
        Self::start(subject, &mut subject.serve(provider))
    }

    /// Starts Variant A of every binary that is measured: ours comes first.
    pub(crate) fn variant_a_of_all(provider: SocketAddr) -> Vec<Self> {
        Subject::all().iter().map(|subject| Self::variant_a(subject, provider)).collect()
    }

    /// With the native route and the OpenAI front, its records in a SQLite file in `home`.
    pub(crate) fn variant_b(subject: &Subject, provider: SocketAddr, home: &Path) -> Self {
        std::fs::create_dir_all(home).unwrap();
        let mut command = subject.serve_variant_b(provider, "memory://", home);
        widen_rate_limits(&mut command);
        Self::start(subject, &mut command)
    }

    pub(crate) fn stop(mut self) {
        self.running.kill();
    }

    fn start(subject: &Subject, command: &mut Command) -> Self {
        // A stream that waits for its turn on a slow machine is not to be cut for it.
        let Server { running, address } = Server::start(command.env("AGENT_TIMEOUT_MS", "60000"));
        Self { name: subject.name, running, address }
    }
}
