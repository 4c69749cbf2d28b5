//! Where a call runs: on the caller's own thread at first, on a lane of its own when it takes long.
//!
//! A call of a few microseconds must not pay for a change of threads, and a guest that computes for seconds
//! must not sit on a thread that serves HTTP. So a call is begun where it was asked for; at its first pause —
//! a tick of the clock, or a wait for the host — the rest of it moves over.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tracing::Instrument;

/// Why a call gave no value.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The deadline passed; the guest is being interrupted.
    Deadline,
    /// The host panicked, or it is shutting down.
    Host(tokio::task::JoinError),
}

/// Runs a call until its deadline. Dropping this future, or passing the deadline, drops the call: it is
/// interrupted at its next pause, at most one tick later.
pub(crate) async fn run<T: Send + 'static>(
    lane: &Handle,
    deadline: Instant,
    gone: Arc<AtomicBool>,
    call: impl Future<Output = T> + Send + 'static,
) -> Result<T, Lost> {
    let mut call = Box::pin(call);
    if let Poll::Ready(value) = futures::poll!(&mut call) {
        return Ok(value);
    }
    let task = Attended { task: spawn_on(lane, call), gone };
    match tokio::time::timeout_at(deadline.into(), task).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Lost::Host(error)),
        Err(_elapsed) => Err(Lost::Deadline),
    }
}

#[expect(clippy::disallowed_methods, reason = "a call ends with whoever waits for it, so nobody else has to")]
fn spawn_on<T: Send + 'static>(
    lane: &Handle,
    call: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    lane.spawn(call.instrument(tracing::Span::current()))
}

/// A task that ends with whoever waits for it.
struct Attended<T> {
    task: JoinHandle<T>,
    gone: Arc<AtomicBool>,
}

impl<T> Future for Attended<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.task).poll(context)
    }
}

impl<T> Drop for Attended<T> {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
        self.task.abort();
    }
}
