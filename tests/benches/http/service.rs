//! The release binary, started and looked at from outside.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) struct Service {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Service {
    /// Starts the service and waits for the address in its log.
    pub(crate) fn start(provider: SocketAddr) -> Self {
        let mut child =
            command(provider).stdout(Stdio::piped()).spawn().expect("cargo build --release first");
        let mut log = BufReader::new(child.stdout.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "the service ended");
            let entry: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(address) = entry["address"].as_str() {
                break address.parse().unwrap();
            }
        };
        // Somebody has to read the log, or the service waits for it.
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, address }
    }

    pub(crate) fn resident_mib(&self) -> f64 {
        self.status_mib("VmRSS:")
    }

    pub(crate) fn peak_mib(&self) -> f64 {
        self.status_mib("VmHWM:")
    }

    fn status_mib(&self, name: &str) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }

    pub(crate) fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    let target = target();
    let mut command = Command::new(target.join("release/agent-host"));
    command
        .arg("serve")
        .env_clear()
        .env("NODE_ENV", "production")
        .env("HOST", "127.0.0.1")
        .env("PORT", "0")
        .env("LLM_API_KEY", "bench")
        .env("LLM_MODEL", "openai/bench")
        .env("LLM_BASE_URL", format!("http://{provider}"))
        .env("TOOLS_DIR", target.join("tools"))
        .env("TOOLS_CACHE_DIR", cache())
        .stderr(Stdio::inherit());
    command
}

fn cache() -> PathBuf {
    target().join("tmp/bench-cache")
}

fn target() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target")).canonicalize().unwrap()
}

/// Processor, cores, kernel and date: what a number means nothing without.
pub(crate) fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown processor");
    let model = model.trim_start_matches([' ', '\t', ':']);
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let date = Command::new("date").arg("+%F").output().map(|date| date.stdout).unwrap_or_default();
    let date = String::from_utf8_lossy(&date);
    format!("{model}, {cores} cores, Linux {}, {}", kernel.trim(), date.trim())
}
