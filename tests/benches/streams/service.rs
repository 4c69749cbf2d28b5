//! The release binary, with the shipped tools and its usual log.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use acceptance::{SECRET, agent_host, repository};

use crate::measuring::process::Running;

/// The windows of the rate limits, so wide that nobody meets them.
const ENDLESS: &str = "1000000000";

pub(crate) struct Service {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
}

impl Service {
    /// Without users and without a database: streams as such.
    pub(crate) fn variant_a(provider: SocketAddr) -> Self {
        Self::start(&mut command(provider))
    }

    /// With the native route and the OpenAI front, its records in a SQLite file in `home`.
    pub(crate) fn variant_b(provider: SocketAddr, home: &Path) -> Self {
        let mut command = command(provider);
        command
            .env("SERVICE_VARIANT", "b")
            .env("JWT_SECRET", SECRET)
            .env("REDIS_URL", "memory://")
            .env("DATABASE_URL", format!("sqlite://{}", home.join("agent.db").display()))
            // Not to be reached: what is compared is what stands before it.
            .env("MAX_CONCURRENT_AGENTS", "1000");
        for window in ["RATE_LIMIT_IP", "RATE_LIMIT_USER", "RATE_LIMIT_PREMIUM"] {
            command.env(window, ENDLESS);
        }
        Self::start(&mut command)
    }

    pub(crate) fn stop(mut self) {
        self.running.kill();
    }

    fn start(command: &mut Command) -> Self {
        let address = |line: &serde_json::Value| line["address"].as_str()?.parse().ok();
        let (running, address) = Running::start(command, address);
        Self { running, address }
    }
}

fn command(provider: SocketAddr) -> Command {
    let mut command = Command::new(agent_host());
    command
        .arg("serve")
        .env_clear()
        .env("NODE_ENV", "production")
        .env("HOST", "127.0.0.1")
        .env("PORT", "0")
        .env("LLM_API_KEY", "bench")
        .env("LLM_MODEL", "openai/bench")
        .env("LLM_BASE_URL", format!("http://{provider}"))
        // A stream that waits for its turn on a slow machine is not to be cut for it.
        .env("AGENT_TIMEOUT_MS", "60000")
        .env("TOOLS_DIR", repository().join("target/tools"))
        .env("TOOLS_CACHE_DIR", repository().join("target/tmp/bench-cache"))
        .stderr(Stdio::inherit());
    command
}
