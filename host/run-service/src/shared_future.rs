//! A future that several wait for, and that runs once.
//!
//! It is [`futures::future::Shared`] without one of its wake-ups: that one wakes everybody who waits when it
//! completes, the task included that polled it to its end and has the result in its hands. tokio then queues
//! that task once more and wakes another worker thread for it, which cost a request two switches between
//! threads (`cargo xtask bench lone`).
//!
//! Invariant: a wake-up is left out only if it comes while this future is polled and that poll completes it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use futures::task::AtomicWaker;

/// Clones wait for the same execution. It goes on while one of them is polled, and is dropped with the last.
pub struct SharedFuture<T: Clone> {
    work: Shared<BoxFuture<'static, T>>,
    waker: Arc<PollWaker>,
}

/// What wakes one of those who wait.
#[derive(Default)]
struct PollWaker {
    task: AtomicWaker,
    /// [`IDLE`], [`POLLED`] or [`WOKEN`].
    state: AtomicU8,
}

/// Nobody polls: a wake-up is passed on to the task.
const IDLE: u8 = 0;
/// The task polls: whether it has to be woken is known when it has.
const POLLED: u8 = 1;
/// The task polls, and was woken meanwhile.
const WOKEN: u8 = 2;

impl<T: Clone> SharedFuture<T> {
    /// Nothing happens until it is polled.
    pub fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self::boxed(work.boxed())
    }

    /// Shares a future that is boxed already.
    pub fn boxed(work: BoxFuture<'static, T>) -> Self {
        Self { work: work.shared(), waker: Arc::default() }
    }

    /// The result, if it is there.
    pub fn peek(&self) -> Option<&T> {
        self.work.peek()
    }
}

impl<T: Clone> Clone for SharedFuture<T> {
    fn clone(&self) -> Self {
        Self { work: self.work.clone(), waker: Arc::default() }
    }
}

impl<T: Clone> Future for SharedFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.waker.task.register(context.waker());
        self.waker.state.store(POLLED, Ordering::SeqCst);
        let waker = Waker::from(self.waker.clone());
        let polled = self.work.poll_unpin(&mut Context::from_waker(&waker));
        let was_woken = self.waker.state.swap(IDLE, Ordering::SeqCst) == WOKEN;
        if was_woken && polled.is_pending() {
            context.waker().wake_by_ref();
        }
        polled
    }
}

impl Wake for PollWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let (before, after) = (POLLED, WOKEN);
        let marked = self.state.compare_exchange(before, after, Ordering::SeqCst, Ordering::SeqCst);
        if marked == Err(IDLE) {
            self.task.wake();
        }
    }
}

impl<T: Clone + fmt::Debug> fmt::Debug for SharedFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedFuture").field("result", &self.peek()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn, ready};
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::oneshot;

    use super::*;

    /// A task that counts how often it is woken.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll<T: Clone>(future: &mut SharedFuture<T>, task: &Arc<Task>) -> (Poll<T>, usize) {
        let waker = Waker::from(task.clone());
        let polled = Pin::new(future).poll(&mut Context::from_waker(&waker));
        (polled, task.0.swap(0, Ordering::SeqCst))
    }

    #[test]
    fn who_completes_it_is_not_woken_and_everybody_else_is() {
        let [one, other] = [(); 2].map(|()| Arc::new(Task::default()));
        assert_eq!(poll(&mut SharedFuture::new(ready(7)), &one), (Poll::Ready(7), 0));

        let (sender, receiver) = oneshot::channel();
        let mut first = SharedFuture::new(receiver.map(Result::unwrap));
        let mut second = first.clone();
        assert_eq!(poll(&mut first, &one), (Poll::Pending, 0));
        assert_eq!(poll(&mut second, &other), (Poll::Pending, 0));
        sender.send(8).unwrap();
        let woken = |task: &Arc<Task>| task.0.load(Ordering::SeqCst);
        assert_eq!((woken(&one), woken(&other)), (1, 1));
        // The task's second poll adds nothing to the one wake-up.
        assert_eq!(poll(&mut first, &one), (Poll::Ready(8), 1));
        assert!(woken(&other) >= 1);
        assert_eq!(poll(&mut second, &other).0, Poll::Ready(8));
    }

    #[test]
    fn a_task_that_is_woken_while_it_polls_and_has_no_result_is_polled_again() {
        let task = Arc::new(Task::default());
        let yields = poll_fn(|context: &mut Context<'_>| {
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert_eq!(poll(&mut SharedFuture::new(yields), &task), (Poll::Pending, 1));
        assert_eq!(poll(&mut SharedFuture::new(pending::<()>()), &task), (Poll::Pending, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_wake_up_is_lost_between_threads() {
        for _ in 0..2_000 {
            let (sender, receiver) = oneshot::channel();
            let shared = SharedFuture::new(receiver.map(Result::unwrap));
            let mut waiting = tokio::task::JoinSet::new();
            for _ in 0..3 {
                waiting.spawn(shared.clone());
            }
            waiting.spawn(async move {
                sender.send(9).unwrap();
                9
            });
            assert_eq!(waiting.join_all().await, [9; 4]);
        }
    }
}
