//! The last approved call of a tool on behalf of a user, kept so that whoever decides about the next one sees
//! what is different. One word per user and tool, under its own key: nothing is searched for.
//!
//! Only those are shown it who could have decided about it, or whose it is. Losing it costs a convenience:
//! it is kept when the run goes on already, and a store that fails or takes long fails no decision.

use std::sync::Arc;
use std::time::Duration;

use agent_core::agent_loop::OpenWait;
use agent_core::ports::{KeyValueError, KeyValueStore, Space};
use agent_core::words::{Deciders, Principal, ShownCall, Verdict, Wait};
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::debug;

/// No component can have that name.
const COMPONENT: &str = "agent-host/approved";

/// Most bytes that are kept of one user.
const QUOTA: u64 = 1 << 20;

/// For how long a call is kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most differences that are told.
const MOST_CHANGES: usize = 100;

/// The last approved call of a wait's tool, on behalf of the same user.
#[derive(Debug, Clone, PartialEq)]
pub struct LastApproved {
    /// With what it was made.
    pub arguments: Value,
    /// When it was approved, in milliseconds since 1970.
    pub at: u64,
    /// What the call at hand has otherwise, at most a hundred differences.
    pub changes: Vec<Change>,
}

/// A part of the arguments that is different.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Where it is, as a JSON Pointer.
    pub path: String,
    /// What was there; absent when nothing was.
    pub before: Option<Value>,
    /// What is there; absent when nothing is.
    pub now: Option<Value>,
}

/// Where approved calls are kept, if anywhere.
#[derive(Clone, Default)]
pub(super) struct ApprovedCalls(Option<Arc<dyn KeyValueStore>>);

impl ApprovedCalls {
    pub(super) fn new(store: Arc<dyn KeyValueStore>) -> Self {
        Self(Some(store))
    }

    /// Keeps a call that was approved as it was shown, or with other arguments. One that does not fit leaves
    /// nothing: the call before it is not the last one any more.
    pub(super) async fn keep(&self, owner: &Principal, open: &OpenWait) {
        let (Some(store), Some(decision)) = (&self.0, open.decided()) else { return };
        let Wait { shown, deciders, .. } = &open.wait;
        let arguments = match &decision.verdict {
            Verdict::Approve if decision.by.is_some() => &shown.arguments,
            Verdict::Edit { arguments } => arguments,
            _ => return,
        };
        let Some(space) = space(owner) else { return };
        let kept = json!({ "arguments": arguments, "at": decision.at, "deciders": deciders }).to_string();
        let keeping = async {
            let set = store.set(space, &shown.tool, kept.as_bytes(), Some(KEPT)).await;
            if let Err(KeyValueError::TooLarge { .. } | KeyValueError::QuotaExceeded { .. }) = set {
                store.delete(space, &shown.tool).await?;
            }
            set
        };
        match timeout(PATIENCE, keeping).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "an approved call is not kept for the next decision"),
            Err(_elapsed) => debug!("an approved call is not kept for the next decision"),
        }
    }

    /// The last approved call of the tool, as far as this caller may know of it.
    pub(super) async fn before(
        &self,
        owner: &Principal,
        open: &OpenWait,
        caller: &Principal,
    ) -> Option<LastApproved> {
        let ShownCall { tool, arguments, .. } = &open.wait.shown;
        let kept = timeout(PATIENCE, self.0.as_ref()?.get(space(owner)?, tool));
        let kept: Value = serde_json::from_slice(&kept.await.ok()?.ok()??).ok()?;
        let deciders: Deciders = serde_json::from_value(kept["deciders"].clone()).ok()?;
        if !caller.is_same_user(owner) && !deciders.allow(caller, owner) {
            return None;
        }
        let before = kept["arguments"].clone();
        let mut changes = Vec::new();
        compare(String::new(), Some(&before), Some(arguments), &mut changes);
        Some(LastApproved { arguments: before, at: kept["at"].as_u64()?, changes })
    }
}

fn space(owner: &Principal) -> Option<Space<'_>> {
    Some(Space { component: COMPONENT, user: Some(owner.user_id.as_deref()?), quota: QUOTA })
}

/// What is different, member by member; lists are compared as a whole.
fn compare(path: String, before: Option<&Value>, now: Option<&Value>, changes: &mut Vec<Change>) {
    if before == now || changes.len() >= MOST_CHANGES {
        return;
    }
    let (Some(Value::Object(old)), Some(Value::Object(new))) = (before, now) else {
        return changes.push(Change { path, before: before.cloned(), now: now.cloned() });
    };
    let added = new.keys().filter(|name| !old.contains_key(*name));
    for name in old.keys().chain(added) {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        compare(format!("{path}/{escaped}"), old.get(name), new.get(name), changes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_different_is_named_member_by_member() {
        let before = json!({ "to": "ada", "euros": 5, "note": { "a/b": 1, "kept": true }, "tags": [1] });
        let now = json!({ "to": "ada", "euros": 6, "note": { "kept": true, "new": null }, "tags": [1, 2] });
        let mut changes = Vec::new();
        compare(String::new(), Some(&before), Some(&now), &mut changes);
        let found: Vec<_> =
            changes.into_iter().map(|change| (change.path, change.before, change.now)).collect();
        let change = |path: &str, before, now| (path.to_owned(), before, now);
        assert_eq!(
            found,
            [
                change("/euros", Some(json!(5)), Some(json!(6))),
                change("/note/a~1b", Some(json!(1)), None),
                change("/note/new", None, Some(json!(null))),
                change("/tags", Some(json!([1])), Some(json!([1, 2]))),
            ]
        );
        compare(String::new(), Some(&before), Some(&before), &mut Vec::new());
        let many: Value =
            (0..1_000).map(|n| (n.to_string(), json!(n))).collect::<serde_json::Map<_, _>>().into();
        let mut changes = Vec::new();
        compare(String::new(), Some(&json!({})), Some(&many), &mut changes);
        assert_eq!(changes.len(), MOST_CHANGES);
    }
}
