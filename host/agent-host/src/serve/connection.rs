//! One connection: its requests, and how long it may keep us waiting for them.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::answer_progress::{AnswerBody, AnswerSocket, Answers};
use super::connection_errors;
use super::connections::Open;
use super::timeouts::Timeouts;
use super::unread_body::{self, BodyLimits, Lent, LentBody, Rest};
use crate::metrics::HttpMetrics;
use crate::tasks::when_woken;

/// How long a connection that has asked for nothing yet is looked at when it is to end. A timer fires only after the
/// sockets were looked at, so a request that has arrived is seen, however short this is.
const LAST_LOOK: Duration = Duration::from_millis(10);

/// The same for a connection that another one needs the place of: shorter, because that one waits.
const LOOK_WHEN_FULL: Duration = Duration::from_millis(1);

/// What all connections are served with.
pub(super) struct Shared {
    pub(super) router: Router,
    pub(super) times: Timeouts,
    pub(super) bodies: BodyLimits,
    pub(super) metrics: Arc<HttpMetrics>,
}

/// Serves a connection until either side has enough of it. After `stop`, or when another connection displaces it, it
/// ends with the answer that is under way, or at once when there is none.
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
    let state = State { shared: &shared, peer, asked: AtomicBool::new(false), answers, rests };
    let patience = run_out(&state.asked, shared.times.first_request);
    let state = &state;
    let service = service_fn(move |request| async move {
        let (request, lent) = state.begin(request);
        // A router is always ready, so it may be called without being asked first.
        let answer = state.shared.router.clone().call(request).await?;
        Ok::<_, Infallible>(state.finish(lent, answer))
    });
    // The timeout runs from the last answer, so it is the one for idle connections as well.
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.times.next_request)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    let mut connection = pin!(connection);
    let last_look = async {
        tokio::select! {
            () = stop.cancelled() => if !state.asked.load(Ordering::Relaxed) {
                sleep(LAST_LOOK).await;
            },
            () = open.displaced() => sleep(LOOK_WHEN_FULL).await,
        }
    };
    let requests = async {
        tokio::select! {
            biased;
            // First, so that an answer which is ready now already says that it is the last.
            () = when_woken(last_look) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            ended = connection.as_mut() => ended,
        }
    };
    let others = async {
        tokio::select! {
            () = patience => tracing::debug!(%peer, "a connection asked for nothing"),
            () = unread_body::read_away(to_read_away, stop.clone()) => {}
            () = make_room(&open) => tracing::debug!(%peer, "an idle connection was closed for another one"),
        }
    };
    tokio::select! {
        biased;
        ended = requests => if let Err(error) = ended {
            connection_errors::note(peer, &error, &shared.metrics);
        },
        () = when_woken(others) => {}
    }
}

/// What its requests share.
struct State<'a> {
    shared: &'a Shared,
    peer: SocketAddr,
    /// Whether there was any.
    asked: AtomicBool,
    answers: Answers,
    rests: mpsc::UnboundedSender<Rest>,
}

impl State<'_> {
    fn begin(&self, request: Request<Incoming>) -> (Request<LentBody>, Lent) {
        self.asked.store(true, Ordering::Relaxed);
        self.answers.begin();
        let (mut request, lent) = unread_body::lend(request);
        request.extensions_mut().insert(ConnectInfo(self.peer));
        (request, lent)
    }

    fn finish<B>(&self, lent: Lent, mut answer: Response<B>) -> Response<AnswerBody<B>> {
        if let Some(rest) = lent.settle(&mut answer, self.shared.bodies) {
            if !rest.goes_on {
                self.answers.end_with_this();
            }
            // It fails only when the connection has ended.
            let _ended = self.rests.send(rest);
        }
        answer.map(|body| AnswerBody::new(body, self.answers.clone()))
    }
}

/// Ends after `limit` if nothing was asked until then.
async fn run_out(asked: &AtomicBool, limit: Duration) {
    sleep(limit).await;
    if asked.load(Ordering::Relaxed) {
        pending().await
    }
}

/// Ends when the connection was displaced and is idle all the same: half of a request is none. One that is busy has
/// until its answer is flushed, and then as long as one that was idle.
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
