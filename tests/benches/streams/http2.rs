//! `/agent/invoke` over HTTP/2 beside HTTP/1, by the same client: 32 requests at once on one connection, on
//! one connection each, and one after the other on one connection, which is all that HTTP/1 can do with one.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::measuring::client::{Load, Turn};
use crate::measuring::provider;
use crate::measuring::subject::Subject;
use crate::service::Service;
use crate::turn::PATIENCE;

/// How many requests are under way at once.
const AT_ONCE: usize = 32;

/// How long each contender runs in one turn.
const TURN: Duration = Duration::from_millis(600);

/// Turns of each contender.
const TURNS: usize = 3;

/// How requests are carried.
#[derive(Clone, Copy)]
enum Carrier {
    Http2,
    /// On so many connections.
    Http1(usize),
}

/// Who sends requests, one after the other.
enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// Measures and prints. Answers how many answers were not as expected.
pub(crate) fn measure(runtime: &Runtime) -> usize {
    let provider = provider::start();
    Subject::all().iter().map(|subject| measure_one(runtime, &Service::variant_a(subject, provider))).sum()
}

fn measure_one(runtime: &Runtime, service: &Service) -> usize {
    let carriers = [Carrier::Http1(AT_ONCE), Carrier::Http2, Carrier::Http1(1)];
    let mut loads = [(); 3].map(|()| Load::default());
    for _ in 0..TURNS {
        for (carrier, load) in carriers.iter().zip(&mut loads) {
            let turn = runtime.block_on(async { timeout(PATIENCE, run(service.address, *carrier)).await });
            load.add(turn.expect("requests are answered in time"));
        }
    }
    println!("\n/agent/invoke of {}, {TURNS} turns of {} ms each, by hyper", service.name, TURN.as_millis());
    println!("  {:<40} {:>9} {:>10} {:>10} {:>8}", "", "req/s", "p50 µs", "p99 µs", "failures");
    for (carrier, load) in carriers.iter().zip(&mut loads) {
        let (rate, p50, p99, failures) =
            (load.rate(), load.percentile(50), load.percentile(99), load.failures);
        println!("  {:<40} {rate:>9.0} {p50:>10.0} {p99:>10.0} {failures:>8}", carrier.name());
    }
    for (peer, what) in [(0, "32 connections of HTTP/1"), (2, "one connection of HTTP/1")] {
        println!(
            "  HTTP/2 on one connection beside {what}: {:.2} times its requests/s",
            loads[1].rate() / loads[peer].rate()
        );
    }
    loads.iter().map(|load| load.failures).sum()
}

impl Carrier {
    fn name(self) -> String {
        match self {
            Self::Http2 => format!("HTTP/2, {AT_ONCE} streams on one connection"),
            Self::Http1(connections) => format!("HTTP/1, {connections} connection(s)"),
        }
    }
}

async fn run(address: SocketAddr, carrier: Carrier) -> Turn {
    // The tasks of the connections, which end with it.
    let mut driving = JoinSet::new();
    let senders = connect(address, carrier, &mut driving).await;
    let start = Instant::now();
    let mut asking = JoinSet::new();
    for sender in senders {
        asking.spawn(ask_again_and_again(sender, address, start + TURN));
    }
    let (mut times, mut failures) = (Vec::new(), 0);
    while let Some(asked) = asking.join_next().await {
        let (more_times, more_failures) = asked.unwrap();
        times.extend(more_times);
        failures += more_failures;
    }
    Turn { times, failures, elapsed: start.elapsed() }
}

async fn connect(address: SocketAddr, carrier: Carrier, driving: &mut JoinSet<()>) -> Vec<Sender> {
    let open = async || {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        TokioIo::new(stream)
    };
    match carrier {
        Carrier::Http2 => {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), open().await).await.unwrap();
            driving.spawn(async move { drop(connection.await) });
            (0..AT_ONCE).map(|_| Sender::Http2(sender.clone())).collect()
        }
        Carrier::Http1(connections) => {
            let mut senders = Vec::new();
            for _ in 0..connections {
                let (sender, connection) = http1::handshake(open().await).await.unwrap();
                driving.spawn(async move { drop(connection.await) });
                senders.push(Sender::Http1(sender));
            }
            senders
        }
    }
}

async fn ask_again_and_again(
    mut sender: Sender,
    address: SocketAddr,
    until: Instant,
) -> (Vec<Duration>, usize) {
    let (mut times, mut failures) = (Vec::new(), 0);
    loop {
        let start = Instant::now();
        if start >= until {
            return (times, failures);
        }
        match sender.ask(address).await {
            Ok(true) => times.push(start.elapsed()),
            Ok(false) => failures += 1,
            // The connection has ended.
            Err(error) => {
                println!("  {error}");
                return (times, failures + 1);
            }
        }
    }
}

impl Sender {
    /// Whether the answer is the expected one.
    async fn ask(&mut self, address: SocketAddr) -> hyper::Result<bool> {
        let response = self.send(address).await?;
        let is_success = response.status() == 200;
        let body = response.into_body().collect().await?.to_bytes();
        Ok(is_success && !body.is_empty())
    }

    async fn send(&mut self, address: SocketAddr) -> hyper::Result<Response<Incoming>> {
        let request = |uri: String| Request::post(uri).header(CONTENT_TYPE, "application/json");
        let body = Full::new(Bytes::from_static(br#"{"input":"hello"}"#));
        match self {
            Self::Http1(sender) => {
                let request = request("/agent/invoke".to_owned()).header(HOST, address.to_string());
                sender.ready().await?;
                sender.send_request(request.body(body).unwrap()).await
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender
                    .send_request(request(format!("http://{address}/agent/invoke")).body(body).unwrap())
                    .await
            }
        }
    }
}
