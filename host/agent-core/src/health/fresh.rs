//! Keeps a probe's answer for a while: for checks that cost money.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

use crate::ports::{Probe, ProbeError};

type Outcome = Result<Option<Duration>, ProbeError>;

/// Asks the probe behind it at most once per time to live, and never twice at once.
pub struct Fresh<P> {
    probe: Arc<P>,
    time_to_live: Duration,
    /// The last check, done or under way. Held for a few instructions, never across an await.
    last: Mutex<Option<Check>>,
}

/// A check that several callers wait for. When one of them goes away, the others carry it on; when all do, the
/// next caller does, so that going away early does not buy another check.
type Check = Shared<BoxFuture<'static, (Instant, Outcome)>>;

impl<P: Probe + 'static> Fresh<P> {
    /// Keeps answers for `time_to_live`; zero means that only callers of the same moment share a check.
    pub fn new(probe: P, time_to_live: Duration) -> Self {
        Self { probe: Arc::new(probe), time_to_live, last: Mutex::new(None) }
    }

    fn join_or_begin(&self) -> Check {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(check) = &*last
            && check.peek().is_none_or(|(ended, _)| ended.elapsed() < self.time_to_live)
        {
            return check.clone();
        }
        let check = ask(self.probe.clone()).boxed().shared();
        *last = Some(check.clone());
        check
    }
}

async fn ask<P: Probe>(probe: Arc<P>) -> (Instant, Outcome) {
    let start = Instant::now();
    // A check that panicked must not panic again in everybody who joins it.
    let outcome = match AssertUnwindSafe(probe.check()).catch_unwind().await {
        Ok(outcome) => outcome.map(|latency| latency.or_else(|| Some(start.elapsed()))),
        Err(_panic) => Err(ProbeError("the check broke off".into())),
    };
    (Instant::now(), outcome)
}

#[async_trait]
impl<P: Probe + 'static> Probe for Fresh<P> {
    fn name(&self) -> &'static str {
        self.probe.name()
    }

    async fn check(&self) -> Outcome {
        self.join_or_begin().await.1
    }
}

impl<P: Probe> std::fmt::Debug for Fresh<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fresh").field("probe", &self.probe.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;

    use super::*;
    use crate::health::{Check, check_all};

    /// Passes, fails or hangs; counts how often it is asked and that it is never asked twice at once.
    #[derive(Debug, Default)]
    struct Scripted {
        asked: AtomicU32,
        under_way: AtomicU32,
        hangs: bool,
    }

    #[async_trait]
    impl Probe for Arc<Scripted> {
        fn name(&self) -> &'static str {
            "scripted"
        }

        async fn check(&self) -> Outcome {
            assert_eq!(self.under_way.fetch_add(1, Ordering::SeqCst), 0, "asked twice at once");
            if self.hangs {
                std::future::pending::<()>().await;
            }
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            match self.asked.fetch_add(1, Ordering::SeqCst) {
                0 => Ok(Some(Duration::from_millis(7))),
                _ => Err(ProbeError("down".into())),
            }
        }
    }

    #[tokio::test]
    async fn many_callers_share_one_check_and_its_latency() {
        let probe = Arc::new(Scripted::default());
        let fresh = Fresh::new(probe.clone(), Duration::from_secs(60));
        for outcome in join_all((0..10).map(|_| fresh.check())).await {
            assert_eq!(outcome, Ok(Some(Duration::from_millis(7))));
        }
        assert_eq!(probe.asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn without_a_time_to_live_only_callers_of_one_moment_share_a_check() {
        let probe = Arc::new(Scripted::default());
        let fresh = Fresh::new(probe.clone(), Duration::ZERO);
        for asked in 1..4 {
            join_all((0..3).map(|_| fresh.check())).await;
            assert_eq!(probe.asked.load(Ordering::SeqCst), asked);
        }
    }

    #[tokio::test]
    async fn callers_who_go_away_early_do_not_cause_more_checks() {
        let probe = Arc::new(Scripted::default());
        let fresh = Fresh::new(probe.clone(), Duration::from_secs(60));
        for _ in 0..5 {
            // Polled once, then dropped.
            assert!(fresh.check().now_or_never().is_none());
            if probe.asked.load(Ordering::SeqCst) == 1 {
                break;
            }
        }
        assert_eq!(fresh.check().await, Ok(Some(Duration::from_millis(7))));
        assert_eq!(probe.asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_fails_and_the_others_still_run() {
        let hanging = Scripted { hangs: true, ..Scripted::default() };
        let probes: [Arc<dyn Probe>; 2] =
            [Arc::new(Arc::new(hanging)), Arc::new(Arc::new(Scripted::default()))];
        let checks = check_all(&probes, Duration::from_secs(5)).await;
        assert_eq!(
            checks,
            [
                Check { name: "scripted", outcome: Err(ProbeError("no answer within 5000 ms".into())) },
                Check { name: "scripted", outcome: Ok(Duration::from_millis(7)) },
            ]
        );
    }

    struct Panics;

    #[async_trait]
    impl Probe for Panics {
        fn name(&self) -> &'static str {
            "panics"
        }

        async fn check(&self) -> Outcome {
            panic!("a bug in a probe")
        }
    }

    #[tokio::test]
    async fn a_check_that_panics_fails_and_the_others_still_run() {
        let probes: [Arc<dyn Probe>; 2] = [Arc::new(Panics), Arc::new(Arc::new(Scripted::default()))];
        let checks = check_all(&probes, Duration::from_secs(5)).await;
        assert_eq!(checks[0].outcome, Err(ProbeError("the check broke off".into())));
        assert!(checks[1].outcome.is_ok());
    }
}
