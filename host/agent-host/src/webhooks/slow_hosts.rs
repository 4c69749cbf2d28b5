//! Receivers that did not answer in time, again and again: the next deliveries of that user to them are given
//! less time, until they answer. Other users may have receivers on the same host, at other paths.

use parking_lot::Mutex;
use std::collections::HashMap;

/// How many deliveries have to time out one after the other.
const TIMEOUTS: u32 = 2;

/// Most hosts of users that are remembered. Strangers name them: when there are more, all are forgotten and
/// told apart anew.
const MOST_HOSTS: usize = 1024;

/// A user and a host.
type Key = (String, String);

/// How many of the last deliveries of each user to each host timed out.
#[derive(Debug, Default)]
pub(super) struct SlowHosts(Mutex<HashMap<Key, u32>>);

impl SlowHosts {
    /// Whether a delivery of that user to that host is given less time.
    pub(super) fn holds(&self, key: &Key) -> bool {
        self.with(|hosts| hosts.get(key).is_some_and(|timeouts| *timeouts >= TIMEOUTS))
    }

    /// A delivery of that user to that host has ended.
    pub(super) fn note(&self, key: Key, timed_out: bool) {
        self.with(|hosts| {
            if !timed_out {
                hosts.remove(&key);
                return;
            }
            if hosts.len() >= MOST_HOSTS && !hosts.contains_key(&key) {
                hosts.clear();
            }
            let timeouts = hosts.entry(key).or_default();
            *timeouts = timeouts.saturating_add(1);
        });
    }

    /// The lock is held for a few instructions, never across an await.
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<Key, u32>) -> T) -> T {
        act(&mut self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_slow_from_the_second_timeout_until_they_answer_and_not_many_are_remembered() {
        let hosts = SlowHosts::default();
        let key = |user: &str, host: &str| (user.to_owned(), host.to_owned());
        let holds = |user: &str, host: &str| hosts.holds(&key(user, host));
        hosts.note(key("u1", "a"), true);
        assert!(!holds("u1", "a"));
        hosts.note(key("u1", "a"), true);
        assert!(holds("u1", "a") && !holds("u1", "b"));
        assert!(!holds("u2", "a"), "whoever lets it hang delays themselves alone");
        hosts.note(key("u1", "a"), false);
        assert!(!holds("u1", "a"));
        for host in 0..3 * MOST_HOSTS {
            hosts.note(key("u1", &host.to_string()), true);
        }
        assert!(hosts.with(|hosts| hosts.len()) <= MOST_HOSTS);
    }
}
