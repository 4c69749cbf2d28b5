//! The runtime for guests that compute for long: a tokio runtime that serves nothing else.
//!
//! A call of a few microseconds must not pay for a change of threads, and a guest that computes for
//! milliseconds must not sit on a thread that serves HTTP. So a call is first polled where it was asked for;
//! at its first pause (a tick of the clock, or a wait for the host) the rest of it moves to this runtime. A
//! call that is known to take long is begun there, so that several of them run side by side.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use agent_core::trace::InTrace as _;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument as _;

use crate::limits::progress::Progress;

/// How long a guest whose caller has gone may go on, so that one that asks (`context.cancelled`) can end
/// well.
pub(crate) const GRACE: Duration = Duration::from_millis(50);

/// Why a call gave no value.
#[derive(Debug)]
pub(crate) enum Unfinished {
    /// The deadline passed; the guest is being interrupted.
    Deadline,
    /// The host panicked, or it is shutting down.
    Host(JoinError),
}

/// Where a call is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// On the thread that asks for it.
    Here,
    /// On the guests' runtime.
    OnGuestRuntime,
}

#[derive(Debug)]
pub(crate) struct GuestRuntime(Handle);

impl GuestRuntime {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self(runtime)
    }

    /// Runs a call until its deadline. Dropping this future tells the guest that it is cancelled and
    /// interrupts it [`GRACE`] later; passing the deadline interrupts it at its next pause, at most one tick
    /// later.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        start: Start,
        deadline: Instant,
        progress: Arc<Progress>,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Unfinished> {
        let mut call = Box::pin(call);
        if start == Start::Here
            && let Poll::Ready(value) = futures::poll!(&mut call)
        {
            return Ok(value);
        }
        let (waiting, abandoned) = oneshot::channel();
        let task = self.spawn(deadline, abandoned, call);
        let waited_for = CancelOnDrop { task, progress, _waiting: waiting };
        match tokio::time::timeout_at(deadline.into(), waited_for).await {
            Ok(Ok(Some(value))) => Ok(value),
            Ok(Ok(None)) | Err(_) => Err(Unfinished::Deadline),
            Ok(Err(error)) => Err(Unfinished::Host(error)),
        }
    }

    /// Does work that blocks on a thread for such work. The work ends itself.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        self.0.spawn_blocking(work).await
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a call's task ends with the future that waits for it, so shutdown need not wait for it"
    )]
    fn spawn<T: Send + 'static>(
        &self,
        deadline: Instant,
        abandoned: oneshot::Receiver<Infallible>,
        call: Pin<Box<impl Future<Output = T> + Send + 'static>>,
    ) -> JoinHandle<Option<T>> {
        let call = async move {
            let ended = async {
                // Nothing is ever sent: it resolves when the sender is dropped with the future that waits.
                let _gone = abandoned.await;
                tokio::time::sleep_until((Instant::now() + GRACE).min(deadline).into()).await;
            };
            tokio::select! {
                biased;
                value = call => Some(value),
                () = ended => None,
            }
        };
        self.0.spawn(call.in_current_span().in_current_trace())
    }
}

/// A task that is cancelled when nobody waits for it any more.
struct CancelOnDrop<T> {
    task: JoinHandle<T>,
    progress: Arc<Progress>,
    _waiting: oneshot::Sender<Infallible>,
}

impl<T> Future for CancelOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.task).poll(context)
    }
}

impl<T> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        self.progress.cancel();
    }
}
