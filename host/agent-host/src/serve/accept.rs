//! Takes connections in until it is told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agent_core::backoff::Backoff;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::connection::{self, Shared};
use super::connection_limit::{Connections, Open};
use super::cores::Cores;
use crate::tasks::Tasks;

/// The delays after failures to accept, so that one that lasts (no file descriptors left) neither ends the
/// service nor keeps a processor busy. They double until a connection is accepted.
const FIRST_DELAY: Duration = Duration::from_millis(10);
const LONGEST_DELAY: Duration = Duration::from_secs(1);

pub(super) struct Room<'a> {
    /// Most of them at once.
    pub(super) most: usize,
    /// The threads that serve them.
    pub(super) cores: &'a Cores,
}

/// Accepts connections and serves each in a task of its own, until the tasks are told to stop. Then the
/// socket is closed, so that new connections are refused rather than left waiting.
pub(super) async fn all(listener: TcpListener, shared: Arc<Shared>, room: Room<'_>, tasks: &Tasks) {
    let stop = tasks.stopping();
    let connections = Connections::new(room.most, room.cores.count(), shared.metrics.clone());
    let mut backoff = Backoff::new(FIRST_DELAY, LONGEST_DELAY);
    let serve = |(stream, peer): (TcpStream, SocketAddr), open: Open| {
        // The runtime that accepted it would else be woken for it.
        let moved = stream.into_std();
        let (shared, stopping) = (shared.clone(), tasks.stopping());
        tasks.spawn_on(&room.cores.runtime(open.core()), "connection", async move {
            match moved.and_then(TcpStream::from_std) {
                Ok(stream) => connection::serve(stream, peer, shared, open, stopping).await,
                Err(error) => tracing::warn!(%peer, %error, "a connection cannot be served"),
            }
        });
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(accepted) => {
                backoff.reset();
                // One more than there may be is held here while there is no room for it.
                let open = tokio::select! {
                    biased;
                    open = connections.admit() => open,
                    () = stop.cancelled() => connections.admit_anyway(),
                };
                serve(accepted, open);
            }
            Err(error) => {
                if is_of_one_connection(&error) {
                    continue;
                }
                let delay = backoff.next();
                let pause_ms = delay.as_millis() as u64;
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    pause_ms,
                    "cannot accept connections"
                );
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    () = sleep(delay) => {}
                }
            }
        }
    }
    for accepted in in_line(listener) {
        serve(accepted, connections.admit_anyway());
    }
}

/// Closes the socket, and gives the connections that stood in line. Their clients were told by the kernel
/// that the connection is made and may have sent a request; closing alone would reset them.
fn in_line(listener: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    // The socket itself is asked: tokio only knows what it has been told of.
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    let accept = || {
        let (stream, peer) = listener.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, peer))
    };
    std::iter::from_fn(accept).collect()
}

/// Whether only the connection that was to be accepted has failed, so that the next one can be accepted at
/// once.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use axum::Router;
    use axum::routing::get;

    use super::super::{BodyLimits, Timeouts};
    use super::*;
    use crate::metrics::HttpMetrics;

    #[tokio::test]
    async fn who_stands_in_line_when_the_service_stops_is_served() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();

        let connections = Tasks::new();
        connections.stop();
        let router = Router::new().route("/", get(async || "served"));
        let shared = Shared {
            router,
            times: Timeouts::default(),
            bodies: BodyLimits { bytes: 0, time: Duration::ZERO },
            metrics: Arc::new(HttpMetrics::register(&prometheus::Registry::new()).unwrap()),
        };
        let room = Room { most: 1, cores: &Cores::default() };
        all(listener, Arc::new(shared), room, &connections).await;
        connections.finished().await;

        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("served"), "{answer:?}");
    }

    #[test]
    fn the_delays_after_failures_grow_to_a_second() {
        let mut backoff = Backoff::new(FIRST_DELAY, LONGEST_DELAY);
        let delays: Vec<_> = (0..9).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(delays, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    }

    #[test]
    fn only_a_client_that_is_gone_costs_no_delay() {
        for kind in [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset] {
            assert!(is_of_one_connection(&kind.into()));
        }
        assert!(!is_of_one_connection(&io::Error::from_raw_os_error(24)), "EMFILE");
    }
}
