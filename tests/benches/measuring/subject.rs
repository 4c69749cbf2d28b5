//! The binaries that are measured: the one that was built, and with `--baseline FILE` another one beside it
//! in the same turns, such as that of the release before.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use acceptance::{SECRET, agent_host, agent_tool, repository};

/// Permits for runs of ours. What is compared has no such limit, so this one is not to be reached.
const PERMITS: usize = 1000;

/// A binary under measurement.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    binary: PathBuf,
    /// Two builds do not share compiled components.
    cache: PathBuf,
}

impl Subject {
    pub(crate) fn ours() -> Self {
        Self { name: "agent-host", binary: agent_host(), cache: repository().join("target/tmp/bench-cache") }
    }

    /// `BENCH_BASELINE`, which `--baseline` sets.
    pub(crate) fn baseline() -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "a bench has no configuration")]
        let binary = std::env::var_os("BENCH_BASELINE")?;
        let cache = repository().join("target/tmp/bench-cache.baseline");
        Some(Self { name: "baseline", binary: binary.into(), cache })
    }

    /// The built binary, then the baseline if there is one.
    pub(crate) fn all() -> Vec<Self> {
        [Some(Self::ours()), Self::baseline()].into_iter().flatten().collect()
    }

    /// Where components compiled by this binary are kept.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// The author's program. A baseline of before it has its commands in the service's binary, below `tool`.
    pub(crate) fn author(&self) -> Command {
        let beside = match self.name {
            "baseline" => self.binary.with_file_name("agent-tool"),
            _ => agent_tool(),
        };
        let mut command = if beside.is_file() { Command::new(beside) } else { Command::new(&self.binary) };
        if command.get_program() == self.binary {
            command.arg("tool");
        }
        command.env("TOOLS_CACHE_DIR", &self.cache);
        command
    }

    /// A service in production on any free port, with the shipped tools and no other setting of this process.
    /// `TOOLS_APPROVAL` is off: with it on nobody would approve the tools of a new database.
    pub(crate) fn serve(&self, provider: SocketAddr) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .arg("serve")
            .env_clear()
            .env("NODE_ENV", "production")
            .env("HOST", "127.0.0.1")
            .env("PORT", "0")
            .env("LLM_API_KEY", "bench")
            .env("LLM_MODEL", "openai/bench")
            .env("LLM_BASE_URL", format!("http://{provider}"))
            .env("TOOLS_DIR", repository().join("target/tools"))
            .env("TOOLS_APPROVAL", "off")
            .env("TOOLS_CACHE_DIR", &self.cache)
            .stderr(Stdio::inherit());
        command
    }

    /// Variant B as [`Self::serve`] starts it, with its records (and with `memory://` its queue) in a SQLite
    /// file in `home`.
    pub(crate) fn serve_variant_b(&self, provider: SocketAddr, redis_url: &str, home: &Path) -> Command {
        let mut command = self.serve(provider);
        command
            .env("SERVICE_VARIANT", "b")
            .env("JWT_SECRET", SECRET)
            .env("REDIS_URL", redis_url)
            .env("MAX_CONCURRENT_AGENTS", PERMITS.to_string())
            .env("DATABASE_URL", format!("sqlite://{}", home.join("agent.db").display()));
        command
    }

    /// Forgets what was compiled for it.
    pub(crate) fn forget_compiled(&self) {
        // Absent before the first run.
        let _ = std::fs::remove_dir_all(&self.cache);
    }
}

/// Sets the windows of the rate limits so wide that nobody meets them.
pub(crate) fn widen_rate_limits(command: &mut Command) {
    for window in ["RATE_LIMIT_IP", "RATE_LIMIT_USER", "RATE_LIMIT_PREMIUM"] {
        command.env(window, "1000000000");
    }
}
