//! A load generator that does no more than it must: fixed bytes out, one response in, the time between.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// What some turns of one contender came to.
#[derive(Default)]
pub(crate) struct Load {
    times: Vec<Duration>,
    sorted: bool,
    elapsed: Duration,
}

impl Load {
    pub(crate) fn add(&mut self, (times, elapsed): (Vec<Duration>, Duration)) {
        self.times.extend(times);
        self.sorted = false;
        self.elapsed += elapsed;
    }

    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.times.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// In microseconds.
    pub(crate) fn percentile(&mut self, percent: usize) -> f64 {
        if !self.sorted {
            self.times.sort_unstable();
            self.sorted = true;
        }
        self.times[(self.times.len() - 1) * percent / 100].as_secs_f64() * 1e6
    }
}

/// One request after the other on each of `connections` for `turn`. One thread per connection: blocking calls
/// have the least to do between a response and the next request.
pub(crate) fn run(
    address: SocketAddr,
    request: &[u8],
    connections: usize,
    turn: Duration,
) -> (Vec<Duration>, Duration) {
    let start = Instant::now();
    let times = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..connections).map(|_| scope.spawn(move || drive(address, request, start + turn))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no client fails")).collect()
    });
    (times, start.elapsed())
}

fn drive(address: SocketAddr, request: &[u8], until: Instant) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut buffer = vec![0; 64 << 10];
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        if start >= until && !times.is_empty() {
            return times;
        }
        stream.write_all(request).unwrap();
        read_response(&mut stream, &mut buffer);
        times.push(start.elapsed());
    }
}

/// Reads one response with a `Content-Length` and insists on its being a 200.
fn read_response(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut have = 0;
    loop {
        let read = stream.read(&mut buffer[have..]).unwrap();
        assert!(read > 0, "the connection was closed");
        have += read;
        let Some(head) = buffer[..have].windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&buffer[..head]).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..have]));
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
        });
        if have >= head + 4 + length.expect("a length") {
            return;
        }
    }
}
