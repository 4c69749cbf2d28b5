//! A listening socket from its first connection to its last: accepting, draining, stopping.
//!
//! ```text
//! serving ──signal──> draining ──SHUTDOWN_DRAIN_MS──> finishing ──last answer──> closing ──> Clean
//!                     readiness is denied             no new connections,        tasks and stores
//!                                                     idle ones are closed
//!                     └────────── a second signal, or too long ──────────────────────────> Forced
//! ```
//!
//! What does not belong here: routes, health reports, and what else there is to close.

mod accept;
mod answer_progress;
mod connection;
mod connection_errors;
mod connections;
mod http2;
pub mod lambda;
mod termination_signal;
#[cfg(test)]
mod tests;
mod timeouts;
mod unread_body;

use std::fmt;
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;

use axum::Router;
use futures::{Stream, StreamExt as _};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, sleep_until};

pub use termination_signal::{Signal, signals};
pub use timeouts::Timeouts;
pub use unread_body::BodyLimits;

use connection::Shared;

use crate::metrics::HttpMetrics;
use crate::tasks::Tasks;

/// A service that is ready to accept connections.
pub struct Server {
    /// Where they arrive.
    pub listener: TcpListener,
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
}

/// How a service ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every request was answered and everything was closed.
    Clean,
    /// Something was cut off. The process is to end now, with code 1 (decisions, "Shutdown").
    Forced,
}

impl Server {
    /// Serves until the first of `signals`, and then as long as it takes to stop.
    ///
    /// `wanted` is dropped at the signal, before anything else happens: it is how others learn that no more
    /// requests are wanted. `close` runs after the last answer and under the same limits.
    pub async fn run<W>(
        self,
        signals: impl Stream<Item = Signal>,
        wanted: W,
        close: impl Future<Output = ()>,
    ) -> Outcome {
        let Self { listener, router, times, bodies, most_connections, metrics } = self;
        let mut signals = pin!(signals);
        let connections = Tasks::new();
        let shared = Arc::new(Shared { router, times, bodies, metrics });
        let serving = async {
            accept::all(listener, shared, most_connections, &connections).await;
            connections.finished().await;
        };
        let mut serving = pin!(serving);

        let signal = tokio::select! {
            signal = next(&mut signals) => signal,
            // It ends when it is told to, which nobody has done yet.
            () = &mut serving => return Outcome::Forced,
        };
        drop(wanted);
        let forced_at = Instant::now() + times.force;
        tracing::info!(%signal, drain_ms = times.drain.as_millis() as u64, "stopping");

        let drain = async {
            sleep(times.drain).await;
            connections.stop();
        };
        let orderly = async {
            tokio::join!(serving, drain);
            close.await;
        };
        tokio::select! {
            biased;
            () = orderly => {
                tracing::info!("stopped");
                return Outcome::Clean;
            }
            signal = next(&mut signals) => tracing::warn!(%signal, ?connections, "stopping at once"),
            () = sleep_until(forced_at) => tracing::warn!(
                after_ms = times.force.as_millis() as u64, ?connections, "stopping took too long"
            ),
        }
        connections.abort();
        Outcome::Forced
    }
}

/// The next signal; never, when none can come any more.
async fn next(signals: &mut Pin<&mut impl Stream<Item = Signal>>) -> Signal {
    match signals.next().await {
        Some(signal) => signal,
        None => pending().await,
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("listener", &self.listener)
            .field("times", &self.times)
            .field("bodies", &self.bodies)
            .field("most_connections", &self.most_connections)
            .finish_non_exhaustive()
    }
}
