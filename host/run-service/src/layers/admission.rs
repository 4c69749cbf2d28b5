//! Admission: a semaphore bounds how many agents run at once. Requests and jobs share its permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use boxed_async::boxed_async;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::{Ask, Invoke, InvokeError, RunAnswer};

/// Default of `MAX_CONCURRENT_AGENTS` (host/docs/interface/errors-and-limits.md#limits).
pub const DEFAULT_PLACES: usize = 10;

/// Default of `ADMISSION_WAIT_MS` (host/docs/interface/decisions-http.md#capacity-and-time).
pub const DEFAULT_WAIT: Duration = Duration::from_secs(5);

/// The permits for agent runs, given out in the order in which they were asked for. Clones share them.
#[derive(Debug, Clone)]
pub struct Admission {
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    permits: usize,
}

/// The right to run one agent. Dropping it gives it back.
#[derive(Debug)]
pub struct Permit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Admission {
    /// An admission with that many permits; at least one.
    pub fn new(permits: usize) -> Self {
        let permits = permits.clamp(1, Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(permits)), waiting: Arc::default(), permits }
    }

    /// Unlimited: permits in use are counted, and no caller waits.
    pub fn unlimited() -> Self {
        Self::new(Semaphore::MAX_PERMITS)
    }

    /// Waits for a permit. Cancellation-safe: a caller that goes away loses its position only.
    pub async fn acquire(&self) -> Permit {
        if let Ok(permit) = self.free.clone().try_acquire_owned() {
            return Permit { _permit: Some(permit) };
        }
        let _waiting = Waiting::begin(&self.waiting);
        // The semaphore is never closed, so there always is a permit.
        Permit { _permit: self.free.clone().acquire_owned().await.ok() }
    }

    /// Waits until a permit would be given, in order behind those that wait for one, and gives it back at
    /// once. Not counted in [`Self::waiting`].
    pub async fn available(&self) {
        let _permit = self.free.acquire().await;
    }

    /// Whether a permit would be given at once.
    pub fn is_available(&self) -> bool {
        self.free.available_permits() > 0
    }

    /// How many permits are in use.
    pub fn in_use(&self) -> usize {
        self.permits.saturating_sub(self.free.available_permits())
    }

    /// How many callers wait for one.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs an agent under a permit, or refuses it with [`InvokeError::Busy`] when none becomes free in time.
#[derive(Debug)]
pub struct Admitted<I> {
    inner: I,
    admission: Admission,
    patience: Duration,
}

impl<I> Admitted<I> {
    /// Runs wait up to `patience` for a permit.
    pub fn new(inner: I, admission: Admission, patience: Duration) -> Self {
        Self { inner, admission, patience }
    }
}

#[boxed_async]
impl<I: Invoke> Invoke for Admitted<I> {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        let start = Instant::now();
        let Ok(_permit) = timeout(self.patience, self.admission.acquire()).await else {
            return Err(InvokeError::Busy { waited: start.elapsed() });
        };
        self.inner.invoke(ask).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::testing::ScriptedInvoke;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_gets_no_place_in_time_is_turned_away() {
        let admission = Admission::new(1);
        let admitted =
            Admitted::new(ScriptedInvoke::answering("hi"), admission.clone(), Duration::from_secs(5));
        let taken = admission.acquire().await;
        let start = Instant::now();
        let error = admitted.invoke(Ask::new("r".into(), "q".into())).await.unwrap_err();
        assert!(matches!(error, InvokeError::Busy { waited } if waited >= Duration::from_secs(5)), "{error}");
        assert!(start.elapsed() < Duration::from_secs(6));
        drop(taken);
        admitted.invoke(Ask::new("r".into(), "q".into())).await.unwrap();
        assert_eq!((admission.in_use(), admission.waiting()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_longest_gets_the_next_place() {
        let admission = Admission::new(2);
        let first = admission.acquire().await;
        let _second = admission.acquire().await;
        let mut third = Box::pin(admission.acquire());
        let mut fourth = Box::pin(admission.acquire());
        assert!(third.as_mut().now_or_never().is_none());
        assert!(fourth.as_mut().now_or_never().is_none());
        assert_eq!((admission.in_use(), admission.waiting()), (2, 2));
        drop(first);
        assert!(fourth.as_mut().now_or_never().is_none(), "it is not its turn");
        assert!(admission.acquire().now_or_never().is_none(), "nobody jumps the queue");
        let third = third.await;
        assert_eq!(admission.waiting(), 1);
        drop(third);
        drop(fourth.await);
        assert_eq!((admission.in_use(), admission.waiting()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_looks_for_a_vacancy_is_not_counted_as_waiting() {
        let admission = Admission::new(1);
        let taken = admission.acquire().await;
        let mut idle = Box::pin(admission.available());
        assert!(idle.as_mut().now_or_never().is_none());
        assert_eq!((admission.in_use(), admission.waiting()), (1, 0));
        drop(taken);
        idle.await;
        assert_eq!((admission.in_use(), admission.waiting()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn where_there_is_no_limit_nobody_waits_and_agents_are_counted() {
        let admission = Admission::unlimited();
        let mut places = Vec::new();
        for _ in 0..1_000 {
            places.push(admission.acquire().now_or_never().unwrap());
        }
        assert_eq!((admission.in_use(), admission.waiting()), (1_000, 0));
    }
}
