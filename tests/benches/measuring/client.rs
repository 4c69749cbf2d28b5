//! A load generator that does no more than it must: bytes out, one response in, the time between.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// What some turns of one contender came to.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) times: Vec<Duration>,
    pub(crate) failures: usize,
    elapsed: Duration,
}

/// What one turn came to.
pub(crate) struct Turn {
    pub(crate) times: Vec<Duration>,
    /// Requests whose answer was not the expected one. Their times are not among the others.
    pub(crate) failures: usize,
    pub(crate) elapsed: Duration,
}

/// A connection that is kept.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response. A body in chunks is as it was sent, with their lengths.
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Load {
    pub(crate) fn add(&mut self, turn: Turn) {
        self.times.extend(turn.times);
        self.failures += turn.failures;
        self.elapsed += turn.elapsed;
    }

    /// Answers per second, those that were failures not among them.
    pub(crate) fn rate(&self) -> f64 {
        self.times.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// In microseconds.
    pub(crate) fn percentile(&mut self, percent: usize) -> f64 {
        let time = percentile(&mut self.times, percent).expect("something was answered as expected");
        time.as_secs_f64() * 1e6
    }
}

/// The time that so many percent of these took at most; nothing when there are none. Sorts them.
pub(crate) fn percentile(times: &mut [Duration], percent: usize) -> Option<Duration> {
    times.sort_unstable();
    Some(times[times.len().checked_sub(1)? * percent / 100])
}

/// One ask after the other on each of `connections` for that long; `ask` says whether the answer was the
/// expected one. One thread per connection: blocking calls have the least to do between a response and the
/// next request.
pub(crate) fn run<A>(address: SocketAddr, connections: usize, turn: Duration, ask: impl Fn() -> A) -> Turn
where
    A: FnMut(&mut Connection) -> bool + Send,
{
    let start = Instant::now();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let drivers = (0..connections).map(|_| {
            let ask = ask();
            scope.spawn(move || drive(address, ask, start + turn))
        });
        let drivers: Vec<_> = drivers.collect();
        drivers.into_iter().map(|driver| driver.join().expect("no client fails")).collect()
    });
    let elapsed = start.elapsed();
    let failures = outcomes.iter().map(|(_, failures)| failures).sum();
    Turn { times: outcomes.into_iter().flat_map(|(times, _)| times).collect(), failures, elapsed }
}

fn drive(
    address: SocketAddr,
    mut ask: impl FnMut(&mut Connection) -> bool,
    until: Instant,
) -> (Vec<Duration>, usize) {
    let mut connection = Connection::open(address);
    let (mut times, mut failures) = (Vec::new(), 0);
    loop {
        let start = Instant::now();
        if start >= until && !(times.is_empty() && failures == 0) {
            return (times, failures);
        }
        if ask(&mut connection) {
            times.push(start.elapsed());
        } else {
            failures += 1;
        }
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        Self::of(stream)
    }

    /// Where nobody may listen, or nobody answer within that time.
    pub(crate) fn try_open(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(patience))?;
        Ok(Self::of(stream))
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: vec![0; 64 << 10] }
    }

    /// Sends a request and reads its response.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Response<'_> {
        self.try_ask(request).expect("the connection is kept")
    }

    /// As [`Self::ask`], of somebody who may be gone.
    pub(crate) fn try_ask(&mut self, request: &[u8]) -> io::Result<Response<'_>> {
        self.stream.write_all(request)?;
        let mut have = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[have..])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            have += read;
            let Some(head) = self.buffer[..have].windows(4).position(|window| window == b"\r\n\r\n") else {
                continue;
            };
            let (status, length) = read_head(&self.buffer[..head]);
            let body = head + 4;
            let end = match length {
                Some(length) => body + length,
                None if self.buffer[body..have].ends_with(b"0\r\n\r\n") => have,
                None => continue,
            };
            if have >= end {
                return Ok(Response { status, body: &self.buffer[body..end] });
            }
        }
    }
}

/// The status, and the length of the body, unless that is in chunks.
fn read_head(head: &[u8]) -> (u16, Option<usize>) {
    let text = std::str::from_utf8(head).unwrap();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    let header = |wanted: &str| {
        let mut headers = text.lines().filter_map(|line| line.split_once(':'));
        headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    let length = header("content-length").map(|value| value.parse().unwrap());
    assert!(length.is_some() || header("transfer-encoding") == Some("chunked"), "a length: {text}");
    (status.expect("a status"), length)
}
