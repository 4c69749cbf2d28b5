//! Counts of how the calls of versions ended: replicas add them up, and judge alike.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How many buckets the durations of calls are counted in: bucket `n` has those below `2^n` microseconds that
/// no lower one has, the last one everything above.
pub const DURATION_BUCKETS: usize = 32;

/// Counts of how the calls of one version ended. Counts of replicas add up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CallCounts {
    /// Calls that ended.
    #[schema(example = 120)]
    pub calls: u64,
    /// Of these, those that failed: reported by the tool, refused by its schema, trapped, past a limit, with
    /// a wrong output.
    #[schema(example = 1)]
    pub failed: u64,
    /// Of the failed ones, those that trapped.
    #[schema(example = 0)]
    pub trapped: u64,
    /// Answers of a shadow that were compared.
    #[schema(example = 118)]
    pub compared: u64,
    /// Of these, those that were equal.
    #[schema(example = 118)]
    pub agreed: u64,
    /// Durations; shorter than [`DURATION_BUCKETS`] where the rest is 0.
    #[schema(max_items = 32, example = json!([0, 3, 112, 5]))]
    pub durations: Vec<u64>,
}

/// Counts of both versions of a trial until now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TrialCounts {
    /// Calls of the version that serves.
    pub old: CallCounts,
    /// Calls of the version that is tried.
    pub new: CallCounts,
    /// The calls of single users among these, by a hash of the user: at most [`MOST_COUNTED_USERS`], so that
    /// the calls of further users are in the sums only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(ignore)]
    pub users: BTreeMap<String, UserCounts>,
}

/// Counts of how the calls of one user in a trial ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserCounts {
    /// Calls of the version that serves.
    pub old: CallCounts,
    /// Calls of the version that is tried.
    pub new: CallCounts,
}

/// Most users whose calls are counted one by one in a trial.
pub const MOST_COUNTED_USERS: usize = 32;

impl CallCounts {
    /// Adds counts, each to its own. A sum that does not fit stays at the largest number.
    pub fn add(&mut self, more: &Self) {
        self.combine(more, u64::saturating_add);
    }

    /// Takes counts away that are part of these.
    pub fn subtract(&mut self, part: &Self) {
        self.combine(part, u64::saturating_sub);
    }

    fn combine(&mut self, other: &Self, of: impl Fn(u64, u64) -> u64) {
        let Self { calls, failed, trapped, compared, agreed, durations } = other;
        if self.durations.len() < durations.len() {
            self.durations.resize(durations.len(), 0);
        }
        let single = [
            (&mut self.calls, calls),
            (&mut self.failed, failed),
            (&mut self.trapped, trapped),
            (&mut self.compared, compared),
            (&mut self.agreed, agreed),
        ];
        for (own, other) in single.into_iter().chain(self.durations.iter_mut().zip(durations)) {
            *own = of(*own, *other);
        }
    }
}

impl TrialCounts {
    /// Adds counts. Users beyond [`MOST_COUNTED_USERS`] are added to the sums only.
    pub fn add(&mut self, more: &Self) {
        let Self { old, new, users } = more;
        self.old.add(old);
        self.new.add(new);
        for (user, counts) in users {
            if let Some(own) = self.of_user(user) {
                own.old.add(&counts.old);
                own.new.add(&counts.new);
            }
        }
    }

    /// The counts of one user; nothing when there are too many users to count this one alone.
    pub fn of_user(&mut self, user: &str) -> Option<&mut UserCounts> {
        if self.users.len() >= MOST_COUNTED_USERS && !self.users.contains_key(user) {
            return None;
        }
        Some(self.users.entry(user.to_owned()).or_default())
    }

    /// Leaves out one user after another: for each user the counts of all others. All users that are not
    /// counted one by one count as one more. Nothing where only one user has called: then there are no others
    /// to go by.
    pub fn without_each_user(&self) -> Vec<Self> {
        let mut rest = UserCounts { old: self.old.clone(), new: self.new.clone() };
        for user in self.users.values() {
            rest.old.subtract(&user.old);
            rest.new.subtract(&user.new);
        }
        let has_rest = rest.old.calls > 0 || rest.new.calls > 0;
        let users: Vec<_> = self.users.values().chain(has_rest.then_some(&rest)).collect();
        if users.len() < 2 {
            return Vec::new();
        }
        users.into_iter().map(|user| self.without(user)).collect()
    }

    fn without(&self, user: &UserCounts) -> Self {
        let (mut old, mut new) = (self.old.clone(), self.new.clone());
        old.subtract(&user.old);
        new.subtract(&user.new);
        Self { old, new, users: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(calls: u64) -> CallCounts {
        CallCounts { calls, durations: vec![calls], ..CallCounts::default() }
    }

    fn of(user: &str, new: u64) -> TrialCounts {
        let mut counts = TrialCounts { new: calls(new), ..TrialCounts::default() };
        counts.of_user(user).unwrap().new = calls(new);
        counts
    }

    #[test]
    fn counts_without_each_user_are_those_of_the_others() {
        let mut sum = of("a", 3);
        assert_eq!(sum.without_each_user(), [], "nobody else has called");
        sum.add(&of("b", 4));
        sum.add(&of("a", 1));
        let others: Vec<_> = sum.without_each_user().into_iter().map(|one| one.new).collect();
        assert_eq!(others, [calls(4), calls(4)]);
        // Calls of users that are not counted one by one.
        sum.add(&TrialCounts { new: calls(9), ..TrialCounts::default() });
        let others: Vec<_> = sum.without_each_user().into_iter().map(|one| one.new.calls).collect();
        assert_eq!(others, [13, 13, 8]);
    }

    #[test]
    fn as_many_users_as_there_may_be_are_counted_one_by_one() {
        let mut sum = TrialCounts::default();
        (0..40).for_each(|user| sum.add(&of(&user.to_string(), 1)));
        assert_eq!((sum.new.calls, sum.users.len()), (40, MOST_COUNTED_USERS));
        let least = sum.without_each_user().into_iter().map(|one| one.new.calls).min();
        assert_eq!(least, Some(MOST_COUNTED_USERS as u64), "all others count as one user");
    }
}
