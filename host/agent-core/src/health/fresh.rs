//! Keeps a probe's answer for a while: for checks that cost money.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::Mutex;

use crate::ports::{Probe, ProbeError};

type Outcome = Result<Option<Duration>, ProbeError>;

/// Asks the probe behind it at most once per time to live, and never twice at once.
#[derive(Debug)]
pub struct Fresh<P> {
    probe: P,
    time_to_live: Duration,
    /// Held across the check on purpose: whoever comes meanwhile waits for it and takes its answer.
    last: Mutex<Option<(Instant, Outcome)>>,
}

impl<P> Fresh<P> {
    /// Keeps answers for `time_to_live`; zero means that every caller gets a check that began after it asked.
    pub fn new(probe: P, time_to_live: Duration) -> Self {
        Self { probe, time_to_live, last: Mutex::new(None) }
    }
}

#[async_trait]
impl<P: Probe> Probe for Fresh<P> {
    fn name(&self) -> &'static str {
        self.probe.name()
    }

    async fn check(&self) -> Outcome {
        let mut last = self.last.lock().await;
        if let Some((checked, outcome)) = &*last
            && checked.elapsed() < self.time_to_live
        {
            return outcome.clone();
        }
        let start = Instant::now();
        let outcome = self.probe.check().await.map(|latency| latency.or_else(|| Some(start.elapsed())));
        *last = Some((Instant::now(), outcome.clone()));
        outcome
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
            tokio::task::yield_now().await;
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
    async fn without_a_time_to_live_every_caller_gets_a_check_of_its_own_one_after_the_other() {
        let probe = Arc::new(Scripted::default());
        let fresh = Fresh::new(probe.clone(), Duration::ZERO);
        join_all((0..3).map(|_| fresh.check())).await;
        assert_eq!(probe.asked.load(Ordering::SeqCst), 3);
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
