//! Receivers that did not answer in time, again and again: the next deliveries to them are given less time,
//! until they answer.

use parking_lot::Mutex;
use std::collections::HashMap;

/// How many deliveries have to time out one after the other.
const TIMEOUTS: u32 = 2;

/// Most hosts that are remembered. Strangers name them: when there are more, all are forgotten and told apart
/// anew.
const MOST_HOSTS: usize = 1024;

/// How many of the last deliveries to each host timed out.
#[derive(Debug, Default)]
pub(super) struct SlowHosts(Mutex<HashMap<String, u32>>);

impl SlowHosts {
    /// Whether a delivery to that host is given less time.
    pub(super) fn holds(&self, host: &str) -> bool {
        self.with(|hosts| hosts.get(host).is_some_and(|timeouts| *timeouts >= TIMEOUTS))
    }

    /// A delivery to that host has ended.
    pub(super) fn note(&self, host: &str, timed_out: bool) {
        self.with(|hosts| {
            if !timed_out {
                hosts.remove(host);
                return;
            }
            if hosts.len() >= MOST_HOSTS && !hosts.contains_key(host) {
                hosts.clear();
            }
            let timeouts = hosts.entry(host.to_owned()).or_default();
            *timeouts = timeouts.saturating_add(1);
        });
    }

    /// The lock is held for a few instructions, never across an await.
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<String, u32>) -> T) -> T {
        act(&mut self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_slow_from_the_second_timeout_until_they_answer_and_not_many_are_remembered() {
        let hosts = SlowHosts::default();
        hosts.note("a", true);
        assert!(!hosts.holds("a"));
        hosts.note("a", true);
        assert!(hosts.holds("a") && !hosts.holds("b"));
        hosts.note("a", false);
        assert!(!hosts.holds("a"));
        for host in 0..3 * MOST_HOSTS {
            hosts.note(&host.to_string(), true);
        }
        assert!(hosts.with(|hosts| hosts.len()) <= MOST_HOSTS);
    }
}
