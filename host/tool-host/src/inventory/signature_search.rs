//! The search for versions that wait for an approval and that the policy names by the key that signed them.
//!
//! A signature is verified over the component's bytes, so the store is asked for these. A search that found
//! nothing is not made again until the component's record or the policy is another one.

use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use agent_core::ports::Versioned;
use agent_core::words::ComponentVersion;
use tool_versions::record::is_approved;

use crate::error::{FailureClass, LoadError};
use crate::load::{self, Source};
use crate::rollout::Rollout;
use crate::runtime::Runtime;

/// The components of which no waiting version was found to be signed by a trusted key, with the digest of the
/// policy and the revision of the record that this was found under.
#[derive(Clone, Default)]
pub(super) struct Unsigned {
    /// Held for a few instructions, never across an await.
    components: Arc<Mutex<BTreeMap<String, (String, u64)>>>,
}

/// A search among the waiting versions of one component.
pub(super) struct SignatureSearch {
    runtime: Arc<Runtime>,
    rollout: Arc<Rollout>,
    unsigned: Unsigned,
    name: String,
    /// The versions to look at, the newest first.
    digests: Vec<String>,
    /// The policy's digest and the record's revision when the search was made.
    under: (String, u64),
}

impl Unsigned {
    /// A search of the versions of a component that wait and are newer than `named`. Nothing where the policy
    /// trusts no signer for the component, or where the same search has found nothing.
    pub(super) fn search(
        &self,
        runtime: &Arc<Runtime>,
        rollout: &Arc<Rollout>,
        (name, found): (&str, &Versioned),
        named: Option<&str>,
    ) -> Option<SignatureSearch> {
        let policy = runtime.grants.current();
        policy.signers(name).next()?;
        let under = (policy.digest().to_owned(), found.revision);
        if self.components.lock().get(name) == Some(&under) {
            return None;
        }
        let is_waiting = |version: &&ComponentVersion| !is_approved(version);
        let mut waiting: Vec<_> = found.record.versions.iter().filter(is_waiting).collect();
        waiting.sort_by_key(|version| Reverse(version.proposed_at));
        let newer = waiting.iter().map(|version| &version.digest);
        let newer = newer.take_while(|digest| Some(digest.as_str()) != named);
        let digests: Vec<_> = newer.cloned().collect();
        if digests.is_empty() {
            return None;
        }
        let (runtime, rollout, unsigned) = (runtime.clone(), rollout.clone(), self.clone());
        Some(SignatureSearch { runtime, rollout, unsigned, name: name.to_owned(), digests, under })
    }
}

/// What came of a search.
pub(super) enum Found {
    /// The digest of the newest version whose kept signature is of a key that the policy trusts.
    Signed(String),
    Nothing,
    /// The store could not say it for now.
    Unknown,
}

impl SignatureSearch {
    /// Looks at the versions, the newest first.
    pub(super) async fn newest(self) -> Found {
        let mut is_complete = true;
        for digest in &self.digests {
            match self.is_signed(digest).await {
                Ok(true) => return Found::Signed(digest.clone()),
                Ok(false) => {}
                // Bytes that are gone are signed by nobody, and asking again does not help.
                Err(LoadError::Gone) => {}
                Err(error) if error.class() == FailureClass::Permanent => {}
                Err(error) => {
                    tracing::warn!(
                        component = self.name,
                        digest,
                        %error,
                        "who signed a version that waits is not known yet"
                    );
                    is_complete = false;
                }
            }
        }
        if !is_complete {
            return Found::Unknown;
        }
        self.unsigned.components.lock().insert(self.name, self.under);
        Found::Nothing
    }

    async fn is_signed(&self, digest: &str) -> Result<bool, LoadError> {
        // A copy here may have the signature that the store had earlier.
        let (rollout, name) = (Some(self.rollout.clone()), self.name.clone());
        let source = Source::Kept { rollout, memory: None, name, digest: digest.to_owned() };
        let memory = &self.runtime.proposed_content;
        let content = load::read_counted(&self.runtime, memory, &self.name, &source).await?;
        load::is_in_policy(&self.runtime, &self.name, &content).await
    }
}
