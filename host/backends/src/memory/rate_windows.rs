//! Rate windows of this process.

use parking_lot::Mutex;
use std::collections::HashMap;

use agent_core::ports::{Hits, RateError, RateWindows, Window};
use boxed_async::boxed_async;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// How many windows are kept: about 10 MB of them.
const MOST_WINDOWS: usize = 100_000;

/// Counts hits in memory, in a bounded number of windows.
///
/// Keys come from strangers, so there can be any number of them. Windows that have ended are dropped. When
/// there are still too many, a tenth of them is, those with the fewest hits first and among equals those that
/// end first. So whoever wants a window of theirs to be forgotten has to open 100,000 others with as many
/// hits in each, which takes far more requests than waiting would have allowed; and whoever is forgotten by
/// accident gains the few hits they had made.
#[derive(Debug)]
pub struct MemoryWindows {
    most: usize,
    /// A plain mutex: nothing is awaited under it.
    running: Mutex<Running>,
}

/// By a digest of the key, which takes the same room whatever a stranger is called.
#[derive(Debug, Default)]
struct Running {
    windows: HashMap<[u8; 16], Count>,
    /// As many windows as make a look for ended ones worth it.
    next_sweep: usize,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    hits: u64,
    ends: Instant,
}

impl MemoryWindows {
    /// No windows yet.
    pub fn new() -> Self {
        Self::with_most(MOST_WINDOWS)
    }

    fn with_most(most: usize) -> Self {
        Self { most, running: Mutex::default() }
    }

    fn hit_at(&self, windows: &[Window<'_>], now: Instant) -> Vec<Hits> {
        let mut running = self.running.lock();
        let mut counted = Vec::with_capacity(windows.len());
        for window in windows {
            let hits = running.count(window, now);
            counted.push(hits);
            if hits.exceed(window.limit) {
                break;
            }
        }
        running.sweep(self.most, now);
        counted
    }
}

impl Default for MemoryWindows {
    fn default() -> Self {
        Self::new()
    }
}

#[boxed_async]
impl RateWindows for MemoryWindows {
    async fn hit(&self, windows: &[Window<'_>]) -> Result<Vec<Hits>, RateError> {
        Ok(self.hit_at(windows, Instant::now()))
    }
}

impl Running {
    fn count(&mut self, window: &Window<'_>, now: Instant) -> Hits {
        let fresh = Count { hits: 0, ends: now + window.period };
        let key = digest(window.key);
        if window.cost == 0 {
            let count = self.windows.get(&key).filter(|count| count.ends > now).unwrap_or(&fresh);
            return Hits { count: count.hits, resets_in: count.ends.duration_since(now) };
        }
        let count = self.windows.entry(key).or_insert(fresh);
        if count.ends <= now {
            *count = fresh;
        }
        count.hits += window.cost;
        Hits { count: count.hits, resets_in: count.ends.duration_since(now) }
    }

    /// Looks at all windows only when their number has doubled, or is too high.
    fn sweep(&mut self, most: usize, now: Instant) {
        const RARELY: usize = 1024;
        if self.windows.len() < self.next_sweep.clamp(RARELY.min(most), most) {
            return;
        }
        self.windows.retain(|_, count| count.ends > now);
        if self.windows.len() >= most {
            self.drop_least(most / 10 + 1);
        }
        self.next_sweep = self.windows.len() * 2;
    }

    fn drop_least(&mut self, number: usize) {
        let mut order: Vec<_> =
            self.windows.iter().map(|(key, count)| (count.hits, count.ends, *key)).collect();
        let number = number.min(order.len());
        if number < order.len() {
            order.select_nth_unstable(number);
        }
        for (_, _, key) in &order[..number] {
            self.windows.remove(key);
        }
    }
}

/// Half of a SHA-256: nobody finds a key that shares somebody else's window.
fn digest(key: &str) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&Sha256::digest(key)[..16]);
    half
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agent_core::ports::WindowKind;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(60);

    fn window(key: &str) -> Window<'_> {
        Window { kind: WindowKind::Address, key, limit: 2, period: PERIOD, cost: 1 }
    }

    #[test]
    fn a_window_ends_after_its_period_whatever_came_in_between() {
        let (windows, begin) = (MemoryWindows::new(), Instant::now());
        let at = |seconds| windows.hit_at(&[window("ip:1")], begin + Duration::from_secs(seconds))[0];
        assert_eq!(at(0), Hits { count: 1, resets_in: PERIOD });
        assert_eq!(at(59), Hits { count: 2, resets_in: Duration::from_secs(1) });
        assert_eq!(at(60), Hits { count: 1, resets_in: PERIOD });
    }

    #[test]
    fn windows_that_have_ended_are_dropped() {
        let (windows, begin) = (MemoryWindows::new(), Instant::now());
        for caller in 0..2000 {
            windows.hit_at(&[window(&format!("ip:{caller}"))], begin);
        }
        for caller in 2000..5000 {
            windows.hit_at(&[window(&format!("ip:{caller}"))], begin + PERIOD);
        }
        assert!(windows.running.lock().windows.len() <= 3000 + 1024);
    }

    #[test]
    fn a_flood_of_callers_resets_nobody_who_has_hits() {
        let (windows, now) = (MemoryWindows::with_most(100), Instant::now());
        windows.hit_at(&[window("ip:victim")], now);
        windows.hit_at(&[window("ip:victim")], now);
        for caller in 0..10_000 {
            windows.hit_at(&[window(&format!("ip:{caller}"))], now);
        }
        assert!(windows.running.lock().windows.len() <= 100);
        assert_eq!(windows.hit_at(&[window("ip:victim")], now)[0].count, 3);
    }
}
