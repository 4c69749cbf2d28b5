//! The release binary, started and looked at from outside.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::measuring::process::Server;
use crate::measuring::subject::Subject;

/// Every request is traced and its spans are exported to `collector`.
pub(crate) fn start_traced(subject: &Subject, provider: SocketAddr, collector: SocketAddr) -> Server {
    let mut command = subject.serve(provider);
    command.env("TRACING_API_KEY", "bench");
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{collector}"));
    Server::start(&mut command)
}

/// What a service holds that found nothing compiled. Leaves the cache warm.
pub(crate) fn resident_mib_after_compiling(subject: &Subject, provider: SocketAddr) -> f64 {
    subject.forget_compiled();
    Server::start(&mut subject.serve(provider)).running.resident_mib()
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
