//! A small service over real sockets, stopped in every way there is.
//!
//! Nothing here waits for a time to pass: a test waits for events, or moves the clock. The clock may only be
//! moved while no bytes are under way, because it jumps as soon as the runtime has nothing else to do.

mod bodies;
mod crowd;
mod http2;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::routing::{get, post};
use futures::channel::mpsc;
use futures::future::join;
use hyper::body::Bytes;
use hyper::{HeaderMap, StatusCode};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};

use super::*;

/// A service, and what a test holds of it.
struct Bench {
    address: SocketAddr,
    signals: mpsc::UnboundedSender<Signal>,
    /// Ends when the service no longer wants requests.
    unwanted: oneshot::Receiver<()>,
    /// Notified when `/slow` was asked.
    asked: Arc<Notify>,
    /// Lets `/slow` answer.
    answer: Arc<Notify>,
    metrics: prometheus::Registry,
    phases: Shutdown,
}

/// Runs a service and `act` side by side until both have ended.
async fn with_service<F: Future<Output = ()>>(times: Timeouts, act: impl FnOnce(Bench) -> F) -> Outcome {
    with_closing(times, async |_forced| {}, act).await
}

async fn with_closing<F: Future<Output = ()>>(
    times: Timeouts,
    close: impl AsyncFnOnce(CancellationToken),
    act: impl FnOnce(Bench) -> F,
) -> Outcome {
    with_server(times, |_server| {}, close, act).await
}

/// A service with something else about it changed.
async fn with_changed<F: Future<Output = ()>>(
    change: impl FnOnce(&mut Server),
    act: impl FnOnce(Bench) -> F,
) -> Outcome {
    with_server(times(), change, async |_forced| {}, act).await
}

async fn with_server<F: Future<Output = ()>>(
    times: Timeouts,
    change: impl FnOnce(&mut Server),
    close: impl AsyncFnOnce(CancellationToken),
    act: impl FnOnce(Bench) -> F,
) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (asked, answer) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let (signals, received) = mpsc::unbounded();
    let (wanted, unwanted) = oneshot::channel::<()>();
    let address = listener.local_addr().unwrap();
    let metrics = prometheus::Registry::new();
    let counts = Arc::new(HttpMetrics::register(&metrics).unwrap());
    let shutdown = Shutdown::default();
    let phases = shutdown.clone();
    let bench =
        Bench { address, signals, unwanted, asked: asked.clone(), answer: answer.clone(), metrics, phases };
    let slow = async move || {
        asked.notify_one();
        answer.notified().await;
        "slow"
    };
    let router = Router::new()
        .route("/hello", get(async || "hello"))
        .route("/thread", get(async || std::thread::current().name().unwrap_or_default().to_owned()))
        .route("/peer", get(async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string()))
        .route("/host", get(async |headers: HeaderMap| headers["host"].to_str().unwrap().to_owned()))
        .route("/huge", get(async || vec![b'x'; 64 << 20]))
        .route("/slow", get(slow))
        // Answers without having read the body, as to a caller who has no token.
        .route("/unread", post(async || (StatusCode::UNAUTHORIZED, "who are you?")))
        .route("/late", post(async || StatusCode::REQUEST_TIMEOUT))
        .route("/read", post(async |body: Bytes| body));
    let bodies = BodyLimits { bytes: 100, time: Duration::from_secs(3600) };
    let mut server = Server {
        listener,
        cores: Cores::default(),
        router,
        times,
        bodies,
        most_connections: 1000,
        metrics: counts,
        shutdown,
    };
    change(&mut server);
    join(server.run(received, wanted, close), act(bench)).await.0
}

/// No limit that a test does not ask for comes into play: a test that hangs is the runner's business.
fn times() -> Timeouts {
    const HOUR: Duration = Duration::from_secs(3600);
    Timeouts { drain: Duration::ZERO, force: HOUR, first_request: HOUR, next_request: HOUR, unread: HOUR }
}

impl Bench {
    fn signal(&self, signal: Signal) {
        self.signals.unbounded_send(signal).unwrap();
    }

    /// The value of a series without labels.
    fn count(&self, name: &str) -> f64 {
        let families = self.metrics.gather();
        let family = families.iter().find(|family| family.name() == name).unwrap();
        let metric = &family.get_metric()[0];
        metric.get_gauge().get_value() + metric.get_counter().get_value()
    }

    /// A client whose request is under way until it is let go.
    async fn ask_slow(&self) -> Client {
        let mut client = self.connect().await;
        client.ask("/slow").await;
        self.asked.notified().await;
        client
    }

    async fn connect(&self) -> Client {
        Client(BufReader::new(TcpStream::connect(self.address).await.unwrap()))
    }

    /// Until the socket is closed, connections may still be made: that is for the kernel to say.
    async fn wait_until_refused(&self) {
        while TcpStream::connect(self.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}

/// The clock stands at `seconds` after `began`, and the little that passed while it was still running.
#[track_caller]
fn assert_about(began: Instant, seconds: u64) {
    let elapsed = began.elapsed().as_secs();
    assert!((seconds..seconds + 3).contains(&elapsed), "{elapsed} s instead of {seconds} s");
}

struct Client(BufReader<TcpStream>);

impl Client {
    async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.0.write_all(text.as_ref()).await.unwrap();
    }

    async fn ask(&mut self, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n");
        self.0.write_all(request.as_bytes()).await.unwrap();
    }

    /// The head of an answer in lower case, and its body.
    async fn answer(&mut self) -> (String, String) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.0.read_line(&mut head).await.unwrap(), 0, "closed after {head:?}");
        }
        let head = head.to_lowercase();
        let length = head.split_once("content-length: ").unwrap().1.lines().next().unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        self.0.read_exact(&mut body).await.unwrap();
        (head, String::from_utf8(body).unwrap())
    }

    async fn ask_for(&mut self, path: &str) -> String {
        self.ask(path).await;
        self.answer().await.1
    }

    /// Waits for the service to close the connection, without having sent anything more.
    async fn wait_until_closed(&mut self) {
        assert_eq!(self.0.read(&mut [0]).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_connection_serves_several_requests_and_its_peer_is_known() {
    let outcome = with_service(times(), async |bench| {
        let mut client = bench.connect().await;
        assert_eq!(client.ask_for("/hello").await, "hello");
        let own = client.0.get_ref().local_addr().unwrap();
        assert_eq!(client.ask_for("/peer").await, own.to_string());
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn each_thread_that_serves_has_its_share_of_connections_and_ends_with_their_answers() {
    let on_two = |server: &mut Server| server.cores = Cores::start(2).unwrap();
    let outcome = with_changed(on_two, async |bench| {
        let (mut first, mut second) = (bench.connect().await, bench.connect().await);
        let threads = [first.ask_for("/thread").await, second.ask_for("/thread").await];
        assert_eq!(threads, ["serve-0", "serve-1"]);
        second.ask("/slow").await;
        bench.asked.notified().await;
        drop(first);
        for _ in 0..2 {
            assert_eq!(bench.connect().await.ask_for("/thread").await, "serve-0", "the other one is busy");
        }
        bench.signal(Signal::Terminate);
        bench.wait_until_refused().await;
        bench.answer.notify_one();
        assert_eq!(second.answer().await.1, "slow");
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn a_request_in_flight_is_answered_while_new_connections_are_refused() {
    let outcome = with_service(times(), async |bench| {
        let mut client = bench.ask_slow().await;
        bench.signal(Signal::Terminate);
        bench.wait_until_refused().await;
        bench.answer.notify_one();
        let (head, body) = client.answer().await;
        assert_eq!(body, "slow");
        assert!(head.contains("connection: close"), "{head}");
        client.wait_until_closed().await;
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn idle_connections_are_closed_whether_or_not_they_have_asked_before() {
    let outcome = with_service(times(), async |bench| {
        let mut fresh = bench.connect().await;
        let mut idle = bench.connect().await;
        assert_eq!(idle.ask_for("/hello").await, "hello");
        bench.signal(Signal::Interrupt);
        fresh.wait_until_closed().await;
        idle.wait_until_closed().await;
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn while_draining_requests_are_no_longer_wanted_but_answered() {
    let times = Timeouts { drain: Duration::from_secs(3600), ..times() };
    let outcome = with_service(times, async |mut bench| {
        let mut known = bench.connect().await;
        assert_eq!(known.ask_for("/hello").await, "hello");
        assert!(bench.unwanted.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        bench.signal(Signal::Terminate);
        assert!((&mut bench.unwanted).await.is_err(), "dropped, nothing is sent");
        assert_eq!(known.ask_for("/hello").await, "hello");
        assert_eq!(bench.connect().await.ask_for("/hello").await, "hello");
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Forced, "the second signal ends the drain");
}

#[tokio::test]
async fn the_drain_ends_by_itself() {
    // The second one is the longest that the settings allow.
    for drain in [5, 29] {
        let (drain, force) = (Duration::from_secs(drain), Duration::from_secs(30));
        let start = async |bench: Bench| {
            bench.signal(Signal::Terminate);
            tokio::time::pause();
        };
        let began = Instant::now();
        assert_eq!(with_service(Timeouts { drain, force, ..times() }, start).await, Outcome::Clean);
        assert_about(began, drain.as_secs());
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_second_signal_forces_the_end_of_a_request() {
    let outcome = with_service(times(), async |bench| {
        let mut client = bench.ask_slow().await;
        bench.signal(Signal::Interrupt);
        bench.wait_until_refused().await;
        bench.signal(Signal::Interrupt);
        client.wait_until_closed().await;
    });
    assert_eq!(outcome.await, Outcome::Forced);
}

#[tokio::test]
async fn the_deadline_forces_the_end_of_a_request() {
    let times = Timeouts { drain: Duration::from_secs(3), force: Duration::from_secs(30), ..times() };
    let began = Instant::now();
    let outcome = with_service(times, async |bench| {
        let mut client = bench.ask_slow().await;
        bench.signal(Signal::Terminate);
        tokio::time::pause();
        client.wait_until_closed().await;
    });
    assert_eq!(outcome.await, Outcome::Forced);
    // From the signal, not from the end of the drain, and with time for what is to be written.
    assert_about(began, 30 - LAST_WRITES.as_secs());
}

#[tokio::test]
async fn what_is_to_be_closed_is_closed_after_the_last_answer_and_under_the_same_limits() {
    let (closing, mut closed) = oneshot::channel();
    let close = async |_forced| closing.send(()).unwrap();
    let outcome = with_closing(times(), close, async |bench| {
        let mut client = bench.ask_slow().await;
        bench.signal(Signal::Terminate);
        bench.wait_until_refused().await;
        assert!(closed.try_recv().is_err(), "closed before the last answer");
        bench.answer.notify_one();
        assert_eq!(client.answer().await.1, "slow");
        closed.await.unwrap();
    });
    assert_eq!(outcome.await, Outcome::Clean);

    let began = Instant::now();
    let outcome = with_closing(
        times(),
        async |_forced| pending().await,
        async |bench| {
            bench.signal(Signal::Terminate);
            bench.wait_until_refused().await;
            tokio::time::pause();
            bench.signal(Signal::Terminate);
        },
    );
    assert_eq!(outcome.await, Outcome::Forced);
    assert_about(began, LAST_WRITES.as_secs());
}

/// As a record of a run that has ended, beside a request that has not.
#[tokio::test]
async fn at_a_forced_end_what_has_ended_is_written_after_connections_were_cut_off() {
    let (writing, written) = oneshot::channel();
    let close = async |forced: CancellationToken| {
        forced.cancelled().await;
        writing.send(()).unwrap();
    };
    let outcome = with_closing(times(), close, async |bench| {
        let mut client = bench.ask_slow().await;
        bench.signal(Signal::Terminate);
        bench.wait_until_refused().await;
        bench.signal(Signal::Terminate);
        client.wait_until_closed().await;
    });
    assert_eq!(outcome.await, Outcome::Forced);
    written.await.unwrap();
}

/// An orchestrator that grants as long as the service says it takes kills nothing that still writes.
#[tokio::test]
async fn the_last_writes_are_within_the_time_that_the_process_has() {
    let times = Timeouts { force: Duration::from_secs(30), ..times() };
    let began = Instant::now();
    let (tell, told) = oneshot::channel();
    let close = async |forced: CancellationToken| {
        forced.cancelled().await;
        tell.send(Instant::now()).unwrap();
        pending().await
    };
    let mut signalled = None;
    let outcome = with_closing(times, close, async |bench| {
        let mut client = bench.ask_slow().await;
        tokio::time::pause();
        signalled = Some(Instant::now());
        bench.signal(Signal::Terminate);
        client.wait_until_closed().await;
    });
    assert_eq!(outcome.await, Outcome::Forced);
    let forced = told.await.unwrap() - signalled.unwrap();
    assert!(forced < Duration::from_secs(30), "writes begin {forced:?} after the signal");
    let ended = signalled.unwrap().elapsed();
    // The clock of the runtime counts whole milliseconds.
    assert!(ended <= Duration::from_millis(30_002), "ended {ended:?} after the signal");
    assert_about(began, 30);
}

#[test]
fn connections_are_not_cut_off_while_they_are_accepted() {
    let (drain, force) = (Duration::from_secs(29), Duration::from_secs(30));
    let signal = Instant::now();
    let deadlines = Deadlines::of(Timeouts { drain, force, ..times() }, signal);
    assert!(signal + drain < deadlines.requests_end_at, "nor asked to end");
    assert!(deadlines.requests_end_at < deadlines.cut_off_at);
    assert!(deadlines.cut_off_at < deadlines.forced_at);
    assert_eq!(deadlines.forced_at, signal + force);
}

#[tokio::test]
async fn a_client_that_takes_its_time_is_let_go() {
    let times = Timeouts {
        first_request: Duration::from_secs(10),
        next_request: Duration::from_secs(65),
        force: Duration::from_secs(3600),
        ..times()
    };
    let outcome = with_service(times, async |bench| {
        let began = Instant::now();
        let mut slow = bench.connect().await;
        slow.0.write_all(b"GET /hello HT").await.unwrap();
        let mut idle = bench.connect().await;
        assert_eq!(idle.ask_for("/hello").await, "hello");

        tokio::time::pause();
        slow.wait_until_closed().await;
        assert_about(began, 10);
        idle.wait_until_closed().await;
        assert_about(began, 65);
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_let_go_and_holds_up_no_shutdown() {
    let times = Timeouts { unread: Duration::from_millis(100), ..times() };
    let outcome = with_service(times, async |bench| {
        let mut deaf = bench.connect().await;
        deaf.ask("/huge").await;
        bench.signal(Signal::Terminate);
        // Held, unread, until the service has ended the connection: then the socket is closed to writing too.
        while deaf.0.write_all(b"x").await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(outcome, Outcome::Clean);
}

#[tokio::test]
async fn the_phases_of_a_shutdown_are_told_in_their_time() {
    let times = Timeouts { drain: Duration::from_secs(5), force: Duration::from_secs(30), ..times() };
    let outcome = with_service(times, async |bench| {
        let mut client = bench.ask_slow().await;
        let phases = bench.phases.clone();
        assert!(!phases.stopping().is_cancelled());
        bench.signal(Signal::Terminate);
        phases.stopping().cancelled().await;
        let began = Instant::now();
        assert!(!phases.drained().is_cancelled());
        tokio::time::pause();
        phases.drained().cancelled().await;
        assert_about(began, 5);
        assert!(!phases.requests_end().is_cancelled());
        // Early enough for an answer to end by itself.
        phases.requests_end().cancelled().await;
        assert_about(began, 26);
        bench.answer.notify_one();
        assert_eq!(client.answer().await.1, "slow");
    });
    assert_eq!(outcome.await, Outcome::Clean);
}
