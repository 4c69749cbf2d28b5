//! The release binary, started and looked at from outside.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::measuring::process::Running;

pub(crate) struct Service {
    running: Running,
    pub(crate) address: SocketAddr,
}

impl Service {
    /// Starts the service and waits for the address in its log.
    pub(crate) fn start(provider: SocketAddr) -> Self {
        Self::start_command(&mut command(provider))
    }

    /// The same with another binary of agent-host, such as that of the release before: `BENCH_BASELINE`. Absent when
    /// that is not set.
    pub(crate) fn start_baseline(provider: SocketAddr) -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "a bench has no configuration")]
        let binary = std::env::var_os("BENCH_BASELINE")?;
        let mut baseline = set_up(Command::new(binary), provider);
        // Two versions do not share what they compiled.
        baseline.env("TOOLS_CACHE_DIR", cache().with_extension("baseline"));
        Some(Self::start_command(&mut baseline))
    }

    fn start_command(command: &mut Command) -> Self {
        let address = |line: &serde_json::Value| line["address"].as_str()?.parse().ok();
        let (running, address) = Running::start(command, address);
        Self { running, address }
    }

    /// The same, with every request traced and its spans exported to `collector`.
    pub(crate) fn start_traced(provider: SocketAddr, collector: SocketAddr) -> Self {
        let mut command = command(provider);
        command.env("TRACING_API_KEY", "bench");
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{collector}"));
        Self::start_command(&mut command)
    }

    pub(crate) fn resident_mib(&self) -> f64 {
        self.running.resident_mib()
    }

    pub(crate) fn peak_mib(&self) -> f64 {
        self.running.peak_mib()
    }

    pub(crate) fn stop(&mut self) {
        self.running.kill();
    }
}

/// What a service holds that found nothing compiled. Leaves the cache warm.
pub(crate) fn resident_mib_after_compiling(provider: SocketAddr) -> f64 {
    let _ = fs::remove_dir_all(cache());
    let mut service = Service::start(provider);
    let resident = service.resident_mib();
    service.stop();
    resident
}

/// From exec to the first readiness report that says healthy, found by asking again and again.
pub(crate) fn time_to_ready(provider: SocketAddr) -> Duration {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let start = Instant::now();
    let mut child = command(provider).env("PORT", port.to_string()).stdout(Stdio::null()).spawn().unwrap();
    while !is_ready(address) {
        assert!(start.elapsed() < Duration::from_secs(30), "never ready");
        thread::yield_now();
    }
    let elapsed = start.elapsed();
    child.kill().unwrap();
    child.wait().unwrap();
    elapsed
}

fn is_ready(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut response = String::new();
    let asked =
        stream.write_all(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    asked.and_then(|()| stream.read_to_string(&mut response)).is_ok() && response.starts_with("HTTP/1.1 200")
}

fn command(provider: SocketAddr) -> Command {
    set_up(Command::new(acceptance::agent_host()), provider)
}

fn set_up(mut command: Command, provider: SocketAddr) -> Command {
    command
        .arg("serve")
        .env_clear()
        .env("NODE_ENV", "production")
        .env("HOST", "127.0.0.1")
        .env("PORT", "0")
        .env("LLM_API_KEY", "bench")
        .env("LLM_MODEL", "openai/bench")
        .env("LLM_BASE_URL", format!("http://{provider}"))
        .env("TOOLS_DIR", acceptance::repository().join("target/tools"))
        .env("TOOLS_CACHE_DIR", cache())
        .stderr(Stdio::inherit());
    command
}

fn cache() -> PathBuf {
    acceptance::repository().join("target/tmp/bench-cache")
}
