//! Who may use a component.
//!
//! The catalog of a run has no tool whose audience does not admit the caller, so a model is never told of
//! one. What that means for the keys of caches is said in [`entries`](super::entries).

use std::collections::BTreeSet;

/// Which callers may use a component. Any list that matches admits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audience {
    /// Absent lists match nobody. All absent: everybody, callers without a token included.
    pub users: Option<BTreeSet<String>>,
    pub tiers: Option<BTreeSet<String>>,
    pub roles: Option<BTreeSet<String>>,
}

/// On whose behalf a run is made, as the edge authenticated them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caller<'a> {
    /// Id of the user; absent where callers are not known.
    pub user: Option<&'a str>,
    pub tier: Option<&'a str>,
    pub role: Option<&'a str>,
}

impl Audience {
    /// Whether everybody may, callers without a token included.
    pub(crate) fn is_everybody(&self) -> bool {
        self.users.is_none() && self.tiers.is_none() && self.roles.is_none()
    }

    pub fn admits(&self, caller: &Caller<'_>) -> bool {
        let matches = |list: &Option<BTreeSet<String>>, own: Option<&str>| {
            list.as_ref().zip(own).is_some_and(|(list, own)| list.contains(own))
        };
        self.is_everybody()
            || matches(&self.users, caller.user)
            || matches(&self.tiers, caller.tier)
            || matches(&self.roles, caller.role)
    }

    /// Whether this admits everybody that `other` admits.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let covers = |own: &Option<BTreeSet<String>>, other: &Option<BTreeSet<String>>| match (own, other) {
            (_, None) => true,
            (None, Some(other)) => other.is_empty(),
            (Some(own), Some(other)) => own.is_superset(other),
        };
        if self.is_everybody() || other.is_everybody() {
            return self.is_everybody();
        }
        covers(&self.users, &other.users)
            && covers(&self.tiers, &other.tiers)
            && covers(&self.roles, &other.roles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Caller<'_> = Caller { user: None, tier: None, role: None };

    fn list(names: &[&str]) -> Option<BTreeSet<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn any_list_that_matches_admits_and_no_list_admits_everybody() {
        let caller = Caller { user: Some("u1"), tier: Some("premium"), role: Some("admin") };
        let everybody = Audience::default();
        assert!(everybody.admits(&NOBODY) && everybody.admits(&caller));
        let rows = [
            (list(&["u1"]), None, None, true),
            (list(&["u2"]), None, None, false),
            (None, list(&["premium"]), None, true),
            (None, list(&["Premium"]), None, false),
            (None, None, list(&["admin"]), true),
            (list(&["u2"]), list(&["free", "premium"]), None, true),
            (list(&["u2"]), list(&["free"]), list(&["owner"]), false),
            // A value of one kind is none of another.
            (list(&["premium", "admin"]), list(&["u1"]), list(&["u1"]), false),
            (list(&[]), None, None, false),
        ];
        for (users, tiers, roles, admitted) in rows {
            let audience = Audience { users, tiers, roles };
            assert_eq!(audience.admits(&caller), admitted, "{audience:?}");
            assert!(!audience.admits(&NOBODY), "{audience:?}");
        }
    }

    #[test]
    fn an_audience_covers_those_it_admits_all_of() {
        let users = |names: &[&str]| Audience { users: list(names), ..Audience::default() };
        let tiers = |names: &[&str]| Audience { tiers: list(names), ..Audience::default() };
        let both = Audience { users: list(&["a"]), tiers: list(&["t"]), roles: None };
        let everybody = Audience::default();
        let rows = [
            (&everybody, &users(&["a"]), true),
            (&users(&["a"]), &everybody, false),
            (&everybody, &everybody, true),
            (&users(&["a", "b"]), &users(&["a"]), true),
            (&users(&["a"]), &users(&["a", "b"]), false),
            (&both, &users(&["a"]), true),
            (&both, &tiers(&["t"]), true),
            (&users(&["a"]), &both, false),
            (&users(&["t"]), &tiers(&["t"]), false),
        ];
        for (one, other, covers) in rows {
            assert_eq!(one.covers(other), covers, "{one:?} covers {other:?}");
        }
    }
}
