//! A listening socket from its first connection to its last: accepting, draining, stopping.
//!
//! ```text
//! serving ──signal──> draining ──SHUTDOWN_DRAIN_MS──> finishing ──last answer──> closing ──> Clean
//!                     readiness is denied             no new connections,        tasks and stores
//!                                                     idle ones are closed
//!                     └────────── a second signal, or too long ──> cut off ──> closing ──> Forced
//! ```
//!
//! The process ends `SHUTDOWN_TIMEOUT_MS` after the signal at the latest. So connections are cut off
//! `LAST_WRITES` before that, for what only has to be written then. `LAST_WORDS` before they are cut off,
//! answers that are still under way are asked to end by themselves ([`Shutdown`]).
//!
//! What does not belong here: routes, health reports, and what else there is to close.

mod accept;
mod answer_progress;
mod connection;
mod connection_errors;
mod connection_limit;
mod cores;
mod http2;
#[cfg(feature = "lambda")]
pub mod lambda;
mod termination_signal;
#[cfg(test)]
mod tests;
pub(crate) mod timeouts;
mod unread_body;

use std::convert::Infallible;
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;

use axum::Router;
use futures::{Stream, StreamExt as _};
use run_service::shutdown::Shutdown;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

pub use cores::Cores;
pub use termination_signal::{Signal, signals};
pub use timeouts::Timeouts;
pub use unread_body::BodyLimits;

use accept::Room;
use connection::Shared;
use timeouts::LAST_WRITES;

use crate::metrics::HttpMetrics;
use crate::tasks::Tasks;

/// A service that is ready to accept connections.
pub struct Server {
    /// Where they arrive.
    pub listener: TcpListener,
    pub cores: Cores,
    /// Who answers. Handlers may ask for `ConnectInfo<SocketAddr>`.
    pub router: Router,
    /// How long things may take.
    pub times: Timeouts,
    /// Bounds on what is read away of bodies that nobody has read.
    pub bodies: BodyLimits,
    /// Most connections at once (`MAX_CONNECTIONS`).
    pub most_connections: usize,
    /// Counts connections, and the requests that no router hears of.
    pub metrics: Arc<HttpMetrics>,
    /// Is told of each phase of the end.
    pub shutdown: Shutdown,
}

/// How a service ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every request was answered and everything was closed.
    Clean,
    /// Something was cut off. The process is to end now, with code 1
    /// (host/docs/interface/decisions-http.md#shutdown).
    Forced,
}

impl Server {
    /// Serves until the first of `signals`, and then as long as it takes to stop.
    ///
    /// `wanted` is dropped at the signal, before anything else happens: it is how probes learn that no more
    /// requests are wanted. `close` runs after the last answer and under the same limits; its token is
    /// cancelled when the end is forced, and then it only has a moment.
    pub async fn run<W>(
        self,
        signals: impl Stream<Item = Signal>,
        wanted: W,
        close: impl AsyncFnOnce(CancellationToken),
    ) -> Outcome {
        let Self { listener, cores, router, times, bodies, most_connections, metrics, shutdown } = self;
        let mut signals = pin!(signals);
        let connections = Tasks::new();
        let shared = Arc::new(Shared { router, times, bodies, metrics });
        let mut serving = pin!(async {
            accept::all(listener, shared, Room { most: most_connections, cores: &cores }, &connections).await;
            connections.finished().await;
        });

        let signal = tokio::select! {
            signal = next(&mut signals) => signal,
            // Serving ends when it is told to, which nobody has done yet.
            () = &mut serving => return Outcome::Forced,
        };
        drop(wanted);
        let Deadlines { requests_end_at, cut_off_at, forced_at } = Deadlines::of(times, Instant::now());
        shutdown.begin(requests_end_at);
        tracing::info!(%signal, drain_ms = times.drain.as_millis() as u64, "stopping");

        let drain = async {
            sleep(times.drain).await;
            connections.stop();
            shutdown.end_drain();
        };
        let end_requests = async {
            sleep_until(requests_end_at).await;
            shutdown.end_requests();
            pending::<Infallible>().await
        };
        let forced = CancellationToken::new();
        let mut close = pin!(close(forced.clone()));
        let orderly = async {
            tokio::join!(serving, drain);
            close.as_mut().await;
        };
        tokio::select! {
            biased;
            never = end_requests => match never {},
            () = orderly => {
                tracing::info!("stopped");
                return Outcome::Clean;
            }
            signal = next(&mut signals) => tracing::warn!(%signal, ?connections, "stopping at once"),
            () = sleep_until(cut_off_at) => tracing::warn!(
                timeout_ms = times.force.as_millis() as u64, ?connections, "stopping took too long"
            ),
        }
        connections.abort();
        forced.cancel();
        let last_writes = async {
            connections.finished().await;
            close.await;
        };
        let until = forced_at.min(Instant::now() + LAST_WRITES);
        write_the_last(last_writes, next(&mut signals), until).await;
        Outcome::Forced
    }
}

/// Waits for the writes that remain, until a time or until another signal.
async fn write_the_last(
    writes: impl Future<Output = ()>,
    signal: impl Future<Output = Signal>,
    until: Instant,
) {
    tokio::select! {
        biased;
        () = writes => {}
        signal = signal => tracing::warn!(%signal, "ending before everything is written"),
        () = sleep_until(until) => tracing::warn!("ending before everything is written"),
    }
}

/// When the phases of a shutdown end at the latest.
struct Deadlines {
    /// Answers are asked to end by themselves.
    requests_end_at: Instant,
    /// Connections are cut off, and what only has to be written is.
    cut_off_at: Instant,
    /// The process ends.
    forced_at: Instant,
}

impl Deadlines {
    fn of(times: Timeouts, signal: Instant) -> Self {
        Self {
            requests_end_at: signal + times.requests_end(),
            cut_off_at: signal + times.cut_off(),
            forced_at: signal + times.force,
        }
    }
}

/// The next signal; never, when none can come any more.
async fn next(signals: &mut Pin<&mut impl Stream<Item = Signal>>) -> Signal {
    match signals.next().await {
        Some(signal) => signal,
        None => pending().await,
    }
}
