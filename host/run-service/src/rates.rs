//! Rate windows that go on counting when their store fails
//! (host/docs/interface/decisions-http.md#rate-windows).

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Hits, Observer, RateError, RateWindows, Window};
use boxed_async::boxed_async;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::outage::Outage;

/// After a failure the shared windows are left alone for this long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long a request may be held up by shared windows that do not answer. Longer than their store waits for
/// an answer by itself (500 ms on Redis): a query that is dropped before tells it nothing.
const PATIENCE: Duration = Duration::from_millis(600);

/// Counts in windows that all replicas share, and in those of this process while that fails.
///
/// Each process then allows a caller the whole limit: more than it should, but bounded, and nobody is turned
/// away because a store is down.
pub struct FallbackRates {
    shared: Arc<dyn RateWindows>,
    local: Arc<dyn RateWindows>,
    observer: Arc<dyn Observer>,
    outage: Outage,
    /// Until when the shared windows are left alone. Held for a few instructions, never across an await.
    resting_until: Mutex<Option<Instant>>,
}

impl FallbackRates {
    /// `local` counts while `shared` fails.
    pub fn new(
        shared: Arc<dyn RateWindows>,
        local: Arc<dyn RateWindows>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self { shared, local, observer, outage: Outage::default(), resting_until: Mutex::new(None) }
    }

    /// Whether this request asks the shared windows. While they fail that is one request every second.
    fn asks_shared(&self) -> bool {
        let now = Instant::now();
        let mut resting_until = self.resting_until.lock();
        match *resting_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                *resting_until = Some(now + RETRY_AFTER);
                true
            }
        }
    }

    fn rest(&self, until: Option<Instant>) {
        *self.resting_until.lock() = until;
    }

    async fn hit_shared(&self, windows: &[Window<'_>]) -> Option<Vec<Hits>> {
        if !self.asks_shared() {
            return None;
        }
        let error = match timeout(PATIENCE, self.shared.hit(windows)).await {
            Ok(Ok(hits)) => {
                if let Some(lasted) = self.outage.ends() {
                    info!(outage_ms = lasted.as_millis(), "the shared rate windows work again");
                }
                self.rest(None);
                return Some(hits);
            }
            Ok(Err(error)) => error,
            Err(_elapsed) => RateError(format!("no answer within {} ms", PATIENCE.as_millis())),
        };
        self.rest(Some(Instant::now() + RETRY_AFTER));
        if self.outage.begins() {
            warn!(%error, "the shared rate windows fail: requests are counted in this process only");
        }
        None
    }
}

#[boxed_async]
impl RateWindows for FallbackRates {
    /// Never an error.
    async fn hit(&self, windows: &[Window<'_>]) -> Result<Vec<Hits>, RateError> {
        if let Some(hits) = self.hit_shared(windows).await {
            return Ok(hits);
        }
        self.observer.rates_fell_back();
        // Windows in memory have no reason to fail. If they do, nobody is turned away for it.
        let first_hit = |window: &Window<'_>| Hits { count: window.cost, resets_in: window.period };
        Ok(self.local.hit(windows).await.unwrap_or_else(|_| windows.iter().map(first_hit).collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use agent_core::ports::WindowKind;
    use agent_core::testing::TestRates;

    use super::*;

    #[derive(Default)]
    struct Fallen(AtomicU32);

    impl Observer for Fallen {
        fn rates_fell_back(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct Bench {
        shared: Arc<TestRates>,
        local: Arc<TestRates>,
        fallen: Arc<Fallen>,
        rates: FallbackRates,
    }

    fn bench() -> Bench {
        let (shared, local) = (Arc::new(TestRates::default()), Arc::new(TestRates::default()));
        let fallen = Arc::new(Fallen::default());
        let rates = FallbackRates::new(shared.clone(), local.clone(), fallen.clone());
        Bench { shared, local, fallen, rates }
    }

    impl Bench {
        async fn hit(&self) -> u64 {
            let (kind, period) = (WindowKind::Address, Duration::from_secs(900));
            let window = Window { kind, key: "ip:192.0.2.1", limit: 100, period, cost: 1 };
            self.rates.hit(&[window]).await.unwrap()[0].count
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_shared_windows_fail_the_process_counts_alone() {
        let bench = bench();
        assert_eq!((bench.hit().await, bench.hit().await), (1, 2));
        bench.shared.switch.fail(true);
        assert_eq!((bench.hit().await, bench.hit().await), (1, 2));
        bench.shared.switch.fail(false);
        assert_eq!(bench.hit().await, 3, "asked again too early");
        tokio::time::advance(RETRY_AFTER).await;
        assert_eq!(bench.hit().await, 3, "the shared windows went on where they were");
        assert_eq!(bench.fallen.0.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn shared_windows_that_hang_hold_up_one_request_a_second() {
        let bench = bench();
        bench.shared.switch.hang(true);
        let start = Instant::now();
        for _ in 0..100 {
            bench.hit().await;
        }
        let waited = start.elapsed();
        assert!(waited >= PATIENCE && waited < 2 * PATIENCE, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_turned_away_because_counting_fails() {
        let bench = bench();
        bench.shared.switch.fail(true);
        bench.local.switch.fail(true);
        for _ in 0..200 {
            assert_eq!(bench.hit().await, 1);
        }
    }
}
