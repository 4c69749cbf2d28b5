//! The release binary, started and looked at from outside.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::measuring::process::Running;
use crate::measuring::subject::Subject;
use crate::spent::Reading;

pub(crate) struct Service {
    running: Running,
    pub(crate) address: SocketAddr,
}

impl Service {
    /// Starts the service and waits for the address in its log.
    pub(crate) fn start(subject: &Subject, provider: SocketAddr) -> Self {
        Self::start_command(&mut subject.serve(provider))
    }

    fn start_command(command: &mut Command) -> Self {
        let address = |line: &serde_json::Value| line["address"].as_str()?.parse().ok();
        let (running, address) = Running::start(command, address);
        Self { running, address }
    }

    /// Every request is traced and its spans are exported to `collector`.
    pub(crate) fn start_traced(subject: &Subject, provider: SocketAddr, collector: SocketAddr) -> Self {
        let mut command = subject.serve(provider);
        command.env("TRACING_API_KEY", "bench");
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{collector}"));
        Self::start_command(&mut command)
    }

    /// Processor time since it was started.
    pub(crate) fn processor(&self) -> Duration {
        Reading::of(self.running.0.id()).processor()
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
pub(crate) fn resident_mib_after_compiling(subject: &Subject, provider: SocketAddr) -> f64 {
    subject.forget_compiled();
    let mut service = Service::start(subject, provider);
    let resident = service.resident_mib();
    service.stop();
    resident
}

/// From exec to the first readiness report that says healthy, found by asking again and again.
pub(crate) fn time_to_ready(subject: &Subject, provider: SocketAddr) -> Duration {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let start = Instant::now();
    let mut child =
        subject.serve(provider).env("PORT", port.to_string()).stdout(Stdio::null()).spawn().unwrap();
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
