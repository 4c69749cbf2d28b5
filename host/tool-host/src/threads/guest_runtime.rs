//! The runtime for guests that compute for long: a tokio runtime that serves nothing else.
//!
//! A call of a few microseconds must not pay for a change of threads, nor one that waits for an answer of the
//! host, and a guest that computes for milliseconds must not sit on a thread that serves HTTP. So a call is
//! polled where it was asked for until the clock ticks while its guest computes; then the rest of it moves to
//! this runtime. A call that is known to take long is begun there, so that several of them run side by side.

use std::convert::Infallible;
use std::future::poll_fn;
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
        mut call: Pin<Box<impl Future<Output = T> + Send + 'static>>,
    ) -> Result<T, Unfinished> {
        if start == Start::Here {
            if let Poll::Ready(value) = futures::poll!(&mut call) {
                return Ok(value);
            }
            let mut here = BegunHere { runtime: self, deadline, progress: &progress, call: Some(call) };
            match tokio::time::timeout_at(deadline.into(), here.until_tick()).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(unfinished)) => call = unfinished,
                Err(_elapsed) => return Err(Unfinished::Deadline),
            }
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

/// A call that waits for the host where it was begun. Dropped, it goes on at the guests' runtime for its
/// [`GRACE`].
struct BegunHere<'a, T: Send + 'static, F: Future<Output = T> + Send + 'static> {
    runtime: &'a GuestRuntime,
    deadline: Instant,
    progress: &'a Progress,
    call: Option<Pin<Box<F>>>,
}

impl<T: Send + 'static, F: Future<Output = T> + Send + 'static> BegunHere<'_, T, F> {
    /// The call's value, or the call itself when the clock ticked while its guest computed.
    async fn until_tick(&mut self) -> Result<T, Pin<Box<F>>> {
        poll_fn(|context| {
            let Some(mut call) = self.call.take() else { return Poll::Pending };
            if self.progress.has_ticked() {
                return Poll::Ready(Err(call));
            }
            match call.as_mut().poll(context) {
                Poll::Ready(value) => Poll::Ready(Ok(value)),
                Poll::Pending if self.progress.has_ticked() => Poll::Ready(Err(call)),
                Poll::Pending => {
                    self.call = Some(call);
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<T: Send + 'static, F: Future<Output = T> + Send + 'static> Drop for BegunHere<'_, T, F> {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        self.progress.cancel();
        if Instant::now() < self.deadline {
            let (_gone, abandoned) = oneshot::channel();
            self.runtime.spawn(self.deadline, abandoned, call);
        }
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

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtimes() -> (Runtime, Runtime, GuestRuntime) {
        let runtime = || Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        let (here, guests) = (runtime(), runtime());
        let guest_runtime = GuestRuntime::new(guests.handle().clone());
        (here, guests, guest_runtime)
    }

    fn progress() -> Arc<Progress> {
        Arc::new(Progress::new(Instant::now(), false))
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_mins(10)
    }

    #[test]
    fn a_call_that_waits_stays_where_it_was_begun_and_one_that_computes_moves() {
        let (here, guests, guest_runtime) = runtimes();
        for computes in [false, true] {
            let progress = progress();
            let ticked = progress.clone();
            let call = Box::pin(async move {
                if computes {
                    ticked.tick();
                }
                tokio::task::yield_now().await;
                Handle::current().id()
            });
            let ended = here.block_on(guest_runtime.run(Start::Here, far(), progress, call)).unwrap();
            assert_eq!(ended, if computes { guests.handle().id() } else { here.handle().id() });
        }
    }

    #[test]
    fn a_call_whose_caller_goes_while_it_waits_is_told_so_and_goes_on() {
        let (here, guests, guest_runtime) = runtimes();
        let (progress, (answer, answered), (told, ended)) =
            (progress(), oneshot::channel(), oneshot::channel());
        let cancelled = progress.clone();
        let call = Box::pin(async move {
            let answer: Result<(), _> = answered.await;
            let _ = told.send((answer.is_ok(), cancelled.is_cancelled(), Handle::current().id()));
        });
        here.block_on(async {
            let mut run = Box::pin(guest_runtime.run(Start::Here, far(), progress, call));
            assert!(futures::poll!(&mut run).is_pending());
            answer.send(()).unwrap();
        });
        assert_eq!(guests.block_on(ended), Ok((true, true, guests.handle().id())));
    }
}
