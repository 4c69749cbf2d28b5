//! Notes the last two users that called tools on this replica, to know whether there is more than one.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// For how long a user counts as somebody who calls tools.
const LATELY: Duration = Duration::from_mins(5);

/// The last two users that called tools. A caller who is not known is one user more.
#[derive(Default)]
pub(crate) struct RecentUsers(Mutex<[Option<RecentUser>; 2]>);

struct RecentUser {
    user: Option<String>,
    at: Instant,
}

impl RecentUsers {
    /// A user has called a tool. Calls do not wait for one another here: a call that finds the list in use is
    /// not noted.
    pub(crate) fn note(&self, user: Option<&str>, now: Instant) {
        let Some(mut last) = self.0.try_lock() else { return };
        let [newest, other] = &mut *last;
        let is_user = |one: &Option<RecentUser>| one.as_ref().is_some_and(|one| one.user.as_deref() == user);
        if !is_user(newest) {
            if !is_user(other) {
                *other = Some(RecentUser { user: user.map(str::to_owned), at: now });
            }
            std::mem::swap(newest, other);
        }
        if let Some(newest) = newest {
            newest.at = now;
        }
    }

    /// The users that called lately, at most two of them.
    pub(crate) fn list(&self, now: Instant) -> Vec<Option<String>> {
        let last = self.0.lock();
        let recent = last.iter().flatten().filter(|one| now.saturating_duration_since(one.at) < LATELY);
        recent.map(|one| one.user.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_two_users_are_known_for_a_while() {
        let (users, now) = (RecentUsers::default(), Instant::now());
        let listed = |after: Duration| {
            let users = users.list(now + after);
            users.into_iter().map(|user| user.unwrap_or_else(|| "?".into())).collect::<Vec<_>>().join(" ")
        };
        let second = |second: u64| now + Duration::from_secs(second);
        assert_eq!(listed(Duration::ZERO), "");
        users.note(Some("ann"), now);
        users.note(Some("ann"), second(1));
        assert_eq!(listed(Duration::ZERO), "ann");
        users.note(None, second(2));
        users.note(Some("ann"), second(3));
        assert_eq!(listed(Duration::from_secs(3)), "ann ?");
        users.note(Some("ben"), second(4));
        assert_eq!(listed(Duration::from_secs(4)), "ben ann");
        assert_eq!(listed(LATELY + Duration::from_secs(3)), "ben");
        assert_eq!(listed(LATELY * 2), "");
    }
}
