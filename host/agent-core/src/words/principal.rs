//! On whose behalf a run is made, and what it may do.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Who asked for a run, as the edge authenticated them. It decides which tools the run has. Components never
/// see it: they learn an opaque id at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Principal {
    /// Id of the user; absent where callers are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The user's tier, such as `premium`, as the token says; absent where it says none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The user's role, such as `admin`, as the token says; absent where it says none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

impl Principal {
    /// A caller of whom nothing is known.
    pub const fn nobody() -> &'static Self {
        const { &Self { user_id: None, tier: None, role: None } }
    }

    /// The user of that id, without tier and role.
    pub fn user(user_id: impl Into<String>) -> Self {
        Self { user_id: Some(user_id.into()), tier: None, role: None }
    }

    /// The user of that id; nobody when it is empty, as that of a job which others added without one.
    pub fn user_or_nobody(user_id: &str) -> Self {
        Self { user_id: Some(user_id.to_owned()).filter(|id| !id.is_empty()), tier: None, role: None }
    }

    /// Whether nothing is known about who asks.
    pub fn is_anonymous(&self) -> bool {
        self == Self::nobody()
    }

    /// Whether both are known to be one user, whatever their tiers and roles. Callers without an id are
    /// nobody, not one user.
    pub fn is_same_user(&self, other: &Self) -> bool {
        self.user_id.is_some() && self.user_id == other.user_id
    }
}

/// What a run may do beyond what the operator allows everybody: names of grants. Nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grants(BTreeSet<String>);

impl Grants {
    /// No grants.
    pub const fn none() -> &'static Self {
        const { &Self(BTreeSet::new()) }
    }

    /// The grants of those names.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the grant of that name is among them.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Equal grants have one digest, which no others have: hex SHA-256, or nothing when there are none. It is
    /// part of the keys of cache and single flight, so that callers share an answer only when both were
    /// allowed to get it.
    pub fn digest(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut hash = Sha256::new();
        for name in &self.0 {
            // With its length before it, no name can be read as the end of another.
            hash.update((name.len() as u64).to_be_bytes());
            hash.update(name);
        }
        format!("{:x}", hash.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_without_an_id_are_no_user_together() {
        let premium = |id: &str| Principal { tier: Some("premium".into()), ..Principal::user(id) };
        assert!(premium("u1").is_same_user(&Principal::user("u1")));
        assert!(!premium("u1").is_same_user(&premium("u2")));
        assert!(!Principal::nobody().is_same_user(Principal::nobody()));
        assert!(!Principal::nobody().is_same_user(&premium("u1")));
    }

    #[test]
    fn what_older_versions_wrote_is_a_caller_without_tier_and_role() {
        let read = |text: &str| serde_json::from_str::<Principal>(text).unwrap();
        assert_eq!(read(r#"{"userId":"u1"}"#), Principal::user("u1"));
        assert_eq!(read("{}"), *Principal::nobody());
        let admin = Principal { role: Some("admin".into()), ..Principal::default() };
        assert!(!admin.is_anonymous(), "a journal has to name the role");
        let text = serde_json::to_string(&admin).unwrap();
        assert_eq!((text.as_str(), read(&text)), (r#"{"role":"admin"}"#, admin));
    }

    #[test]
    fn equal_grants_have_one_digest_and_others_have_others() {
        let digest = |names: &[&str]| Grants::new(names.iter().map(|name| (*name).to_owned())).digest();
        assert_eq!(digest(&[]), "");
        assert_eq!(digest(&["a", "b"]), digest(&["b", "a", "a"]));
        let all = [digest(&["a"]), digest(&["b"]), digest(&["ab"]), digest(&["a", "b"])];
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
