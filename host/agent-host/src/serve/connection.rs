//! One connection: its requests, and how long it may keep us waiting for them.

use std::future::pending;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::Times;

/// How long a connection that has asked for nothing yet is looked at when the service stops. A timer fires
/// only after the sockets were looked at, so a request that has arrived is seen, however short this is.
const LAST_LOOK: Duration = Duration::from_millis(10);

/// Serves a connection until either side has enough of it. After `stop` it ends with the answer that is under
/// way, or at once when there is none.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    times: Times,
    stop: CancellationToken,
) {
    // Answers are written whole: waiting for more to send could only delay them, by some 40 ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(times.unread));
    let asked = AtomicBool::new(false);
    let patience = run_out(&asked, times.first_request);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(ConnectInfo(peer));
        // A router is always ready, so it may be called without being asked first.
        router.clone().call(request)
    });
    // The timeout runs from the last answer, so it is the one for idle connections as well.
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(times.next_request)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    let mut connection = pin!(connection);
    let requests = async {
        let last_look = async {
            stop.cancelled().await;
            if !asked.load(Ordering::Relaxed) {
                sleep(LAST_LOOK).await;
            }
        };
        tokio::select! {
            biased;
            // First, so that an answer which is ready now already says that it is the last.
            () = last_look => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            ended = connection.as_mut() => ended,
        }
    };
    tokio::select! {
        biased;
        ended = requests => match ended {
            Ok(()) => {}
            // Clients hang up as they like; nothing of ours has failed.
            Err(error) => tracing::debug!(%peer, %error, "a connection broke"),
        },
        () = patience => tracing::debug!(%peer, "a connection asked for nothing"),
    }
}

/// Ends after `limit` if nothing was asked until then.
async fn run_out(asked: &AtomicBool, limit: Duration) {
    sleep(limit).await;
    if asked.load(Ordering::Relaxed) {
        pending().await
    }
}
