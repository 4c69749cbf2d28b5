//! When the workers of this process ask the table for a job: when one may be there, and not over and over.
//!
//! They are woken by what this process does to the table, by what other processes announce
//! (`announcements.rs`), and when the next job that was seen there is due: a delayed one, or one whose lease
//! ends. One worker asks at a time; when it finds a job, another one asks.

use parking_lot::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

/// The least time between two looks of which the first found nothing. A job that is due may be locked by
/// whoever claims it.
const LEAST_PAUSE: Duration = Duration::from_millis(20);

/// Shared by the workers of a queue.
#[derive(Debug)]
pub(super) struct ClaimWakeup {
    state: Mutex<State>,
    woken: Notify,
}

#[derive(Debug)]
struct State {
    /// When a worker is to look.
    next: Instant,
    /// How often there was a reason to look at once.
    wakes: u64,
    /// Whether the last look broke off.
    has_failed: bool,
}

/// A look at the table that is under way. Dropped half-way, it is made again at once.
#[derive(Debug)]
pub(super) struct Look<'a> {
    claim_wakeup: &'a ClaimWakeup,
    /// The wakes when it began, until it has ended.
    wakes: Option<u64>,
}

impl ClaimWakeup {
    /// The first look is due.
    pub(super) fn new() -> Self {
        let state = State { next: Instant::now(), wakes: 0, has_failed: false };
        Self { state: Mutex::new(state), woken: Notify::new() }
    }

    /// There may be a job.
    pub(super) fn wake(&self) {
        {
            let mut state = self.state.lock();
            state.next = Instant::now();
            state.wakes += 1;
        }
        self.woken.notify_one();
    }

    /// Waits for a reason to look. One that comes before this is polled is not missed.
    pub(super) fn woken(&self) -> Notified<'_> {
        self.woken.notified()
    }

    /// When the next look is due.
    pub(super) fn next(&self) -> Instant {
        self.state.lock().next
    }

    /// Whether the last look broke off. Who waits while another worker looks knows no more.
    pub(super) fn has_failed(&self) -> bool {
        self.state.lock().has_failed
    }

    /// Begins a look if one is due, or `regardless`. Without another reason the next one is due after
    /// `interval`.
    pub(super) fn begin(&self, interval: Duration, regardless: bool) -> Option<Look<'_>> {
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.next > now && !regardless {
            return None;
        }
        state.next = now + interval;
        Some(Look { claim_wakeup: self, wakes: Some(state.wakes) })
    }
}

impl Look<'_> {
    /// There was a job, and there may be more.
    pub(super) fn found(mut self) {
        self.wakes = None;
        self.claim_wakeup.state.lock().has_failed = false;
        self.claim_wakeup.wake();
    }

    /// There was none; the next one is `due` after this time, as far as is known.
    pub(super) fn found_nothing(mut self, due: Option<Duration>) {
        let Some(wakes) = self.wakes.take() else { return };
        let mut state = self.claim_wakeup.state.lock();
        state.has_failed = false;
        // What woke somebody meanwhile may not have been seen.
        if state.wakes == wakes
            && let Some(due) = due
        {
            state.next = state.next.min(Instant::now() + due.max(LEAST_PAUSE));
        }
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        if self.wakes.is_some() {
            let mut state = self.claim_wakeup.state.lock();
            state.next = Instant::now();
            state.has_failed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn one_worker_looks_and_no_other_until_there_is_a_reason() {
        let claim_wakeup = ClaimWakeup::new();
        let look = claim_wakeup.begin(INTERVAL, false).unwrap();
        assert!(claim_wakeup.begin(INTERVAL, false).is_none());
        look.found_nothing(None);
        advance(INTERVAL - Duration::from_millis(1)).await;
        assert!(claim_wakeup.begin(INTERVAL, false).is_none());
        assert!(claim_wakeup.begin(INTERVAL, true).is_some(), "somebody who does not wait");
        claim_wakeup.wake();
        assert!(claim_wakeup.woken().now_or_never().is_some());
        claim_wakeup.begin(INTERVAL, false).unwrap().found();
        assert!(claim_wakeup.woken().now_or_never().is_some(), "there may be more");
        assert!(claim_wakeup.begin(INTERVAL, false).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_is_due_when_the_next_job_is_or_when_one_was_announced_meanwhile() {
        let claim_wakeup = ClaimWakeup::new();
        claim_wakeup.begin(INTERVAL, false).unwrap().found_nothing(Some(Duration::from_secs(2)));
        assert_eq!(claim_wakeup.next(), Instant::now() + Duration::from_secs(2));
        advance(Duration::from_secs(2)).await;
        let look = claim_wakeup.begin(INTERVAL, false).unwrap();
        claim_wakeup.wake();
        look.found_nothing(Some(Duration::from_secs(2)));
        assert!(claim_wakeup.begin(INTERVAL, false).is_some(), "it may have come after the look");
        drop(claim_wakeup.begin(INTERVAL, false));
        let failed = claim_wakeup.begin(INTERVAL, true);
        drop(failed);
        let again = claim_wakeup.begin(INTERVAL, false).expect("a look that failed is made again");
        assert!(claim_wakeup.begin(INTERVAL, false).is_none() && claim_wakeup.has_failed());
        again.found_nothing(None);
        assert!(!claim_wakeup.has_failed());
    }
}
