//! A process is killed that works on a job: how long until the job is worked on again. What shows it, for
//! both deployments, is that the provider is asked once more; it never answers, so that the job is still
//! under way when its process dies.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use test_servers::Redis;
use tokio::runtime::Runtime;

use crate::callers::Callers;
use crate::deployments;
use crate::measuring::client::Connection;
use crate::measuring::process::{Running, Server};
use crate::measuring::subject::Subject;

/// How long anything may take: twice what BullMQ's own figures add up to.
const PATIENCE: Duration = Duration::from_secs(120);

/// Times that each way of ours is tried.
const RUNS: usize = 3;

/// Who goes on with the job.
#[derive(Clone, Copy, PartialEq)]
enum Heir {
    /// A process that was there before.
    Other,
    /// A process at the killed one's address, started again at once.
    Restarted,
}

/// A provider that holds what it is asked.
struct Holding {
    address: SocketAddr,
    /// When it was asked.
    asked: Receiver<Instant>,
}

/// The peer's worker is dead, and another one is there to notice.
struct Noticing {
    provider: Holding,
    killed: Instant,
    _redis: Redis,
    _server: Server,
    _worker: Running,
}

/// Measures and prints. The peer takes its time, in which ours is measured.
pub(crate) fn measure(runtime: &Runtime) {
    println!("\nkill -9 of a process with a job in progress: seconds until the job is in progress again");
    let peer = kill_peer(runtime);
    for subject in Subject::all() {
        for (queue, on_redis) in [("queue on Redis", true), ("embedded queue (SQLite)", false)] {
            for (heir, aim) in [(Heir::Other, 8), (Heir::Restarted, 2)] {
                let runs: Vec<String> = (0..RUNS)
                    .map(|_| format!("{:.2}", kill_ours(runtime, &subject, on_redis, heir).as_secs_f64()))
                    .collect();
                let heir = match heir {
                    Heir::Other => "on another process",
                    Heir::Restarted => "after a restart of the same one",
                };
                println!("  {}, {queue}, {heir}: {} (aim: {aim})", subject.name, runs.join(", "));
            }
        }
    }
    let again = peer.provider.asked_since(peer.killed);
    println!("  peer (BullMQ's own defaults), on another worker: {:.2}", again.as_secs_f64());
}

fn kill_ours(runtime: &Runtime, subject: &Subject, on_redis: bool, heir: Heir) -> Duration {
    let (provider, redis) = (Holding::start(), on_redis.then(|| deployments::start_redis(runtime)));
    let redis_url = redis.as_ref().map_or_else(|| "memory://".to_owned(), Redis::url);
    let home = tempfile::tempdir().unwrap();
    let start = |home: &Path, port: u16| {
        let mut command = deployments::host(subject, provider.address, &redis_url, home);
        Server::start(command.env("PORT", port.to_string()))
    };
    let mut first = start(home.path(), 0);
    submit(&first);
    provider.next();
    let other = (heir == Heir::Other).then(|| start(home.path(), 0));
    first.running.kill();
    let killed = Instant::now();
    let _heir = other.unwrap_or_else(|| start(home.path(), first.address.port()));
    provider.asked_since(killed)
}

fn kill_peer(runtime: &Runtime) -> Noticing {
    let (provider, redis) = (Holding::start(), deployments::start_redis(runtime));
    let command = |program: &str| deployments::peer(program, provider.address, &redis.url());
    let server = Server::start(&mut command("server.mjs"));
    let mut first = deployments::work(&mut command("worker.mjs"));
    submit(&server);
    provider.next();
    let other = deployments::work(&mut command("worker.mjs"));
    first.kill();
    Noticing { provider, killed: Instant::now(), _redis: redis, _server: server, _worker: other }
}

fn submit(server: &Server) {
    let request = Callers::new().next(1).post("/api/agent/async", r#"{"query":"hello"}"#);
    let mut connection = Connection::open(server.address);
    assert!(matches!(connection.ask(&request).status, 200 | 202), "the job is accepted");
}

impl Holding {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asks, asked) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let asks = asks.clone();
                thread::spawn(move || hold(stream.unwrap(), &asks));
            }
        });
        Self { address, asked }
    }

    /// Waits until it is asked the next time.
    fn next(&self) -> Instant {
        self.asked.recv_timeout(PATIENCE).expect("the provider is asked")
    }

    /// Waits until it is asked the next time: how long after `killed` that was.
    fn asked_since(&self, killed: Instant) -> Duration {
        self.next().checked_duration_since(killed).expect("nobody asked twice before the process was killed")
    }
}

/// Notes the first bytes and keeps the connection until the other side is gone.
fn hold(mut stream: TcpStream, asks: &mpsc::Sender<Instant>) {
    let mut buffer = vec![0; 64 << 10];
    let mut noted = false;
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
        if !noted {
            noted = true;
            let _nobody_asks_any_more = asks.send(Instant::now());
        }
    }
}
