//! A policy: all entries of a file, found by what a component is, with the digests that stand for them.
//!
//! A policy is immutable. Which one is in force is said by `tool-grants/src/policy_store.rs`, and what a
//! run may do while it changes by [`effective`](super::effective).

use std::ops::Deref;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::audience::Caller;
use super::model::ComponentPolicy;
use super::render;
use super::signature::{SignerKey, VerifiedSigner};

/// Everything that is granted. Nothing, unless a file says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Sorted by name and binding.
    entries: Vec<Arc<Entry>>,
    /// True when a version that serves is withdrawn because its calls trap.
    rolls_back_on_traps: bool,
    /// Whether any entry has calls that somebody has to approve.
    asks: bool,
    digest: String,
}

/// What the policy knows a component by.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    pub name: &'a str,
    /// `sha256:` and hex, of its bytes.
    pub digest: &'a str,
    pub signer: Option<&'a VerifiedSigner>,
}

/// What a policy says of a component.
#[derive(Debug, Clone, Copy)]
pub enum Lookup<'a> {
    Entry(&'a Arc<Entry>),
    /// The policy has entries of that name, for other digests or signers. Served as if nothing had been said,
    /// this build would be for everybody and without limits.
    OtherBuilds,
    Nothing,
}

/// A [`ComponentPolicy`] of a policy: it changes no more, so that its digest is computed once.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    grants: ComponentPolicy,
    digest: String,
}

impl Policy {
    /// Of grants whose bindings do not overlap: [`file`](super::file) checks that.
    pub(super) fn new(grants: impl IntoIterator<Item = ComponentPolicy>) -> Self {
        Self::of(grants.into_iter().map(|grants| Arc::new(Entry::new(grants))).collect(), true)
    }

    fn of(mut entries: Vec<Arc<Entry>>, rolls_back_on_traps: bool) -> Self {
        entries.sort_by(|a, b| (&a.name, &a.binding).cmp(&(&b.name, &b.binding)));
        let grants = entries.iter().map(|entry| &entry.grants);
        let digest = sha256(render::policy(grants, rolls_back_on_traps));
        let asks = entries.iter().any(|entry| entry.approve.is_some());
        Self { entries, rolls_back_on_traps, asks, digest }
    }

    /// The policy with `rollback-on-traps` set.
    pub(super) fn with_rollback_on_traps(self, rolls_back_on_traps: bool) -> Self {
        Self::of(self.entries, rolls_back_on_traps)
    }

    /// True when a version that serves is withdrawn because its calls trap.
    pub fn rolls_back_on_traps(&self) -> bool {
        self.rolls_back_on_traps
    }

    /// Whether somebody may have to approve a call of anything.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// The policy that grants nothing.
    pub fn empty() -> Self {
        Self::new([])
    }

    /// A policy with `grants` in the place of the entries of that name which could be for the same component.
    #[cfg(test)]
    pub fn with(&self, grants: ComponentPolicy) -> Self {
        let stays = |entry: &&Arc<Entry>| {
            entry.name != grants.name || entry.binding.overlap(&grants.binding).is_none()
        };
        let mut entries: Vec<_> = self.entries.iter().filter(stays).cloned().collect();
        entries.push(Arc::new(Entry::new(grants)));
        Self::of(entries, self.rolls_back_on_traps)
    }

    /// Digest that is equal for files that mean the same, and for no others: `sha256:` and hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// All entries, sorted by name.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// What is granted to a component, never by its name alone. An entry that names the digest goes before
    /// one that trusts only the signer.
    pub fn find(&self, component: Identity<'_>) -> Option<&Arc<Entry>> {
        let Identity { name, digest, signer } = component;
        let bound =
            self.named(name).iter().filter(|entry| entry.is_for(digest, signer.map(VerifiedSigner::key)));
        bound.max_by_key(|entry| !entry.binding.digests.is_empty())
    }

    /// What is granted to a version that was signed with that key when it was proposed, as texts: for
    /// showing.
    pub fn grants_shown(&self, name: &str, digest: &str, signer: Option<&SignerKey>) -> Vec<String> {
        let bound = self.named(name).iter().filter(|entry| entry.is_for(digest, signer));
        let entry = bound.max_by_key(|entry| !entry.binding.digests.is_empty());
        entry.map(|entry| render::grants(entry)).unwrap_or_default()
    }

    /// What the policy says of a component.
    pub fn look_up(&self, component: Identity<'_>) -> Lookup<'_> {
        match self.find(component) {
            Some(entry) => Lookup::Entry(entry),
            None if self.named(component.name).is_empty() => Lookup::Nothing,
            None => Lookup::OtherBuilds,
        }
    }

    /// What is said of an MCP server of that name.
    pub fn mcp(&self, name: &str) -> Option<&Arc<Entry>> {
        self.named(name).iter().find(|entry| entry.mcp.is_some())
    }

    /// The entries of that name, whatever they are bound to.
    pub fn named(&self, name: &str) -> &[Arc<Entry>] {
        let begin = self.entries.partition_point(|entry| entry.name.as_str() < name);
        let end = self.entries.partition_point(|entry| entry.name.as_str() <= name);
        self.entries.get(begin..end).unwrap_or_default()
    }

    /// One digest for callers who may use the same components under the same grants, and for no others: hex,
    /// or nothing for those who may use only what everybody may, which is in the policy's own digest. It
    /// belongs into the keys of caches, so that callers share a result only when the same tools were there.
    pub fn admission_digest(&self, caller: &Caller<'_>) -> String {
        let is_admitted =
            |entry: &&Arc<Entry>| !entry.audience.is_everybody() && entry.audience.admits(caller);
        let mut admitted = self.entries().iter().filter(is_admitted).peekable();
        if admitted.peek().is_none() {
            return String::new();
        }
        let mut hash = Sha256::new();
        // Digests have one length, so that no two lists of them are the same bytes.
        admitted.for_each(|entry| hash.update(entry.digest()));
        format!("{:x}", hash.finalize())
    }

    /// The keys that may sign a component of that name.
    pub fn signers(&self, name: &str) -> impl Iterator<Item = &SignerKey> {
        self.named(name).iter().flat_map(|entry| &entry.binding.signers)
    }
}

impl Entry {
    pub fn new(grants: ComponentPolicy) -> Self {
        let digest = sha256(render::component(&grants));
        Self { grants, digest }
    }

    /// Digest that is equal for equal grants of equal components, and for no others: `sha256:` and hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

impl Deref for Entry {
    type Target = ComponentPolicy;

    fn deref(&self) -> &ComponentPolicy {
        &self.grants
    }
}

/// A digest as policies and records write it: `sha256:` and hex.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    format!("sha256:{:x}", Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::policy;

    #[test]
    fn callers_have_one_digest_when_they_may_use_the_same() {
        let digest = "a".repeat(64);
        let entry = |name: &str, audience: &str| {
            format!("[[component]]\nname = \"{name}\"\ndigest = \"sha256:{digest}\"\n{audience}\n")
        };
        let policy = policy(
            &[
                entry("all", ""),
                entry("paid", "tiers = [\"premium\", \"gold\"]"),
                entry("ops", "roles = [\"admin\"]"),
            ]
            .concat(),
        );
        let of = |user, tier, role| policy.admission_digest(&Caller { user, tier, role });
        assert_eq!(of(None, None, None), "");
        assert_eq!(of(Some("u1"), Some("free"), None), "");
        let paid = of(Some("u1"), Some("premium"), None);
        assert_eq!(paid.len(), 64);
        assert_eq!(of(Some("u2"), Some("gold"), Some("user")), paid);
        let admin = of(Some("u2"), None, Some("admin"));
        let both = of(Some("u2"), Some("gold"), Some("admin"));
        assert!(admin != paid && both != paid && both != admin);
    }
}
