//! One connection: its requests, and how long it may keep us waiting for them.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::answer_progress::{AnswerBody, AnswerSocket, Answering, Answers};
use super::connection_errors;
use super::connection_limit::Open;
use super::http2::{self, Streams, Taking};
use super::timeouts::Timeouts;
use super::unread_body::{self, BodyLimits, Lent, LentBody, Rest};
use crate::metrics::HttpMetrics;
use crate::tasks::when_woken;

/// How long a connection that has asked for nothing yet is looked at when it is to end. A timer fires only
/// after the sockets were looked at, so a request that has arrived is seen, however short this is.
const LAST_LOOK: Duration = Duration::from_millis(10);

/// How long a connection that has asked for nothing yet is looked at when another one needs its place:
/// shorter, because that one waits.
const LOOK_WHEN_FULL: Duration = Duration::from_millis(1);

/// How long a client that was told to go (`GOAWAY`) has to take leave, once all of its requests are answered.
const LEAVE: Duration = Duration::from_secs(5);

/// What all connections are served with.
pub(super) struct Shared {
    pub(super) router: Router,
    pub(super) times: Timeouts,
    pub(super) bodies: BodyLimits,
    pub(super) metrics: Arc<HttpMetrics>,
}

/// Serves a connection until either side has enough of it. After `stop`, or when another connection displaces
/// it, it ends with the answer that is under way, or at once when there is none.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    open: Open,
    stop: CancellationToken,
) {
    // Answers are written whole: waiting for more to send could only delay them, by some 40 ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
    }
    let answers = Answers::new(open.activity());
    let mut stream = TimeoutStream::new(AnswerSocket::new(stream, answers.clone()));
    stream.set_write_timeout(Some(shared.times.unread));
    let (rests, to_read_away) = mpsc::unbounded_channel();
    let (streams, to_carry) = Streams::new(shared.times.unread);
    let state = Arc::new(State::new(shared.clone(), peer, answers, rests));
    let protocols = http2::builder(streams.clone(), shared.times);
    let service = service_fn({
        let state = state.clone();
        move |mut request: Request<Incoming>| {
            let taking = (request.version() == Version::HTTP_2).then(|| {
                http2::name_host(&mut request);
                streams.begin()
            });
            let (state, (request, begun)) = (state.clone(), state.begin(request, taking));
            async move {
                // A router is always ready, so it may be called without being asked first.
                let answer = state.shared.router.clone().call(request).await?;
                Ok::<_, Infallible>(state.finish(begun, answer))
            }
        }
    });
    let mut connection =
        pin!(protocols.serve_connection_with_upgrades(TokioIo::new(Box::pin(stream)), service));
    let requests = async {
        tokio::select! {
            biased;
            // First, so that an answer which is ready now already says that it is the last.
            () = when_woken(state.is_to_end(&open, &stop)) => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    biased;
                    ended = connection.as_mut() => ended,
                    () = state.stays(&open) => Ok(()),
                }
            }
            ended = connection.as_mut() => ended,
        }
    };
    let others = async {
        tokio::select! {
            () = run_out(&state.asked, shared.times.first_request) => {
                tracing::debug!(%peer, "a connection asked for nothing");
            }
            () = unread_body::read_away(to_read_away, stop.clone()) => {}
            () = to_carry.carry() => {}
            () = state.answers.flooded() => tracing::debug!(%peer, "a connection gave up too many requests"),
            () = make_room(&open) => tracing::debug!(%peer, "an idle connection was closed for another one"),
        }
    };
    tokio::select! {
        biased;
        ended = requests => if let Err(error) = ended {
            connection_errors::note(peer, &*error, &shared.metrics);
        },
        () = when_woken(others) => {}
    }
}

/// What its requests share.
struct State {
    shared: Arc<Shared>,
    peer: SocketAddr,
    /// Whether there was any.
    asked: AtomicBool,
    /// How many there were over HTTP/2.
    streams: AtomicU64,
    answers: Answers,
    rests: mpsc::UnboundedSender<Rest>,
}

/// A request whose answer is made.
struct BegunRequest {
    lent: Lent,
    answering: Answering,
    taking: Option<Taking>,
}

impl State {
    fn new(
        shared: Arc<Shared>,
        peer: SocketAddr,
        answers: Answers,
        rests: mpsc::UnboundedSender<Rest>,
    ) -> Self {
        let (asked, streams) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { shared, peer, asked, streams, answers, rests }
    }

    fn begin(&self, request: Request<Incoming>, taking: Option<Taking>) -> (Request<LentBody>, BegunRequest) {
        self.asked.store(true, Ordering::Relaxed);
        if taking.is_some() {
            self.streams.fetch_add(1, Ordering::Relaxed);
        }
        let answering = self.answers.begin();
        let (mut request, lent) = unread_body::lend(request);
        request.extensions_mut().insert(ConnectInfo(self.peer));
        (request, BegunRequest { lent, answering, taking })
    }

    fn finish<B>(&self, begun: BegunRequest, mut answer: Response<B>) -> Response<AnswerBody<B>> {
        let BegunRequest { lent, answering, taking } = begun;
        if let Some(rest) = lent.settle(&mut answer, self.shared.bodies) {
            if !rest.goes_on {
                self.answers.end_with_this();
            }
            // Sending fails only when the connection has ended.
            let _ended = self.rests.send(rest);
        }
        answer.map(|body| AnswerBody::new(body, answering, taking))
    }

    fn speaks_http2(&self) -> bool {
        self.streams.load(Ordering::Relaxed) > 0
    }

    /// Resolves when no other request is to begin, and those that have arrived have begun.
    async fn is_to_end(&self, open: &Open, stop: &CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => if !self.asked.load(Ordering::Relaxed) {
                sleep(LAST_LOOK).await;
            },
            () = open.displaced() => sleep(LOOK_WHEN_FULL).await,
            () = self.asks_for_nothing(open) => {}
            () = self.answers.given_up_often() => {
                tracing::debug!(peer = %self.peer, "a connection gives up many requests, and takes no other");
            }
        }
    }

    /// Ends when a connection of HTTP/2 was idle for as long as one may be, or up to twice that. Of HTTP/1
    /// hyper looks after it by itself.
    async fn asks_for_nothing(&self, open: &Open) {
        loop {
            let before = self.streams.load(Ordering::Relaxed);
            sleep(self.shared.times.next_request).await;
            let is_idle = before == self.streams.load(Ordering::Relaxed) && !open.is_busy();
            if self.speaks_http2() && is_idle {
                return;
            }
        }
    }

    /// Ends when a client of HTTP/2 that was told to go stays, with nothing left to answer.
    async fn stays(&self, open: &Open) {
        loop {
            sleep(LEAVE).await;
            if self.speaks_http2() && !open.is_busy() {
                return;
            }
        }
    }
}

/// Ends after `limit` if nothing was asked until then.
async fn run_out(asked: &AtomicBool, limit: Duration) {
    sleep(limit).await;
    if asked.load(Ordering::Relaxed) {
        pending().await
    }
}

/// Ends when the connection was displaced and is idle all the same: half of a request is none. One that is
/// busy has until its answer is flushed, and then as long as one that was idle.
async fn make_room(open: &Open) {
    open.displaced().await;
    loop {
        sleep(2 * LOOK_WHEN_FULL).await;
        if !open.is_busy() {
            return;
        }
        open.idle_again().await;
    }
}
