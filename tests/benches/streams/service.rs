//! The release binary, with the shipped tools and its usual log.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use acceptance::SECRET;

use crate::measuring::process::Running;
use crate::measuring::subject::Subject;

/// The windows of the rate limits, so wide that nobody meets them.
const ENDLESS: &str = "1000000000";

pub(crate) struct Service {
    /// Whose binary it is.
    pub(crate) name: &'static str,
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
}

impl Service {
    /// Without users and without a database: streams as such.
    pub(crate) fn variant_a(subject: &Subject, provider: SocketAddr) -> Self {
        Self::start(subject, &mut command(subject, provider))
    }

    /// Starts Variant A of every binary that is measured: ours comes first.
    pub(crate) fn variant_a_of_all(provider: SocketAddr) -> Vec<Self> {
        Subject::all().iter().map(|subject| Self::variant_a(subject, provider)).collect()
    }

    /// With the native route and the OpenAI front, its records in a SQLite file in `home`.
    pub(crate) fn variant_b(subject: &Subject, provider: SocketAddr, home: &Path) -> Self {
        let mut command = command(subject, provider);
        std::fs::create_dir_all(home).unwrap();
        command
            .env("SERVICE_VARIANT", "b")
            .env("JWT_SECRET", SECRET)
            .env("REDIS_URL", "memory://")
            // Nobody approves the tools of benches.
            .env("TOOLS_APPROVAL", "off")
            .env("DATABASE_URL", format!("sqlite://{}", home.join("agent.db").display()))
            // Not to be reached: what is compared is what stands before it.
            .env("MAX_CONCURRENT_AGENTS", "1000");
        for window in ["RATE_LIMIT_IP", "RATE_LIMIT_USER", "RATE_LIMIT_PREMIUM"] {
            command.env(window, ENDLESS);
        }
        Self::start(subject, &mut command)
    }

    pub(crate) fn stop(mut self) {
        self.running.kill();
    }

    fn start(subject: &Subject, command: &mut Command) -> Self {
        let address = |line: &serde_json::Value| line["address"].as_str()?.parse().ok();
        let (running, address) = Running::start(command, address);
        Self { name: subject.name, running, address }
    }
}

fn command(subject: &Subject, provider: SocketAddr) -> Command {
    let mut command = subject.serve(provider);
    // A stream that waits for its turn on a slow machine is not to be cut for it.
    command.env("AGENT_TIMEOUT_MS", "60000");
    command
}
