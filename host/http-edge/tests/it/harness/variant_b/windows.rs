//! Windows in memory, in which no time passes.

use parking_lot::Mutex;
use std::collections::HashMap;

use agent_core::ports::{Hits, RateError, RateWindows, Window};
use async_trait::async_trait;

#[derive(Default)]
pub(crate) struct Windows {
    counts: Mutex<HashMap<String, u64>>,
    trips: Mutex<Vec<Vec<String>>>,
    broken: Mutex<bool>,
    late: Mutex<bool>,
}

impl Windows {
    /// Makes it as if that many requests had come before.
    pub(crate) fn fill(&self, key: &str, count: u64) {
        self.counts.lock().insert(key.into(), count);
    }

    /// How many requests were counted under a key.
    pub(crate) fn count(&self, key: &str) -> u64 {
        self.counts.lock().get(key).copied().unwrap_or_default()
    }

    /// The keys of every round trip since the last time.
    pub(crate) fn take_trips(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.trips.lock())
    }

    /// From now on others go first while a request is counted, as with a store that is asked over a network.
    pub(crate) fn count_late(&self) {
        *self.late.lock() = true;
    }

    /// From now on nothing can be counted.
    pub(crate) fn break_down(&self) {
        *self.broken.lock() = true;
    }
}

#[async_trait]
impl RateWindows for Windows {
    async fn hit(&self, windows: &[Window<'_>]) -> Result<Vec<Hits>, RateError> {
        self.trips.lock().push(windows.iter().map(|window| window.key.to_owned()).collect());
        if *self.late.lock() {
            tokio::task::yield_now().await;
        }
        if *self.broken.lock() {
            return Err(RateError("the store is gone".into()));
        }
        let mut counts = self.counts.lock();
        let mut answer = vec![];
        for window in windows {
            let count = counts.entry(window.key.into()).or_default();
            *count += window.cost;
            let hits = Hits { count: *count, resets_in: window.period };
            answer.push(hits);
            if hits.exceed(window.limit) {
                break;
            }
        }
        Ok(answer)
    }
}
